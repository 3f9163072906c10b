"""What each unit of an engine's project read when it was compiled here: the compiler's own lists, by the source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from gb10.core.files import read_plain_file
from gb10.core.store import Store
from gb10.errors import BuildError, UsageError
from gb10.image.plan.values import Plan, Step, source_archive

READS: Final = "reads.json"
LARGEST: Final = 32 << 20
"""Bytes of such a file: vLLM's has some 400 kB."""
SECTION: Final = "wheels"
Text = Annotated[str, StringConstraints(min_length=1, max_length=1 << 12)]
Reads = Mapping[str, Mapping[str, frozenset[str]]]
"""By target and unit, the files of the project that the unit reads."""
KINDS: Final = TypeAdapter(
    dict[Text, dict[Text, Annotated[frozenset[Text], Field(max_length=1 << 16)]]],
)


def keep_reads(work: Path, plan: Plan, step: Step) -> None:
    """Name the lists of a fresh wheel by the source that was compiled. Raises BuildError for what are no such lists."""
    path, build = work / READS, plan.recipe.wheels[step.name]
    if not path.exists():
        return
    try:
        KINDS.validate_json(read_plain_file(path, LARGEST))
    except (ValidationError, UsageError) as error:
        raise BuildError(f"the build stage exported an odd {READS}", where=str(error)[:400]) from error
    path.rename(work / _name(source_archive(build.source, plan.recipe, plan.lock).sha256))


def known_reads(store: Store, sha256: str) -> Reads:
    """The lists of all targets of a source archive that were compiled here. What cannot be read does not count."""
    found: dict[str, Mapping[str, frozenset[str]]] = {}
    for path in sorted((store.root / SECTION).glob(f"*/{_name(sha256)}")):
        try:
            found |= KINDS.validate_json(read_plain_file(path, LARGEST))
        except (ValidationError, UsageError):
            continue
    return found


def _name(sha256: str) -> str:
    return f"reads-{sha256}.json"
