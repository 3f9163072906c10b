"""A bundle: a result with all that repeats it elsewhere, as a zip of plain files, each named with its sha256."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from gb10 import __version__
from gb10.core.files import read_plain_file
from gb10.core.journal import head_of
from gb10.errors import UsageError, VerifyError
from gb10.image.patches.archives import DAMAGED
from gb10.serving.benchmark.launch_journal import JOURNAL
from gb10.serving.benchmark.launch_line import LaunchLine, Outcome, read_launch, result_of
from gb10.serving.benchmark.measuring import Measure
from gb10.serving.load_generator.benchy import LARGEST_BOOK, Book
from gb10.serving.load_generator.load_plan import Plan, Tool
from gb10.serving.load_generator.request_fields import check_fields
from gb10.serving.load_generator.results import ServeResult

SCHEMA: Final = "gb10/bundle/v1"
BUNDLE: Final = "bundle.zip"
MANIFEST: Final = "manifest.json"
BOOK: Final = "book.txt"
RECIPE: Final = "recipe.yaml"
LIMITS: Final = {MANIFEST: 1 << 16, JOURNAL: 256 << 20, BOOK: LARGEST_BOOK, RECIPE: 1 << 20}
"""The files of a bundle and their most bytes; nothing else is in one."""
LARGEST: Final = 128 << 20
DAY: Final = (1980, 1, 1, 0, 0, 0)
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Tokens = Annotated[int, Field(ge=0, le=1 << 24)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanOfHead(_Part):
    """The load of a bundle."""

    prompt: Tokens
    answer: Tokens
    depth: Tokens
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=512)]], Field(min_length=1, max_length=64)]
    runs: Annotated[int, Field(ge=1, le=1000)]
    warm_up: Annotated[int, Field(ge=0, le=100)]
    exact: bool
    canary_tokens: Annotated[int, Field(ge=16, le=1 << 20)]
    extra: dict[str, JsonValue]
    tool: Tool

    def plan(self) -> Plan:
        """The load as it is run. Raises UsageError for fields that the bench itself sets, too many or too deep."""
        check_fields(self.extra, exact=self.exact)
        own = self.model_dump(exclude={"answer", "concurrency"})
        return Plan(**own, answers=(self.answer,), concurrency=tuple(self.concurrency))


class _Manifest(_Part):
    schema_name: Literal["gb10/bundle/v1"] = Field(alias="schema")
    gb10: str
    files: dict[str, Sha]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a bundle says; ``head`` is the first line of its journal, read by those who need a part."""

    head: Mapping[str, Any]
    plan: Plan
    launches: tuple[LaunchLine, ...]
    book: Book
    recipe: str | None


def write_bundle(path: Path, journal: str, book: Book, recipe: str | None) -> str:
    """Write a bundle; its sha256. Raises UsageError."""
    texts = {JOURNAL: journal, BOOK: book.text, **({RECIPE: recipe} if recipe is not None else {})}
    files = {name: text.encode() for name, text in texts.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = {"schema": SCHEMA, "gb10": __version__, "files": sums}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in {MANIFEST: json.dumps(manifest, indent=1).encode(), **files}.items():
            member = zipfile.ZipInfo(name, DAY)
            member.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(member, content)
    try:
        path.write_bytes(out.getvalue())
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror) from error
    return hashlib.sha256(out.getvalue()).hexdigest()


def read_bundle(path: Path) -> Bundle:
    """A bundle from anywhere, read within limits. Raises UsageError, and VerifyError for a file with another sha256."""
    files = _files(path, read_plain_file(path, LARGEST, "name a bundle: bundle.zip of bench compare or matrix"))
    try:
        manifest = _Manifest.model_validate_json(files.pop(MANIFEST, b""))
    except ValidationError as error:
        raise UsageError(f"{path} is no bundle", where=f"{MANIFEST}: {error.errors()[0]['msg']}") from error
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != manifest.files.get(name):
            raise VerifyError(f"{path} was changed: {name} has not the sha256 of its manifest")
    missing = sorted({JOURNAL, BOOK, *manifest.files} - files.keys())
    if missing:
        raise UsageError(f"{path} is not whole", where=f"it has no {missing[0]}")
    lines = files[JOURNAL].decode("utf-8", "replace").splitlines()
    head = head_of(lines[0]) if lines else {}
    return Bundle(
        head=head,
        plan=_plan(path, head),
        launches=tuple(one for line in lines[1:] if (one := read_launch(line))),
        book=Book(text=files[BOOK].decode("utf-8", "replace"), name=f"the book of {path.name}"),
        recipe=files[RECIPE].decode("utf-8", "replace") if RECIPE in files else None,
    )


def _plan(path: Path, head: Mapping[str, Any]) -> Plan:
    try:
        return PlanOfHead.model_validate_json(json.dumps(head.get("plan"))).plan()
    except ValidationError as error:
        first = error.errors()[0]
        where = f"plan.{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UsageError(f"{path} has no load that can be repeated", where=where) from error
    except UsageError as error:
        raise UsageError(f"{path} has no load that can be repeated", where=f"plan.extra: {error.message}") from error


def _files(path: Path, content: bytes) -> dict[str, bytes]:
    """The files of a zip by name, each within its limit."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as zipped:
            for member in zipped.infolist():
                if member.filename not in LIMITS or member.filename in found:
                    raise UsageError(f"{path} is no bundle", where=f"it has {member.filename[:80]!r}")
                with zipped.open(member) as stream:
                    found[member.filename] = stream.read(LIMITS[member.filename] + 1)
                if len(found[member.filename]) > LIMITS[member.filename]:
                    raise UsageError(f"{path} is no bundle", where=f"{member.filename} is too large")
    except DAMAGED as error:
        raise UsageError(f"{path} is no zip that can be read", where=str(error)[:200]) from error
    return found


def write_serve_bundle(path: Path, served: ServeResult, measure: Measure) -> str:
    """Write it; its sha256. Raises UsageError."""
    facts = {"endpoint": served.endpoint}
    outcome = Outcome(result=result_of(served.verdict, ""), why=served.why, facts=facts, serve=served.document())
    head = json.dumps({"kind": "serve", **measure.document})
    return write_bundle(path, f"{head}\n{outcome.line(served.boot, 0, 0)}\n", measure.book, None)
