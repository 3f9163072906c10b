"""A release's modules that look up tuned files, and the files for a GB10 that it ships, taken out of its archive."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, ValidationError

from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.installation import PACKAGE
from gb10.core.proc import SILENT, CommandFailedError, capture_while_active
from gb10.errors import UsageError
from gb10.image.moe.child.question import Question
from gb10.image.moe.tuned_name import DEVICE, SPELLED, TABLE, EngineTable, Family, read_table
from gb10.image.patches.release_files import Library, open_release
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.arch import SHARED_MEMORY

SITE: Final = "site"
COMPILES_121: Final = Version("3.5")
"""The first Triton that compiles for capability 12.1."""
SECONDS: Final = 120
LIMITS: Final = {"RLIMIT_CPU": 110, "RLIMIT_FSIZE": 64 << 20, "RLIMIT_AS": 2 << 30, "RLIMIT_CORE": 0}
PACKED_KERNEL: Final = "fused_moe_kernel_gptq_awq"
"""Both engines' kernel for weights in int4 and int8 that are converted before they are multiplied."""
START: Final = "import sys; sys.path.insert(0, {root!r}); from gb10.image.moe.child.ask import main; main()"


class EngineAnswer(BaseModel):
    """An answer of the child: see ``gb10.image.moe.child.question.Answer``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    opened: str | None
    name: str
    keys: list[int] | None
    raised: str | None
    spans: list[tuple[int, int, Any, Literal["triton", "cuda", "raises"], Any]]


class Answers(BaseModel):
    """All answers, each kernel's parameters by family, and the types that the engine names files of experts by."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    answers: list[EngineAnswer]
    parameters: dict[str, list[str]]
    dtypes: list[str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """A release of an engine whose look-ups can be asked. ``files`` holds its modules and shipped files."""

    host: Host
    engine: str
    version: str
    triton: str
    table: EngineTable
    files: Path

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that this release has."""
        return tuple(family for family in self.table.families if self.module(family))

    def module(self, family: Family) -> str | None:
        """The path of a family's module in this release; None when the release has none."""
        return _present(self.files, self.table.families[family].modules)

    @property
    def compiles(self) -> bool:
        """Whether the release's Triton compiles for a GB10; True where no Triton is known."""
        return not self.triton or Version(self.triton) >= COMPILES_121

    def kernel(self, family: Family) -> str | None:
        """The path of the module with a family's kernel."""
        return _present(self.files, self.table.families[family].kernels)


def open_judge(host: Host, root: Path, engine: str, version: str, triton: str | None) -> Judge:
    """The look-ups of a release, fetched by its pin; ``triton``: its version, None for the one that goes with it.

    Raises UsageError, FetchError.
    """
    table = read_table(root, engine)
    library = Library(root=root / "patches", store=host.store, env=host.env, reporter=host.reporter)
    releases = load_releases(root / "patches")
    pin = releases.source(engine).pinned(Version(version))
    key = digest(["moe", 1, engine, version, pin.sha256 if pin else "", (root / TABLE).read_text(encoding="utf-8")])

    def make(work: Path) -> None:
        _unpack(open_release(library, releases, engine, Version(version)).tree, table, work / SITE)

    files = host.store.ensure("moe", key, make)
    found = triton or table.triton_of(Version(version)) or ""
    if not found and any(home.versioned for home in table.families.values()):
        raise UsageError(
            f"the Triton of {engine} {version} is not known", hint="name it: --triton VERSION; SGLang's folders have it"
        )
    return Judge(host=host, engine=engine, version=version, triton=found, table=table, files=files)


def _unpack(tree: Tree, table: EngineTable, site: Path) -> None:
    """Write the modules; of the tuned files, those for a GB10, and an empty folder for each version of Triton."""
    site.mkdir(parents=True)
    modules = [path for home in table.families.values() for path in (*home.modules, *home.kernels)]
    for path in dict.fromkeys((*modules, *table.also)):
        content = tree.read(path)
        if content is not None:
            _write(site / path, content)
    for home in table.families.values():
        folder = _folder(site, home.modules, home.folder)
        for path in tree.paths() if folder else ():
            if path.startswith(f"{folder}/") and path.endswith(".json"):
                (site / path).parent.mkdir(parents=True, exist_ok=True)
                if SPELLED.lower() in path.lower():
                    _write(site / path, tree.read(path) or b"")


def _folder(site: Path, modules: Sequence[str], folder: str) -> str | None:
    module = next((path for path in modules if (site / path).is_file()), None)
    return f"{PurePosixPath(module).parent}/{folder}" if module else None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _present(files: Path, paths: Sequence[str]) -> str | None:
    return next((path for path in paths if (files / SITE / path).is_file()), None)


def ask(judge: Judge, questions: Sequence[Question], work: Path) -> Answers:
    """The engine's own answers, from a child process with limits. Raises UsageError when it gives none."""
    request = work / "request.json"
    request.write_text(json.dumps(_request(judge, questions)), encoding="utf-8")
    argv = (sys.executable, "-I", "-S", "-c", START.format(root=str(PACKAGE.parent)), str(request))
    env = {"HOME": str(work), "PATH": os.defpath, "TMPDIR": str(work), "LANG": "C.UTF-8"}
    try:
        return Answers.model_validate_json(capture_while_active(argv, patience=SECONDS, env=env, cwd=work))
    except CommandFailedError as error:
        why = f"it ran for more than {SECONDS} s" if error.returncode == SILENT else _last_line(error.tail)
        raise UsageError(
            f"the look-up of {judge.engine} {judge.version} ended without an answer",
            where=why,
            hint="this release may look up in another way than those that gb10 knows: recipes/moe/engines.toml",
        ) from error
    except ValidationError as error:
        raise UsageError(
            f"the look-up of {judge.engine} {judge.version} gave no readable answer", where=str(error)[:400]
        ) from error


def _last_line(text: str) -> str:
    """The reason at the end of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][-400:] if lines else "it printed nothing"


def _request(judge: Judge, questions: Sequence[Question]) -> Mapping[str, Any]:
    site = judge.files / SITE
    modules = {family: judge.module(family) for family in judge.families}
    kernels = {family: judge.kernel(family) for family in judge.families}
    paths = [path for path in (*modules.values(), *kernels.values(), *judge.table.also) if path]
    return {
        "limits": LIMITS,
        "device": DEVICE,
        "shared": SHARED_MEMORY,
        "sources": {path: str(site / path) for path in paths if (site / path).is_file()},
        "modules": modules,
        "kernels": {
            **{family: (path, judge.table.families[family].kernel) for family, path in kernels.items() if path},
            **({"packed": (kernels["moe"], PACKED_KERNEL)} if kernels.get("moe") else {}),
        },
        "questions": [asdict(question) for question in questions],
    }
