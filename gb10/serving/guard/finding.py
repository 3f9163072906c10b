"""What the guard says of a stream: verdicts, and the findings they rest on."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Of one stream, from best to worst."""

    OK = "OK"
    SUSPECT = "SUSPECT"
    """Something to look at; never a reason to refuse a figure."""
    CUT = "CUT"
    """The stream ended without a finish reason or without its end mark."""
    EMPTY = "EMPTY"
    """Nothing that a reader could see arrived."""
    LOOP = "LOOP"
    """The model repeats itself after a good start, as small models do; no sign of a broken kernel."""
    ERROR = "ERROR"
    """The server reported an error, or the connection broke."""
    GARBAGE = "GARBAGE"
    """The text collapsed: what a wrong kernel, a wrong weight or a wrong cache gives."""

    @property
    def bad(self) -> bool:
        """Whether a throughput beside it means nothing."""
        return self not in (Verdict.OK, Verdict.SUSPECT, Verdict.LOOP)


ORDER = tuple(Verdict)


def worst(verdicts: "tuple[Verdict, ...] | list[Verdict]") -> Verdict:
    """The worst verdict of several; OK for none."""
    return max(verdicts, key=ORDER.index, default=Verdict.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sign in one stream."""

    verdict: Verdict
    sign: str
    """flood, loop, few, share, bytes, odd, mixed, alike, canary, crossed; of suspects digits, zipped, words, nearly."""
    at: int
    """The character at which it was seen, counted from 1."""
    onset: int
    """The character after which the sign starts, as far as the guard looks back."""
    what: str
    """One sentence for people."""
    channel: str = "content"
    """content or reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a stream ended, as its transport reports it."""

    finish_reason: str | None = None
    done: bool = False
    """The end mark ([DONE]) arrived."""
    error: str = ""
    """What the server or the connection reported; empty for none."""
    tool_calls: int = 0
    """Calls of tools in the answer: an answer without text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of one stream and what it rests on."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    characters: int = 0
    """Of content and reasoning."""
    ending: Ending | None = None

    @property
    def why(self) -> str:
        """The sentence of the finding that decided, or empty."""
        return next((finding.what for finding in self.findings if finding.verdict is self.verdict), "")
