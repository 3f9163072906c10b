"""Numbers of a serve command: the last value of an option as a whole number, a share, or a word. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Final

from gb10.errors import UsageError

Options = Mapping[str, tuple[str, ...]]
UNITS: Final[Mapping[str, int]] = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", start=1)},
}
"""As vLLM reads them: small letters are powers of 1,000."""
NUMBER: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kmgtKMGT]?)")
LARGEST: Final = 1 << 50


def json_object(text: str) -> Mapping[str, object]:
    """A JSON object; empty for anything else."""
    try:
        found = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _last(options: Options, *names: str) -> str:
    return next((options[name][-1] for name in names if options.get(name)), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedDrafts:
    """Speculative tokens of a step, and how they are made."""

    tokens: int
    method: str
    model: str


def vllm_drafts(options: Options) -> AskedDrafts | None:
    """vLLM's drafts, in each of its spellings: JSON, its fields as options, or the short options."""
    fields: dict[str, object] = {}
    for name in ("--speculative-config", "-sc"):
        for text in options.get(name, ()):
            fields |= json_object(text)
        fields |= {
            option.partition(".")[2].replace("-", "_"): values[-1]
            for option, values in options.items()
            if option.startswith(f"{name}.")
        }
    for field, name in (
        ("method", "--spec-method"),
        ("model", "--spec-model"),
        ("num_speculative_tokens", "--spec-tokens"),
    ):
        if options.get(name):
            fields[field] = options[name][-1]
    text = str(fields.get("num_speculative_tokens") or "")
    tokens = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0
    method, model = (str(fields.get(name) or "") for name in ("method", "model"))
    return AskedDrafts(tokens=tokens, method=method, model=model) if tokens else None


def word(options: Options, name: str) -> str:
    """The value of an option; ``auto`` when it is absent."""
    return _last(options, name) or "auto"


def whole(options: Options, *names: str) -> int | None:
    """A whole number, with a unit or without; None when it is absent, ``auto``, or -1."""
    text = _last(options, *names).strip()
    if text in ("", "auto", "-1") or "{" in text:
        return None
    found = NUMBER.fullmatch(text)
    size = floor(float(found[1]) * UNITS[found[2]]) if found else 0
    if not 0 < size <= LARGEST:
        raise UsageError(f"{names[0]} {text[:40]!r} is not a whole number", hint="write one, such as 65536")
    return size


def size_in_gib(options: Options, name: str) -> float | None:
    """A number of GiB."""
    text = _last(options, name)
    return None if not text or "{" in text else _real(name, text, 4096)


def share(options: Options, name: str) -> float | None:
    """A share of memory, above 0 and up to 1; None when it is absent or ``auto``. Raises UsageError."""
    text = _last(options, name)
    return None if text in ("", "auto") or "{" in text else _real(name, text, 1)


def _real(name: str, text: str, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= most:
        raise UsageError(f"{name} {text[:40]!r} is not a number above 0, up to {most:g}", hint="write one, such as 0.8")
    return found
