"""The verdict of one stream: its two channels watched as they arrive, then how it ended."""

from typing import Final, Literal

from gb10.serving.guard.finding import Ending, Finding, Judgement, Verdict, worst
from gb10.serving.guard.limits import Limits
from gb10.serving.guard.watch import Watch

Channel = Literal["content", "reasoning"]
KEPT: Final = 16_000
"""Characters of a stream that are kept, to compare it with others of its batch."""


class StreamWatch:
    """Content and reasoning of one stream. Feed it, look at ``sure``, then judge it once."""

    def __init__(self, limits: Limits, *, forced: bool = False) -> None:
        """``forced``: the server was made to go on after the answer's end (ignore_eos)."""
        self.channels: dict[Channel, Watch] = {
            "content": Watch(limits, "content", forced=forced),
            "reasoning": Watch(limits, "reasoning", forced=forced),
        }
        self._kept: list[str] = []
        self._room = KEPT

    def feed(self, text: str, channel: Channel = "content") -> None:
        """Take what arrived in one channel."""
        if text:
            self.channels[channel].feed(text)
            if self._room > 0:
                self._kept.append(text[: self._room])
                self._room -= len(text)

    @property
    def sure(self) -> Finding | None:
        """The first finding that decides a verdict, as soon as there is one."""
        return self.channels["content"].sure or self.channels["reasoning"].sure

    @property
    def text(self) -> str:
        """The first KEPT characters, in the order in which they came."""
        return "".join(self._kept)

    def judge(self, ending: Ending | None = None) -> Judgement:
        """The verdict, after the last text; without ``ending`` nobody saw how the stream ended."""
        ended = {name: watch.end() for name, watch in self.channels.items()}
        seen = {name: watch.visible for name, watch in self.channels.items()}
        findings = (*ended["content"], *ended["reasoning"], *_of_ending(ending, **seen))
        return Judgement(
            verdict=worst([finding.verdict for finding in findings]),
            findings=findings,
            characters=sum(watch.characters for watch in self.channels.values()),
            ending=ending,
        )


def _of_ending(ending: Ending | None, *, content: bool, reasoning: bool) -> tuple[Finding, ...]:
    """What the end of a stream says; ``content`` and ``reasoning``: whether a reader could see any. Pure."""
    found = []
    if ending is not None and ending.error:
        found.append(_ended(Verdict.ERROR, "error", ending.error))
    elif ending is not None and (ending.finish_reason is None or not ending.done):
        missing = [
            name for name, present in (("finish reason", ending.finish_reason), ("[DONE]", ending.done)) if not present
        ]
        found.append(_ended(Verdict.CUT, "cut", f"the stream ended without {' and '.join(missing)}"))
    calls = ending.tool_calls if ending else 0
    if not (content or reasoning or calls or found):
        found.append(_ended(Verdict.EMPTY, "empty", "the answer has no character that a reader could see"))
    elif reasoning and not (content or calls) and ending is not None and ending.finish_reason == "stop":
        found.append(_ended(Verdict.SUSPECT, "unanswered", "the model reasoned, and stopped without an answer"))
    return tuple(found)


def _ended(verdict: Verdict, sign: str, what: str) -> Finding:
    return Finding(verdict=verdict, sign=sign, at=0, onset=0, what=what)
