"""The text of one event of an OpenAI-compatible stream: content and both spellings of reasoning. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

REASONING: Final = ("reasoning_content", "reasoning")
"""Engines spell it in one of these ways; some send the same text in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one event says of one choice."""

    content: str = ""
    reasoning: str = ""
    spelling: str = ""
    """Which spelling of reasoning the server uses; ``both`` when it sends the text twice."""
    tool_calls: int = 0
    finish_reason: str | None = None
    index: int = 0


def parse_delta(event: Mapping[str, object]) -> Iterator[Delta]:
    """What an event of ``chat/completions`` or ``completions`` says, a choice at a time. Raises ValueError."""
    choices = event.get("choices")
    if choices is None:
        return
    if not isinstance(choices, list):
        raise ValueError("`choices` is no list")
    for choice in choices:
        if not isinstance(choice, dict):
            raise ValueError("a choice is no object")
        yield _heard(choice)


def _heard(choice: Mapping[str, object]) -> Delta:
    delta = choice.get("delta") or choice.get("message") or {}
    if not isinstance(delta, dict):
        raise ValueError("`delta` is no object")
    content = _text(delta, "content") or _text(choice, "text")
    reasonings = {name: text for name in REASONING if (text := _text(delta, name))}
    texts = set(reasonings.values())
    reason, index = choice.get("finish_reason"), choice.get("index", 0)
    calls = delta.get("tool_calls")
    return Delta(
        content=content,
        reasoning="".join(dict.fromkeys(reasonings.values())),
        spelling="both" if len(reasonings) > 1 and len(texts) == 1 else "+".join(reasonings),
        tool_calls=len(calls) if isinstance(calls, Sequence) else 0,
        finish_reason=reason if isinstance(reason, str) else None,
        index=index if isinstance(index, int) else 0,
    )


def _text(mapping: Mapping[str, object], name: str) -> str:
    """A text, or the texts of a list of parts; empty for null. Raises ValueError for anything else."""
    value = mapping.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return "".join(str(part.get("text", "")) for part in value)
    raise ValueError(f"`{name}` is no text")
