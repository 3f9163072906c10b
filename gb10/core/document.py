"""YAML that a person wrote, read strictly: all mistakes at once, each with file:line:col and a remedy. Pure."""

import difflib
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Final, TypeVar, Union, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from yaml.composer import Composer
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its stub does not export it
from yaml.resolver import Resolver

from gb10.errors import UsageError

LARGEST: Final = 256 << 10
"""Characters of a document; the longest recipe here has 7,000."""
MOST_NODES: Final = 20_000
"""Values of a document."""
DEEPEST: Final = 32
"""Levels of nesting."""
LONGEST_SCALAR: Final = 64
"""Characters of a number, a date or a switch."""
WIDEST: Final = 64
"""Bits of a whole number."""
TEXT: Final = "tag:yaml.org,2002:str"
DATE: Final = "tag:yaml.org,2002:timestamp"


class RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that is not accepted."""


class Limited(Composer, Resolver, CParser):
    """PyYAML's composer above libyaml's parser, which rejects features that only an attacker needs."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self.depth = self.count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node; raises RefusedError."""
        event: yaml.Event = self.peek_event()  # type: ignore[assignment]  # None only after the last one
        self.count += 1
        self.depth += 1
        reason = _refusal(event, self.depth, self.count)
        if reason:
            raise RefusedError(problem=reason, problem_mark=event.start_mark)  # type: ignore[arg-type]  # libyaml's
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _refusal(event: yaml.Event, depth: int, count: int) -> str | None:
    if isinstance(event, yaml.AliasEvent):
        return "aliases (*name) are not allowed: write the value again"
    if getattr(event, "tag", None) not in (None, "!"):
        return "tags (!name) are not allowed: write plain values"
    if depth > DEEPEST:
        return f"the values are nested more than {DEEPEST} levels deep"
    return f"the document has more than {MOST_NODES} values" if count > MOST_NODES else None


def compose(text: str) -> yaml.Node | None:
    """The root node of a document, None when it is empty; raises YAMLError."""
    try:
        return Limited(text).get_single_node()
    except (ValueError, OverflowError) as error:  # an invalid escape
        raise yaml.YAMLError(str(error)) from error


def scalar(node: yaml.Node) -> object:
    """The value of a scalar node; raises YAMLError or ValueError."""
    if node.tag == TEXT:
        return str(node.value)
    if len(node.value) > LONGEST_SCALAR:
        raise ValueError("the number or date is too long; for text, put it in quotes")
    try:
        value: object = yaml.SafeLoader("").construct_object(node)
    except OverflowError as error:
        raise ValueError("the number is too large") from error
    except ValueError as error:
        if node.tag != DATE:
            raise
        # Python's own words differ between its versions.
        raise ValueError(f"{node.value} is no date") from error
    if isinstance(value, int) and value.bit_length() > WIDEST:
        raise ValueError("the number is too large")
    return value


M = TypeVar("M", bound=BaseModel)
Location = tuple[str | int, ...]
MOST: Final = 100
"""Maximum number of problems listed for one document."""
LONGEST: Final = 80
"""Characters of a value or key that a problem quotes."""

TYPES: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "date_type": "a date (YYYY-MM-DD)",
}


class Reader:
    """One document: its value in plain Python, the position of each part, and the problems found so far."""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        self.what = what
        self.keys: dict[Location, yaml.Mark] = {}
        self.values: dict[Location, yaml.Mark] = {}
        self.problems: set[tuple[int, int, str]] = set()

    def problem(self, mark: yaml.Mark, text: str) -> None:
        """Record a problem at a position."""
        self.problems.add((mark.line + 1, mark.column + 1, text))

    def value(self, node: yaml.Node, at: Location = ()) -> object:
        """The node as Python values: tuples for lists, dicts with text keys. Raises UsageError."""
        self.values[at] = node.start_mark
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, (*at, index)) for index, item in enumerate(node.value))
        try:
            return scalar(node)
        except (yaml.YAMLError, ValueError) as error:
            self.problem(node.start_mark, f"this is not YAML: {getattr(error, 'problem', error)}")
            raise self.error() from error

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problem(key.start_mark, "a key must be text, not a list or a mapping")
                continue
            spot = (*at, key.value)
            if spot in self.keys:
                first = self.keys[spot].line + 1
                self.problem(key.start_mark, f"the key {shorten(key.value)} is a duplicate (first in line {first})")
                continue
            self.keys[spot] = key.start_mark
            found[key.value] = self.value(child, spot)
        return found

    def mark(self, at: Location) -> yaml.Mark:
        """The position of a value, or of the nearest value around it."""
        while at not in self.values:
            at = at[:-1]
        return self.values[at]

    def error(self) -> UsageError:
        """All problems as one error, in the order of the file."""
        lines = [f"{self.where}:{line}:{column}: {text}" for line, column, text in sorted(self.problems)]
        return _invalid(self.where, self.what, lines)


def _invalid(where: str, what: str, lines: list[str]) -> UsageError:
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return UsageError(f"{where} is not a valid {what}: {count}", where="\n".join(lines))


def parse_document(text: str, model: type[M], *, where: str, what: str) -> M:
    """The text as a model; ``where`` and ``what`` name it in errors. Raises UsageError. Pure."""
    return cast("M", _parsed(text, model, where, what))


@lru_cache(maxsize=64)  # a command reads the same recipe and the same records of patches for many plans
def _parsed(text: str, model: type[BaseModel], where: str, what: str) -> BaseModel:
    reader = Reader(where, what)
    if len(text) > LARGEST:
        size = f"it has {len(text)} characters; the limit is {LARGEST}"
        raise UsageError(f"{where} is not a valid {what}: it is too large", where=size)
    try:
        root = compose(text)
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            reason = "" if isinstance(error, RefusedError) else "this is not YAML: "
            reader.problem(error.problem_mark, f"{reason}{error.problem}")
        raise reader.error() from error
    except yaml.YAMLError as error:
        raise UsageError(f"{where} is not a valid {what}: it is not YAML", where=str(error)) from error
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{where} is not a valid {what}: it must be a mapping (key: value)")
    value = reader.value(root)
    try:
        parsed = model.model_validate(value)
    except ValidationError as error:
        for detail in _mistakes(error, model)[:MOST]:
            at = _location(detail)
            of_key = detail["type"] == "extra_forbidden" or "[key]" in detail["loc"]
            mark = reader.keys.get(at) if of_key else None
            reader.problem(mark or reader.mark(at), _sentence(detail, at, model))
        raise reader.error() from error
    if reader.problems:
        raise reader.error()
    return parsed


def check_value(value: object, model: type[BaseModel], *, where: str, what: str) -> None:
    """Raise UsageError, with all problems by their keys, unless a value without positions (TOML's) fits the model."""
    mistakes = mistakes_of(value, model)
    if mistakes:
        raise _invalid(where, what, [f"{_spell(at)}: {text}" for at, text in mistakes])


def mistakes_of(value: object, model: type[BaseModel]) -> list[tuple[Location, str]]:
    """What keeps a value from fitting the model, each with its keys; none when it fits."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [(_location(one), _sentence(one, _location(one), model)) for one in _mistakes(error, model)[:MOST]]
    return []


def _mistakes(error: ValidationError, model: type[BaseModel]) -> list[ErrorDetails]:
    """All of an error but keys that are missing because they were misspelled: the unknown key's sentence has both."""
    found = error.errors()
    unknown = [_location(one) for one in found if one["type"] == "extra_forbidden"]
    meant = {(*at[:-1], close) for at in unknown for close in _close(at, model)}
    return [one for one in found if one["type"] != "missing" or _location(one) not in meant]


def _close(at: Location, model: type[BaseModel]) -> list[str]:
    """The valid key that an unknown one is most like, if any."""
    return difflib.get_close_matches(str(at[-1])[:LONGEST], valid_keys(model, at[:-1]), n=1, cutoff=0.5)


def _location(detail: ErrorDetails) -> Location:
    index = detail.get("ctx", {}).get("index")
    at = tuple(part for part in detail["loc"] if part != "[key]")
    return at if index is None else (*at, index)


def _sentence(detail: ErrorDetails, at: Location, model: type[BaseModel]) -> str:
    kind, name, context = detail["type"], _spell(at), detail.get("ctx", {})
    found = _found(detail["input"])
    if kind == "extra_forbidden":
        key, valid, close = str(at[-1]), valid_keys(model, at[:-1]), _close(at, model)
        guess = f"; did you mean '{close[0]}'?" if close else ";"
        return f"unknown key {shorten(key)}{guess} valid keys: {', '.join(valid)}"
    if kind == "missing":
        return f"the key '{name}' is missing"
    if kind == "string_pattern_mismatch":
        return f"'{name}' must match {context['pattern']}, found {found}"
    if kind == "literal_error":
        return f"'{name}' must be {context['expected']}, found {found}"
    if kind in TYPES:
        return f"'{name}' must be {TYPES[kind]}, found {found}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"'{name}': {message}" if name else message


def _found(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, str):
        return shorten(value)
    return f"{yaml.safe_dump(value).splitlines()[0]} (for text, put it in quotes)"


def shorten(text: str) -> str:
    """A text for an error message: escaped, and cut if it is long."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def _spell(at: Location) -> str:
    """``layers[2].name``, as people write it."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".")


def valid_keys(model: type[BaseModel], at: Location) -> tuple[str, ...]:
    """The keys a mapping at this place may have, as the file spells them."""
    current: object = model
    for part in at:
        current = _step(current, part)
    return tuple(field.alias or name for name, field in _model(current).model_fields.items())


def _step(annotation: object, part: str | int) -> object:
    """The type one key or index further down."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _step(get_args(annotation)[0], part)
    if origin is tuple:
        return get_args(annotation)[0]
    if origin is dict:
        return get_args(annotation)[1]
    fields = _model(annotation).model_fields
    return next(field.annotation for name, field in fields.items() if part in (name, field.alias))


def _model(annotation: object) -> type[BaseModel]:
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return next(_model(arm) for arm in get_args(annotation) if arm is not type(None))
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise TypeError(f"{annotation} has no keys")
    return annotation
