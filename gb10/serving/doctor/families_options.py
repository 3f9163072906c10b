"""The last family: options of the engine that a message is about, by their own names. Pure."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case

REFUSES: Final = re.compile(
    (
        r"must (?:be|not|have)|requires?\b|incompatible|not (?:supported|compatible|allowed|divisible)|cannot|"
        r"can't|only (?:supports?|works)"
        r"|is disabled|is enabled|unless|greater than|less than|exceeds?|larger than|smaller than|should be|"
        r"conflict|mutually exclusive"
    ),
    re.IGNORECASE,
)
VARIABLE: Final = re.compile(r"\b(?:VLLM|SGLANG|SGL|FLASHINFER|NCCL|HF|PYTORCH|CUDA|TRITON|TORCH)_[A-Z0-9_]{3,60}\b")
EXCEPTIONS: Final = frozenset(
    (
        "ValidationError",
        "ValueError",
        "AssertionError",
        "NotImplementedError",
        "RuntimeError",
        "ConfigError",
        "SystemExit",
        "",
    )
)


def options_in_the_message(case: Case) -> Verdict | None:
    """A combination of settings that the engine refuses: the options whose names the message has."""
    if case.raised.name not in EXCEPTIONS or not case.raised.type or not REFUSES.search(case.text):
        return None
    names = list(dict.fromkeys((*_named(case), *VARIABLE.findall(case.text))))
    if not names:
        return None
    given = [f"{name}{_value(case, name)}" for name in names[:5]]
    reason = next((line.strip() for line in case.text.splitlines() if REFUSES.search(line)), case.text[:300])
    variables = [name for name in names if not name.startswith("--")]
    leave = f" Leave {', '.join(variables)} out (unset), or set what the message asks for." if variables else ""
    return Verdict(
        code="settings-do-not-agree",
        meaning=f"{case.here('The engine')} refuses a combination of settings: {reason[:400]}",
        action=(
            f"It is about {', '.join(given)}: change or leave out one of them.{leave} Options that are left "
            f"out are chosen to fit."
        ),
        evidence="the engine's own check; its options by recipes/flags",
    )


def _named(case: Case) -> Iterator[str]:
    """Options whose words stand in the message in their order: ``tensor parallel size``, ``tensor_parallel_size``."""
    text = " ".join(re.findall(r"[a-z0-9]+", case.text.lower()))
    for option, words in _options(tuple(sorted(case.options))):
        if f" {words} " in f" {text} ":
            yield option


@cache
def _options(options: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Options with their words, those of most words first; without enable, disable and such."""
    found = {}
    for option in options:
        words = option.strip("-").split("-")
        bare = words[1:] if words[0] in ("enable", "disable", "no", "use") else words
        if len(bare) >= 2:
            found[option] = " ".join(bare)
    return tuple(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def _value(case: Case, option: str) -> str:
    value = case.scan.start.option(option.lstrip("-").replace("-", "_")) if option.startswith("--") else None
    return f" (now {value[:60]})" if value else ""
