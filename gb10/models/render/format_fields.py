"""The placeholders of version 1: Python's ``str.format`` with named fields, in bounded memory. Pure."""

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any, Final

WIDEST: Final = 999
"""A field's width or precision, in characters."""
LONGEST: Final = 1 << 20
"""Characters of a filled template."""


class FieldError(Exception):
    """A placeholder cannot be filled: the kind of mistake, the field, and where in the template it stands."""

    def __init__(self, kind: str, field: str, offset: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.field = field
        self.offset = offset


class _Bounded(Formatter):
    """``str.format``, except that a field cannot ask for a gigabyte of blanks."""

    def format_field(self, value: Any, format_spec: str) -> Any:  # noqa: ANN401 - as the base class has it
        if any(int(digits) > WIDEST for digits in re.findall(r"\d{1,9}", format_spec)):
            raise ValueError(f"a field of more than {WIDEST} characters")
        return super().format_field(value, format_spec)


def fill(template: str, values: Mapping[str, object]) -> str:
    """The template with every ``{name}`` filled in one pass; raises FieldError."""
    stray = stray_brace(template)
    if stray is not None:
        raise FieldError("stray-brace", template[stray], stray)
    field = ""
    try:
        for _, name, _, _ in Formatter().parse(template):
            field = name if name is not None else field
            if name is not None and re.match(r"\d|$|[.\[]", name):
                raise FieldError("positional-placeholder", name, _offset(template, name))
        text = _Bounded().vformat(template, (), values)
    except KeyError as error:
        name = str(error.args[0])
        raise FieldError("missing-placeholder", name, _offset(template, name)) from error
    except (ValueError, AttributeError, IndexError, TypeError, RecursionError) as error:
        raise FieldError("bad-placeholder", field, max(template.find("{"), 0)) from error
    if len(text) > LONGEST:
        raise FieldError("bad-placeholder", field, 0)
    return text


def _offset(template: str, name: str) -> int:
    found = re.search(r"(?<!\{)(?:\{\{)*\{" + re.escape(name), template)
    return found.end() - len(name) - 1 if found else 0


def stray_brace(template: str) -> int | None:
    """The position of a brace that neither opens nor closes a field; None when all do."""
    open_at: list[int] = []
    position = 0
    while position < len(template):
        char = template[position]
        if not open_at and char in "{}" and template.startswith(char * 2, position):
            position += 2
            continue
        if char == "{":
            open_at.append(position)
        elif char == "}":
            if not open_at:
                return position
            open_at.pop()
        position += 1
    return open_at[0] if open_at else None


def fields(template: str) -> Iterator[str]:
    """The names of the fields of a template; of a broken one, those before the mistake."""
    try:
        for _, name, spec, _ in Formatter().parse(template):
            if name:
                yield re.split(r"[.\[]", name, maxsplit=1)[0]
            if spec:
                yield from fields(spec)
    except (ValueError, RecursionError):
        return
