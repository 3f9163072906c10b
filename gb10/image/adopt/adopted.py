"""What becomes of somebody's Dockerfile: a verdict for each line, and the parts of a recipe. Frozen values."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gb10.image.adopt.build_files import BuildFile
from gb10.image.adopt.dockerfile import Instruction, count_lines

Verdict = Literal["taken", "mod", "no-effect", "not-taken", "other-stage", "unchecked", "unread"]
"""``taken``: in the recipe. ``mod``: a command of a mod. ``no-effect``: it changes nothing that an image keeps.
``not-taken``: left out, with the reason. ``other-stage``: of a stage that is not the image's. ``unchecked``: what it
needs to be judged is not here. ``unread``: our grammar cannot read it."""
WORST: Final[tuple[Verdict, ...]] = ("unread", "unchecked", "not-taken", "mod", "taken", "other-stage", "no-effect")
Need = Literal["", "wheel", "index", "base", "download", "launch", "label", "stage", "value", "lost", "trial"]
"""What a line that is not taken would need: a wheel that is compiled, another package index, the base image, a file of
the web with its sha256, an option at the start, a label, another stage, a value, a line that is not taken itself, a
trial that runs to its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One instruction, or one command of a RUN, and what became of it. Lines count from 1."""

    first: int
    last: int
    instruction: str
    text: str
    verdict: Verdict
    why: str
    need: Need = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelNeeded:
    """A project that is compiled in the Dockerfile: ``ref`` is its commit or tag, empty where none is named."""

    name: str
    url: str
    ref: str


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of one instruction, as lines of a shell script; ``first`` and ``last`` are the instruction's lines."""

    first: int
    last: int
    text: str


HEAD: Final = "#!/usr/bin/env bash\n# Made by `adopt` of {name}: read it before you build.\nset -euo pipefail\n"
HERE: Final = 'here=$(cd "$(dirname "$0")" && pwd)\n'


@dataclass(frozen=True, kw_only=True, slots=True)
class ModDraft:
    """Commands that run in the image, in their order; ``files`` lie beside run.sh, ``name`` is the Dockerfile's."""

    name: str
    blocks: tuple[Block, ...]
    network: bool
    files: Mapping[str, BuildFile] = field(default_factory=dict)

    @property
    def script(self) -> str:
        """run.sh."""
        texts = "\n\n".join(block.text for block in self.blocks)
        return f"{HEAD.format(name=self.name)}{HERE if self.files else ''}\n{texts}\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Adopted:
    """A Dockerfile, or a folder of patches, as the parts of a recipe on an image of others.

    ``base`` is empty when the Dockerfile does not name its image. ``remarks`` are about the whole.
    """

    base: str
    platform: str = ""
    """``linux/arm64`` or ``linux/amd64``, where FROM names one of them."""
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    overlay: Mapping[str, BuildFile] = field(default_factory=dict)
    patches: Mapping[str, bytes] = field(default_factory=dict)
    mods: tuple[ModDraft, ...] = ()
    wheels: tuple[WheelNeeded, ...] = ()
    lines: tuple[Line, ...] = ()
    remarks: tuple[str, ...] = ()
    instructions: tuple[Instruction, ...] = field(default=(), repr=False)
    """Of the Dockerfile, with its secrets; none of a folder of patches."""
    unsure: tuple[str, ...] = ()
    """Packages that are not taken and whose import names decide about a line."""

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Lines of the Dockerfile, without comments, by verdict; a line with several commands has its worst one."""
        if not self.instructions:
            return Counter(line.verdict for line in self.lines)
        return count_verdicts(self.instructions, self.lines)

    @property
    def unchecked(self) -> tuple[Line, ...]:
        """The lines without a verdict."""
        return tuple(line for line in self.lines if line.verdict in ("unchecked", "unread"))


def count_verdicts(instructions: Iterable[Instruction], lines: Iterable[Line]) -> dict[Verdict, int]:
    """How many lines of the Dockerfile have each verdict. Pure."""
    found: dict[int, Verdict] = {}
    for line in lines:
        for row in range(line.first, line.last + 1):
            found[row] = min(found.get(row, line.verdict), line.verdict, key=WORST.index)
    counts = dict.fromkeys(WORST, 0)
    for one in instructions:
        rows = [row for row in range(one.first, one.last + 1) if row in found]
        plain = one.text.split("\n")
        kept = [
            row
            for row in rows
            if one.heredocs or (plain[row - one.first].strip() and not plain[row - one.first].lstrip().startswith("#"))
        ]
        for row in kept:
            counts[found[row]] += 1
        missing = count_lines(one) - len(kept)  # lines of only `fi`, `done` or a backslash: as the worst of theirs
        if missing > 0:
            counts[min((found[row] for row in rows), key=WORST.index, default="unread")] += missing
    return {verdict: count for verdict, count in counts.items() if count}
