"""A Dockerfile as values: its stages and instructions, by the grammar of tree-sitter-containerfile. Pure.

What the grammar cannot read stays as an instruction without a name: it is accounted for, never skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import tree_sitter_containerfile
from tree_sitter import Language, Node, Parser

from gb10.errors import UsageError

MOST_BYTES: Final = 1 << 20
MOST_INSTRUCTIONS: Final = 2_000
MOST_WORDS: Final = 1_000
"""Arguments of one instruction."""
LONGEST_VALUE: Final = 1 << 16
"""Characters of an argument after its variables are put in."""
KEYWORD: Final = re.compile(
    r"\s*(ADD|ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|LABEL|ONBUILD|RUN|SHELL|STOPSIGNAL|USER|VOLUME|WORKDIR)\s",
    re.IGNORECASE,
)
SPACED: Final = re.compile(r"(<<-?)([ \t]+)([\"']?\w+[\"']?)")
SHELL_FORM: Final = re.compile(r"\s*RUN[ \t]+((?:--[a-z]+=\S+(?:[ \t]|\\\n)+)*)(.*)", re.IGNORECASE | re.DOTALL)
HEREDOC: Final = re.compile(
    r"\s*(?:RUN|COPY|ADD)\s(?:[^\n]*\s)?<<-?(?P<quote>[\"']?)(?P<name>[A-Za-z_]\w*)(?P=quote)(?!\S)", re.IGNORECASE
)
"""An instruction whose first line begins a text of its own."""
ENDING: Final = "_instruction"
SETTINGS: Final = tuple(f"{name}{ENDING}" for name in ("arg", "env", "label"))
DIRECTIVE: Final = re.compile(rb"\s*#\s*escape\s*=\s*(\S)", re.IGNORECASE)
VARIABLE: Final = re.compile(
    r"\\(?P<escaped>.)|\$(?P<plain>[A-Za-z_]\w*)"
    r"|\$\{(?P<name>[A-Za-z_]\w*)(?:(?P<operator>:?[-+]|##?|%%?|//?)(?P<word>[^{}]*))?\}"
    r"|(?P<other>\$\{)",
    re.DOTALL,
)
CUTS: Final = re.compile(r"\$\{\w+[#%/]")
PATTERN_SIGNS: Final = re.compile(r"[\\\"'?\[\]$`()|]")
"""What a pattern of ``${NAME#PATTERN}`` may have that is not put in here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heredoc:
    """``<<NAME``: a text in the Dockerfile. ``literal``: its name is quoted, so variables in it stay."""

    content: str
    literal: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction. Lines count from 1.

    ``words`` are its arguments as written, without quotes; of ENV, ARG and LABEL ``NAME=VALUE``, of ARG without a value
    the name alone. ``exec_form``: they were a JSON array. ``body``: of RUN, the shell's text without comments, with the
    Dockerfile's line of each of its lines in ``rows``.
    """

    name: str
    first: int
    last: int
    text: str
    words: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    exec_form: bool = False
    body: str = ""
    rows: tuple[int, ...] = ()

    def option(self, name: str) -> str:
        """The value of ``--name=VALUE``; empty without one."""
        return next((value for known, value in self.options if known == name), "")

    @property
    def unread(self) -> str:
        """Why it has no name; empty when it has one."""
        if self.name:
            return ""
        word = (self.text.split(None, 1) or [""])[0]
        return "our grammar cannot read it" if KEYWORD.match(f"{word} ") else f"{word[:40]} is no instruction we know"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What one FROM begins; ``name`` is in lower case, and empty without AS."""

    number: int
    name: str
    start: Instruction
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dockerfile:
    """``before``: ARG before the first FROM, and what stands there by mistake. ``lines``: those that are no comment."""

    before: tuple[Instruction, ...]
    stages: tuple[Stage, ...]
    lines: int


def parse_dockerfile(content: bytes, name: str) -> Dockerfile:
    """The stages of a Dockerfile; raises UsageError for what is none, is too large, or is for Windows."""
    if len(content) > MOST_BYTES:
        raise UsageError(f"{name} is larger than {MOST_BYTES >> 20} MiB", hint="give a Dockerfile, not an archive")
    try:
        text = content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no text in UTF-8", where=f"byte {error.start}") from error
    escape = DIRECTIVE.match(content)
    if escape and escape[1] != b"\\":
        raise UsageError(f"{name} is for Windows: its escape sign is {escape[1].decode('ascii', 'replace')}")
    lines = text.split("\n")
    # The grammar wants the newline at the end, and the name of a heredoc right behind its sign; a NUL ends its text.
    tree = _parser().parse(f"{_tight(lines).rstrip()}\n".replace("\0", "?").encode())
    found = tuple(islice(_instructions(tree.root_node, lines), MOST_INSTRUCTIONS + 1))
    if len(found) > MOST_INSTRUCTIONS:
        raise UsageError(f"{name} has more than {MOST_INSTRUCTIONS:,} instructions")
    long = next((one for one in found if len(one.words) > MOST_WORDS), None)
    if long is not None:
        raise UsageError(f"{long.name} has more than {MOST_WORDS:,} arguments", where=f"{name}:{long.first}")
    stages = tuple(_stages(found))
    if not stages:
        raise UsageError(f"{name} has no FROM", hint="give a Dockerfile, or a folder with one")
    return Dockerfile(
        before=tuple(one for one in found if one.last < stages[0].start.first),
        stages=stages,
        lines=sum(count_lines(one) for one in found),
    )


def _tight(lines: Sequence[str]) -> str:
    """The text with each ``<< NAME`` of a heredoc as ``<<NAME``; the columns behind it stay."""
    ends = {line.strip() for line in lines}

    def move(match: re.Match[str]) -> str:
        return f"{match[1]}{match[3]}{match[2]}" if match[3].strip("\"'") in ends else match[0]

    return "\n".join(SPACED.sub(move, line) for line in lines)


def count_lines(one: Instruction) -> int:
    """The lines of an instruction that are neither empty nor a comment; those of heredocs all count."""
    if one.heredocs:
        return one.last - one.first + 1
    rows = [row.strip() for row in one.text.split("\n")]
    return sum(1 for row in rows if row and not row.startswith("#"))


def _stages(found: Sequence[Instruction]) -> Iterator[Stage]:
    starts = [index for index, one in enumerate(found) if one.name == "FROM"]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(found)], strict=False)):
        words = found[start].words
        name = words[2].lower() if len(words) == 3 and words[1].upper() == "AS" else ""
        yield Stage(number=number, name=name, start=found[start], instructions=tuple(found[start + 1 : end]))


def _instructions(root: Node, lines: Sequence[str]) -> Iterator[Instruction]:
    read = 0  # the last line of settings: their lines are read whole, also what the grammar leaves of them
    for node in root.children:
        if node.type == "comment" or _span(node)[1] <= read:
            continue
        if node.type.endswith(ENDING) and not node.has_error:
            one = _instruction(node, lines)
            read = one.last if node.type in SETTINGS else read
            yield one
        elif node.text and node.text.strip():
            yield from _recovered(node, lines, read)


def _recovered(node: Node, lines: Sequence[str], read: int) -> Iterator[Instruction]:
    """The instructions of a part that the grammar cannot read as a whole, each read alone; of lines after ``read``."""
    first, last = _span(node)
    first = max(first, read + 1)
    starts = [
        row
        for row in range(first, last + 1)
        if row == first or (KEYWORD.match(lines[row - 1]) and not lines[row - 2].rstrip().endswith("\\"))
    ]
    for start, end in zip(starts, [*(row - 1 for row in starts[1:]), last], strict=True):
        own, skipped = lines[start - 1 : end], start - 1
        text = "\n".join(own)
        tree = _parser().parse(f"{text.rstrip()}\n".encode())
        found = next(iter(tree.root_node.children), None)
        # The grammar takes the pattern of a variable for a comment or an error; lines of settings are read whole.
        settings = found is not None and found.type in SETTINGS and CUTS.search(text) is not None
        alone = settings or len(tree.root_node.children) == 1
        if found and alone and found.type.endswith(ENDING) and (settings or not found.has_error):
            one = _instruction(found, own)
            rows = tuple(row + skipped for row in one.rows)
            yield replace(one, first=one.first + skipped, last=one.last + skipped, rows=rows)
        elif text.strip():
            if (begun := HEREDOC.match(text)) and begun["name"] not in {line.strip() for line in lines[start:]}:
                raise UsageError(f"the heredoc {begun['name'][:80]} of line {start} has no end")
            yield _shell_form(text, start, end) or Instruction(name="", first=start, last=end, text=text)


def _shell_form(text: str, first: int, last: int) -> Instruction | None:
    """A RUN that only the grammar of shells may be able to read; None for what is none, or has a heredoc."""
    found = SHELL_FORM.fullmatch(text)
    if found is None or "<<" in text:
        return None
    skipped = text[: found.start(2)].count("\n")
    rows = [
        (first + skipped + index, line)
        for index, line in enumerate(found[2].split("\n"))
        if line.strip() and (index == 0 or not line.lstrip().startswith("#"))
    ]
    body = "\n".join(line for _, line in rows).rstrip().removesuffix("\\")
    options = tuple(word.removeprefix("--").partition("=")[::2] for word in found[1].replace("\\\n", " ").split())
    return Instruction(
        name="RUN", first=first, last=last, text=text, options=options, body=body, rows=tuple(row for row, _ in rows)
    )


def _parser() -> Parser:
    return Parser(Language(tree_sitter_containerfile.language()))


def _span(node: Node) -> tuple[int, int]:
    """First and last line of a node, from 1; a newline at its end does not begin another line."""
    last, column = node.end_point
    return node.start_point[0] + 1, max(last + (1 if column else 0), node.start_point[0] + 1)


def _instruction(node: Node, lines: Sequence[str]) -> Instruction:
    first, last = _span(node)
    kind = node.type.removesuffix(ENDING).upper()
    text = "\n".join(lines[first - 1 : last])
    heredocs = tuple(_heredocs(node))
    if len(heredocs) < sum(1 for _ in _all(node, "heredoc_marker")):
        raise UsageError(f"a heredoc of line {first} has no end")
    options = tuple(_options(node))
    array = _first(node, "json_string_array")
    body, rows = _body(node, lines) if kind == "RUN" else ("", ())
    if node.type in SETTINGS:
        words = _settings(kind, text)
    else:
        words = tuple(islice(_json(array) if array else _words(kind, node), MOST_WORDS + 1))
    if words is None:
        return Instruction(name="", first=first, last=last, text=text)
    return Instruction(
        name=kind,
        first=first,
        last=last,
        text=text,
        words=words,
        options=options,
        heredocs=heredocs,
        exec_form=array is not None,
        body="" if array else body,
        rows=rows,
    )


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def _first(node: Node, kind: str) -> Node | None:
    return next((child for child in node.children if child.type == kind), None)


def _options(node: Node) -> Iterator[tuple[str, str]]:
    """``--NAME=VALUE`` before the arguments."""
    for child in node.children:
        if child.type in ("param", "mount_param"):
            name, _, value = _text(child).removeprefix("--").partition("=")
            yield name, value.strip("\"'")


def _heredocs(node: Node) -> Iterator[Heredoc]:
    """The texts of an instruction in their order."""
    markers = [_text(marker) for marker in _all(node, "heredoc_marker")]
    for marker, content in zip(markers, _all(node, "heredoc_content"), strict=False):
        text = _text(content)
        if marker.startswith("<<-"):
            text = re.sub(r"(?m)^\t+", "", text)
        yield Heredoc(content=text, literal=bool(re.search(r"['\"]", marker)))


def _all(node: Node, kind: str) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type == kind:
            yield one
        waiting += reversed(one.children)


def _json(array: Node) -> Iterator[str]:
    for child in array.children:
        if child.type == "json_string":
            yield re.sub(r"\\(.)", r"\1", _text(child)[1:-1])


WORD: Final = re.compile(r"""(?:[^\s"'\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
PART: Final = re.compile(r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\.|[^"'\\]+""", re.DOTALL)
"""A word of ARG, ENV and LABEL, and a quoted or plain part of one."""
QUOTED: Final = ("double_quoted_string", "single_quoted_string")


def _words(kind: str, node: Node) -> Iterator[str]:
    if kind == "FROM":
        alias = node.child_by_field_name("as")
        yield _text(_first(node, "image_spec"))
        if alias:
            yield from ("AS", _text(alias))
        return
    for child in node.children:
        if child.type in ("path", "expose_port", "unquoted_string", *QUOTED):
            yield _plain(child)
        elif (
            child.type == "shell_command"
            or child.type in ("cmd_instruction", "run_instruction")
            or (child.type.endswith(ENDING) and kind == "ONBUILD")
        ):
            yield _text(child)


def _settings(kind: str, text: str) -> tuple[str, ...] | None:
    """``NAME=VALUE`` for each of an ARG, ENV or LABEL by Docker's rules; None for what Docker refuses.

    The old form ``ENV NAME all the rest`` is one. Quotes are taken off; what they keep from being read as a variable
    gets a backslash.
    """
    rows = text.split("\n")
    own = [rows[0], *(row for row in rows[1:] if row.strip() and not row.lstrip().startswith("#"))]
    rest = re.sub(r"\\[ \t]*(?:\n|\Z)", "", "\n".join(own)).strip()[len(kind) :].lstrip()
    words = [found[0] for found in islice(WORD.finditer(rest), MOST_WORDS + 1)]
    if kind != "ARG" and words and "=" not in words[0]:
        words = ["=".join(rest.split(None, 1))]
    unclosed = WORD.sub("", rest).strip()
    if not words or unclosed or any("=" not in word for word in words if kind != "ARG"):
        return None
    return tuple("".join(_unquoted(part) for part in PART.finditer(word)) for word in words)


def _unquoted(part: re.Match[str]) -> str:
    if part["single"] is not None:
        return part["single"].replace("\\", "\\\\").replace("$", "\\$")
    if part["double"] is not None:  # a backslash there is one, but before these
        return re.sub(r'\\(?!["$\\])', r"\\\\", part["double"])
    return part[0]


def _plain(node: Node | None) -> str:
    """A word without its quotes; a dollar in single quotes stays one."""
    text = re.sub(r"\\\n[ \t]*", "", _text(node))
    if node is not None and node.type == "single_quoted_string":
        return text[1:-1].replace("\\", "\\\\").replace("$", "\\$")
    if node is not None and node.type == "double_quoted_string":
        return text[1:-1]
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _body(node: Node, lines: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """The shell's text of a RUN, and the line of the Dockerfile for each of its lines.

    As Docker does, comments and empty lines between continued lines are left out; those of a heredoc stay.
    """
    command = _first(node, "shell_command")
    blocks = [child for child in node.children if child.type == "heredoc_block"]
    if command is None:
        return "", ()
    start, column = command.start_point
    end = blocks[0].start_point[0] + 1 if blocks else _span(command)[1]  # a block begins behind its marker
    kept, rows = list[str](), list[int]()
    for row in range(start, end):
        line = lines[row].encode()[column:].decode("utf-8", "replace") if row == start else lines[row]
        if line.strip() and (row == start or not line.lstrip().startswith("#")):
            kept.append(line)
            rows.append(row + 1)
    if kept and not blocks:  # Docker drops a backslash before what is no line
        kept[-1] = kept[-1].rstrip().removesuffix("\\")
    for row in range(end, _span(blocks[-1])[1] if blocks else end):
        kept.append(lines[row])
        rows.append(row + 1)
    return "\n".join(kept), tuple(rows)


def expand(text: str, values: Mapping[str, str | None]) -> str | None:
    """A text with its variables put in, as Docker does; None when one has no known value. Raises UsageError.

    A variable that is not in ``values`` has no known value either.
    """
    known, parts, length, end = True, list[str](), 0, 0

    def put(match: re.Match[str]) -> str:
        nonlocal known
        if match["escaped"] is not None:
            return match["escaped"]
        name = match["plain"] or match["name"]
        value = values.get(name) if name else None
        operator, word = match["operator"] or "", match["word"] or ""
        if operator[-1:] == "-":
            empty = value is None or (operator == ":-" and not value)
            value = expand(word, values) if name in values and empty else value
        elif value is not None and operator[-1:] == "+":
            value = expand(word, values) if value or operator == "+" else ""
        elif value is not None and operator:
            value = _without(value, operator, word)
        known = known and value is not None
        return value or ""

    for match in VARIABLE.finditer(text):
        own = (text[end : match.start()], put(match))
        length, end = length + len(own[0]) + len(own[1]), match.end()
        if length > LONGEST_VALUE:  # before more is put in: each variable may be as long
            raise too_long(text)
        parts += own
    if length + len(text) - end > LONGEST_VALUE:
        raise too_long(text)
    return "".join([*parts, text[end:]]) if known else None


def _without(value: str, operator: str, pattern: str) -> str | None:
    """``${NAME#PATTERN}`` and the like, for a pattern of plain signs and one star; None for any other.

    Raises UsageError for a result that is too long.
    """
    if operator[0] == "/":
        old, _, new = pattern.partition("/")
        plain = not PATTERN_SIGNS.search(pattern) and "*" not in pattern and old[:1] not in ("#", "%")
        if old and value.count(old) * len(new) > LONGEST_VALUE:
            raise too_long(pattern)
        return (value.replace(old, new, 1 if operator == "/" else -1) if old else value) if plain else None
    before, star, after = pattern.partition("*")
    if PATTERN_SIGNS.search(pattern) or "*" in after:
        return None
    if not star:
        return value.removeprefix(pattern) if operator[0] == "#" else value.removesuffix(pattern)
    if operator[0] == "#" and value.startswith(before):
        end = (value.find if operator == "#" else value.rfind)(after, len(before))
        return value[end + len(after) :] if end >= 0 else value
    if operator[0] == "%" and value.endswith(after):
        head = value[: len(value) - len(after)]
        start = (head.rfind if operator == "%" else head.find)(before)
        return value[:start] if start >= 0 else value
    return value


def too_long(text: str) -> UsageError:
    """The error for a text that grows without end when its variables are put in."""
    return UsageError("a value of the Dockerfile is too long", where=f"{text[:80]!r}")
