"""What the engine's own statements say of an error: where it was printed, when, which options it is about. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gb10.image.recipe.arch import SHARED_MEMORY
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.engine_releases import Releases
from gb10.serving.doctor.error_case import ENGINES, distribution_of
from gb10.serving.doctor.log_scan import Scan
from gb10.serving.doctor.message_index import ENOUGH, Known, MessageIndex, Row
from gb10.serving.doctor.printed_statements import Statement, telling_words

RAISED_AT: Final = re.compile(r"(?P<file>[^:]{1,300}):(?P<line>\d{1,7})(?: in .*)?")
TYPE: Final = re.compile(r"(?P<type>[\w.]{2,160}): (?P<message>.*)", re.DOTALL)
WRAPPED: Final = re.compile(r"(?P<kind>Value error|Assertion failed), (?P<message>[^\[]{3,2000})")
WRAPPED_AS: Final = {"Value error": "ValueError", "Assertion failed": "AssertionError"}
CHIP: Final[Mapping[int, str]] = {
    SHARED_MEMORY: "what a block of a GB10 may have of shared memory",
    102_400: f"more shared memory than the {SHARED_MEMORY:,} B of a block of a GB10",
    48: "the SMs of a GB10",
    121: "the compute capability of a GB10",
    65_536: "the registers of an SM",
}
"""Numbers that are the machine's."""
CALLED: Final = ("flashinfer", "transformers", "compressed_tensors", "huggingface_hub")
"""Packages that each engine calls."""
SHOWN: Final = 6
VALUE: Final = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """An error of a log, as its statement is sought."""

    message: str
    exception: str
    file: str
    """Of the innermost frame, inside of its site-packages; empty where the log has none."""
    line: int
    releases: Mapping[str, str]
    """The engines' releases that are known, by engine."""
    engine: str | None = None
    """The engine that wrote the log, where that is known."""
    said: Mapping[str, str] = field(default_factory=dict)
    """The versions by engine as the log or the image says them, known or not."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that tell the message from others."""
        return telling_words(self.message)


def question_of(one: Finding, scan: Scan, releases: Releases) -> Question:
    """What is asked about a finding of a log."""
    text = TYPE.fullmatch(one.value)
    kind = text["type"].rpartition(".")[2] if text else ""
    message = text["message"] if text and kind else one.value
    wrapped = WRAPPED.search(message) if kind == "ValidationError" else None
    if wrapped:  # what pydantic caught is what the engine raised
        kind, message = WRAPPED_AS[wrapped["kind"]], wrapped["message"]
    at = RAISED_AT.fullmatch(one.raised_at)
    named: dict[str, str] = {}
    said: dict[str, str] = {}
    for engine in ("vllm", "sglang", *CALLED):
        distribution = distribution_of(engine)
        version = (scan.image.versions if scan.image else {}).get(distribution) or scan.facts.packages.get(distribution)
        if version:
            said[engine] = version
            found = releases.find(distribution, version)
            named[engine] = found.version if found else version
    if "flashinfer" not in named and "vllm" in named:
        brought = releases.find("vllm", named["vllm"])
        wanted = brought.requires.get("flashinfer-python", "") if brought else ""
        if wanted.startswith("=="):
            named["flashinfer"] = wanted[2:]
    return Question(
        message=message,
        exception=kind,
        file=at["file"] if at else "",
        line=int(at["line"]) if at else 0,
        releases=named,
        said=said,
        engine=scan.start.engine
        or next(
            (name for name in ("vllm", "sglang", "tensorrt_llm") if at and at["file"].startswith(f"{name}/")),
            scan.marked,
        ),
    )


def shown_release(asked: Question, known: Known) -> str:
    """The release whose statement is shown: that of the log where it has it, else the newest that has it."""
    wanted = asked.releases.get(known.engine)
    return wanted if wanted in known.here else known.here[-1]


def other_release(asked: Question, known: Known, indexed: Collection[str]) -> str:
    """A sentence when the log's version is not ``indexed``, so that another release is shown; else empty."""
    said = asked.said.get(known.engine, "")
    shown = shown_release(asked, known)
    return f"{said} is not in the index; shown is {shown}." if said and said not in indexed and said != shown else ""


def known_statement(asked: Question, indexes: Sequence[MessageIndex]) -> Known | None:
    """The statement whose words a message has; of equal ones, that of the traceback's own file."""
    best: tuple[float, MessageIndex, Row] | None = None
    for index in indexes:
        if asked.engine and index.engine not in (asked.engine, *CALLED):
            continue
        found = index.find(asked.message, asked.exception, asked.file)
        if found is not None and (best is None or found[1] > best[0]):
            best = (found[1], index, found[0])
    return best[1].known(best[2], asked.releases.get(best[1].engine)) if best else None


def best_statement(asked: Question, statements: Sequence[Statement]) -> Statement | None:
    """The statement of a file, or of several, that printed a message; None when none has its words."""
    own = set(asked.words)
    ranked = []
    for one in statements:
        words = one.words
        share = sum(word in own for word in words) / len(words) if words else 0.0
        here = one.file == asked.file and one.line <= asked.line <= one.end
        if share >= ENOUGH or (here and share > 0):
            ranked.append((share + here, one.exception == asked.exception, len(words), one))
    return max(ranked, key=lambda one: one[:3])[3] if ranked else None


def explanation(
    asked: Question,
    *,
    known: Known | None,
    statement: Statement | None,
    scan: Scan,
    settings: frozenset[str],
    judged: bool,
    origin: str = "",
) -> tuple[str, ...]:
    """Sentences about the statement of an error; ``origin`` is where its text was read.

    ``settings``: options and variables that are some; ``judged``: whether a family has said what it means.
    """
    found: list[str] = []
    names: Sequence[str] = ()
    if statement is not None:
        found.append(f"Printed by {statement.file}:{statement.line} in {statement.function} ({origin}).")
        values = statement.values(asked.message)
        if statement.conditions:
            found.append(f"It does so when: {' and '.join(reversed(statement.conditions))}")
        if values:
            filled = ", ".join(f"{hole} = {value[:VALUE]}" for hole, value in values.items() if hole != "…")
            found.append(f"In this log: {filled}.") if filled else None
    if known is not None:
        row = known.row
        name = ENGINES.get(known.engine, known.engine)
        span = known.here[0] if len(known.here) == 1 else f"{known.here[0]} to {known.here[-1]}"
        if statement is None:
            at = f":{row.lines[max(row.lines)]}"
            found.append(f"A statement of {name} {span}: {row.file}{at} ({row.exception or 'C++'}).")
        names = [one for one in row.names if one in settings]
        if known.gone:
            how = "another text" if known.changed else "no such statement"
            found.append(f"{name} {known.gone} has {how} there: an upgrade may help, or changes what is checked.")
        elif known.here[-1] != known.here[0] or len(known.here) > 1:
            found.append(
                f"The newest release that is known, {known.here[-1]}, has the same check: an upgrade helps only where "
                "what it checks has changed."
            )
    if names:
        given = [f"{option}{_value_in_log(option, scan)}" for option in names[:SHOWN]]
        found.append(f"Options and variables around it: {', '.join(given)}.")
    numbers = dict.fromkeys(
        int(text.replace(",", "")) for text in re.findall(r"(?<![\w.])\d[\d,]{1,9}(?![\w.])", asked.message)
    )
    chip = [f"{number:,} is {CHIP[number]}" for number in numbers if number in CHIP]
    if chip and not judged:
        found.append(f"{'; '.join(chip)}.")
    return tuple(found)


def _value_in_log(option: str, scan: Scan) -> str:
    value = scan.start.option(option.lstrip("-").replace("-", "_")) if option.startswith("--") else None
    return f" ({value[:60]} in this log)" if value else ""
