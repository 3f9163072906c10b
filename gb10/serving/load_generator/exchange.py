"""One request and what came back, as a frozen value; what is wrong with it, in sentences. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gb10.serving.guard.finding import Ending

FEWEST_CHARACTERS: Final = 0.25
"""Characters a token, below which the usage and the text cannot be of one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the server counts them."""

    prompt: int | None = None
    completion: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The truth of one stream. Times are seconds since the request was sent."""

    status: int = 0
    """The HTTP status; 0 when no answer came."""
    content: str = ""
    reasoning: str = ""
    spelling: str = ""
    """How the server spells reasoning; ``both`` when it sends each text twice."""
    tool_calls: int = 0
    finish_reason: str | None = None
    done: bool = False
    error: str = ""
    usage: Usage | None = None
    events: int = 0
    """Events but the end mark."""
    steps: int = 0
    """Events with text: one per step of the engine, unless something batches them."""
    malformed: int = 0
    late: int = 0
    """Events with text after the finish reason, and events after the end mark."""
    content_type: str = ""
    arrived: tuple[float, ...] = ()
    """When each event with text arrived."""
    seconds: float = 0.0
    """Until the stream ended."""

    @property
    def ending(self) -> Ending:
        """What the guard needs to know of the end."""
        return Ending(finish_reason=self.finish_reason, done=self.done, error=self.error, tool_calls=self.tool_calls)

    @property
    def steps_per_second(self) -> float | None:
        """Events with text a second, after the first; None for fewer than two."""
        if len(self.arrived) < 2 or self.arrived[-1] <= self.arrived[0]:
            return None
        return (len(self.arrived) - 1) / (self.arrived[-1] - self.arrived[0])

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens (by usage) an event with text; above 1 with speculation; None when usage is missing."""
        return self.usage.completion / self.steps if self.usage and self.usage.completion and self.steps else None


def flaws(exchange: Exchange) -> tuple[str, ...]:
    """What the stream claims and does not keep, apart from its text and its end; figures in parentheses. Pure."""
    found = []
    if exchange.status == 200 and "text/event-stream" not in exchange.content_type:
        found.append(f"the content type is not text/event-stream ({exchange.content_type or 'missing'})")
    if exchange.malformed:
        found.append(f"events are not readable ({exchange.malformed} of {exchange.events})")
    if exchange.late:
        found.append(f"events arrived after the end ({exchange.late})")
    return (*found, *_of_usage(exchange))


def _of_usage(exchange: Exchange) -> tuple[str, ...]:
    """Usage against text: a count that the text cannot have."""
    usage, text = exchange.usage, len(exchange.content) + len(exchange.reasoning)
    if usage is None or usage.completion is None:
        return ("the server sends no usage, so its tokens are not counted",) if exchange.done and exchange.steps else ()
    if usage.completion < exchange.steps // 2:
        return (f"usage counts fewer tokens than there were events with text ({usage.completion}, {exchange.steps})",)
    if usage.completion > 8 and text < FEWEST_CHARACTERS * usage.completion and not exchange.tool_calls:
        return (f"usage counts more tokens than the text can have ({usage.completion}, {text} characters)",)
    return ()


def summed(found: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The flaws of several streams, each kind once: its first example, and how many streams have it. Pure."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for flaw in (flaw for one in found for flaw in one):
        kind = flaw.partition(" (")[0]
        first.setdefault(kind, flaw)
        counts[kind] += 1
    return tuple(f"{text}: {counts[kind]} of {len(found)} streams" for kind, text in first.items())
