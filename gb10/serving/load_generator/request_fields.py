"""The fields that a user adds to every request: checked, bounded, and none of those that the bench sets. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from gb10.errors import UsageError

OWN: Final = frozenset(("model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "n"))
"""What the bench sends, or counts on: one answer for each request, streamed, of a length that it chose."""
EXACT: Final = frozenset(("ignore_eos", "min_tokens"))
"""What ``--exact-tg`` sends."""
TEMPLATE: Final = "chat_template_kwargs"
"""Variables of the chat template, by request.

Which engine has the field since when: docs/bench.md."""
THINKING: Final = "enable_thinking"
LARGEST: Final = 64 << 10
"""Bytes of all fields as JSON: they are an argument of the load generator, and in every request."""
DEEPEST: Final = 16
LONGEST_NAME: Final = 80
FORMS: Final = "--extra-body NAME=VALUE, or a JSON object: --extra-body '{\"top_k\": 20}'"


def request_fields(texts: Sequence[str], *, no_thinking: bool = False, exact: bool = False) -> dict[str, object]:
    """The fields of ``--extra-body`` options, and of ``--no-thinking``. Raises UsageError."""
    found: dict[str, object] = {}
    for text in texts:
        for name, value in _fields(text).items():
            if name in found:
                raise UsageError(f"--extra-body gives {name!r} twice", hint="give each field once")
            found[name] = value
    if no_thinking:
        template = found.get(TEMPLATE, {})
        if not isinstance(template, dict) or THINKING in template:
            raise UsageError(
                f"--no-thinking sets {TEMPLATE}.{THINKING}, and --extra-body has another {TEMPLATE}",
                where=json.dumps(template)[:200],
                hint="omit one of the two",
            )
        found[TEMPLATE] = {**template, THINKING: False}
    check_fields(found, exact=exact)
    return found


def check_fields(fields: Mapping[str, object], *, exact: bool) -> None:
    """Raise UsageError for a field that the bench sets, and for fields that are too many or too deep."""
    taken = sorted(fields.keys() & (OWN | EXACT if exact else OWN))
    if taken:
        raise UsageError(
            f"the bench itself sets {', '.join(taken)}: --extra-body cannot",
            hint="--model, --tg, --exact-tg and --concurrency choose what is sent; omit the field",
        )
    long = next((name for name in fields if not 0 < len(name) <= LONGEST_NAME), None)
    if long is not None:
        raise UsageError(f"not a name of a field: {long[:LONGEST_NAME]!r}", hint=f"1 to {LONGEST_NAME} characters")
    if not _shallow(fields, DEEPEST):
        raise UsageError(f"--extra-body is nested more than {DEEPEST} deep, or has a number that JSON has not")
    size = len(json.dumps(dict(fields)))
    if size > LARGEST:
        raise UsageError(f"--extra-body has {size:,} bytes", hint=f"{LARGEST:,} at most")


def _fields(text: str) -> dict[str, object]:
    """``NAME=VALUE``, where VALUE is JSON or a text, or the text of a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            where = str(error) if isinstance(error, ValueError) else "it is nested too deep"
            raise UsageError("--extra-body is no JSON object that can be sent", where=where, hint=FORMS) from error
        return dict(found)
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise UsageError(f"not a field of a request: {text[:200]!r}", hint=FORMS)
    try:
        return {name: json.loads(value, object_pairs_hook=_once, parse_constant=_no_number)}
    except (ValueError, RecursionError):
        return {name: value}


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose names stand once. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def _shallow(value: object, left: int) -> bool:
    """Whether a value is nested at most so deep, and all its numbers are finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, Mapping | list | tuple):
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return left > 0 and all(_shallow(one, left - 1) for one in inner)
