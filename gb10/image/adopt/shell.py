"""The shell text of a RUN as commands in their order, by the grammar of tree-sitter-bash. Pure: nothing is run.

What always runs, one after the other, is a command of its own. A loop, a condition, a function, a pipe of several
programs or a choice by ``||`` is one command: ``inner`` are the programs that it names. Those of a plain command stand
in its substitutions, ``$(…)``.
"""

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gb10.errors import UsageError
from gb10.image.adopt.dockerfile import LONGEST_VALUE, VARIABLE, expand, too_long

MOST_COMMANDS: Final = 2_000
SHELLS: Final = ("sh", "bash", "dash", "/bin/sh", "/bin/bash", "/usr/bin/bash")
PLAIN: Final = ("command", "redirected_statement")
EXPANSIONS: Final = ("simple_expansion", "expansion")
OPERATORS: Final = ("&&", ";", "\n", "&")
NUMBERS: Final = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
NAMED: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
NUMBER: Final = re.compile(r"[0-9]{1,18}")
DEEPEST: Final = 32
"""Conditions in each other, and tests in each other."""
LONGEST_SEEN: Final = 1_000
LONGEST_TEXT: Final = 1 << 16
MOST_CHARACTERS: Final = 1 << 23
"""Of all words of a RUN, after their variables are put in."""
BRACES: Final = re.compile(r"\{[^{}\s]*(,|\.\.)[^{}\s]*\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command; lines are those of the Dockerfile.

    ``words`` are its program and arguments with known variables put in; None for a word that is known only when it
    runs. ``settings``: variables that are set for it, or for what follows (then it has no words). ``stdin``: its
    heredoc. ``writes``: files that its output goes to. ``whole``: it is no plain command, see the module.
    ``unread``: the grammar could not read it. ``written``: its words as they stand in the text. ``joined``: it stands
    behind ``&&``, so it runs only when what is before it did not fail.
    """

    first: int
    last: int
    text: str
    words: tuple[str | None, ...] = ()
    settings: tuple[tuple[str, str | None], ...] = ()
    stdin: str | None = None
    reads: tuple[str | None, ...] = ()
    writes: tuple[str | None, ...] = ()
    seen: str = ""
    """The text with the known variables put in: a help to find paths, no shell text."""
    inner: tuple["Command", ...] = ()
    whole: bool = False
    unread: bool = False
    written: tuple[str, ...] = ()
    joined: bool = False
    skipped: bool = False
    """A condition that never holds: nothing of it runs."""

    @property
    def program(self) -> str:
        """The name of its program without its folder; empty when it is not known."""
        return (self.words[0] or "").rsplit("/", 1)[-1] if self.words else ""

    @property
    def arguments(self) -> tuple[str | None, ...]:
        """The words after the program."""
        return self.words[1:]


def parse_commands(text: str, rows: Sequence[int], values: Mapping[str, str | None]) -> tuple[Command, ...]:
    """The commands of a shell's text in their order. ``rows``: the Dockerfile's line of each line of the text.

    ``values`` are the variables that the text may read; what it sets itself is put in for the commands after it.
    Raises UsageError for more commands than a person writes.
    """
    tree = Parser(Language(tree_sitter_bash.language())).parse(text.replace("\0", "?").encode())
    reader = _Reader(text.encode(), rows, dict(values))
    found = tuple(islice(reader.commands(tree.root_node), MOST_COMMANDS + 1))
    if len(found) > MOST_COMMANDS:
        raise UsageError(f"a RUN has more than {MOST_COMMANDS:,} commands", where=f"line {rows[0] if rows else 0}")
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the commands that run one after the other. ``redirects``: the node that has its redirections where the
    grammar gives them to a whole list. ``behind``: ``&`` is behind it."""

    node: Node
    redirects: Node | None
    joined: bool
    behind: bool


class _Reader:
    """One pass over the syntax tree of a text."""

    def __init__(self, content: bytes, rows: Sequence[int], values: dict[str, str | None]) -> None:
        self.content = content
        self.rows = rows
        self.values = values
        self.characters = 0
        self.inside = 0
        """Conditions that are being read."""

    def commands(self, node: Node) -> Iterator[Command]:
        """What runs one after the other."""
        yield from self._all(list(_sequence(_parts(node.children))))

    def _all(self, parts: Sequence[_Part]) -> Iterator[Command]:
        for part, after in zip_longest(parts, parts[1:]):
            known = part.node.type == "if_statement" and self._branch(part, after)
            yield from known or self._one(part)

    def _one(self, part: _Part) -> Iterator[Command]:
        """The commands of a part; what they set has its value for those after them."""
        child = part.node
        for found in self._command(part):
            one = replace(found, seen=self._seen(found.text), joined=part.joined)
            for name, value in one.settings if not one.words or one.program in ("export", "declare") else ():
                self.values[name] = value
            yield one
        if child.type not in (*PLAIN, "declaration_command", "variable_assignment", "variable_assignments"):
            self._forget(child)

    def _branch(self, part: _Part, after: _Part | None) -> list[Command]:
        """The commands of an ``if`` whose conditions are known, in its place; none when they are not.

        Several commands one after the other only where none is joined to the ``if``: it runs or fails as a whole.
        """
        node = part.node
        read = not (part.behind or part.redirects or node.has_error) and self.inside < DEEPEST
        taken = self._taken(node) if read else None
        if taken is None:
            return []
        first, last = self._span(node)
        body = list(_sequence(_parts(taken)))
        if not body:
            return [Command(first=first, last=last, text=_text(node), skipped=True, joined=part.joined)]
        if not all(one.joined for one in body[1:]) and (part.joined or (after and after.joined)):
            return []
        self.inside += 1
        found = list(self._all([replace(body[0], joined=part.joined), *body[1:]]))
        self.inside -= 1
        found[0] = replace(found[0], first=first)
        return [*found[:-1], replace(found[-1], last=last)]

    def _taken(self, node: Node) -> Sequence[Node] | None:
        """What of an ``if`` runs; None when a condition is not known."""
        branch: list[Node] = [child for child in node.children if child.type not in ("elif_clause", "else_clause")]
        for one in (branch, *(child.children for child in node.children if child.type == "elif_clause")):
            start = next((index for index, child in enumerate(one) if child.type == "then"), 0)
            tests = [child for child in one[1:start] if child.is_named]
            holds = self._holds(tests[0]) if len(tests) == 1 else None
            if holds is None:
                return None
            if holds:
                return [child for child in one[start + 1 :] if child.type != "fi"]
        last = next((child for child in node.children if child.type == "else_clause"), None)
        return last.children[1:] if last else []

    def _holds(self, node: Node, depth: int = 0) -> bool | None:
        """Whether a test holds by the known values; None when it is not known, or is deeper than people write."""
        if depth > DEEPEST:
            return None
        named = [child for child in node.children if child.is_named]
        if node.type == "test_command":
            pattern = node.children[0].type == "[[" and any(sign in _text(node) for sign in "*?~")
            return self._holds(named[0], depth + 1) if len(named) == 1 and not pattern else None
        if node.type == "negated_command" or (node.type == "unary_expression" and node.children[0].type == "!"):
            inside = self._holds(named[-1], depth + 1)
            return None if inside is None else not inside
        if node.type == "unary_expression":
            word = self._operand(node.children[-1])
            return None if word is None else {"-z": not word, "-n": bool(word)}.get(_text(node.children[0]))
        return self._compares(node, depth + 1) if len(node.children) == 3 else None

    def _compares(self, node: Node, depth: int) -> bool | None:
        """As ``_holds``, of two tests or of two words."""
        one, sign, other = node.children
        if (joint := _text(sign)) in ("&&", "||", "-a", "-o"):
            both = self._holds(one, depth), self._holds(other, depth)
            return None if None in both else all(both) if joint in ("&&", "-a") else any(both)
        left, right = self._operand(one), self._operand(other)
        if left is None or right is None:
            return None
        if joint in NUMBERS:
            small = NUMBER.fullmatch(left) and NUMBER.fullmatch(right)
            return NUMBERS[joint](int(left), int(right)) if small else None
        return {"=": left == right, "==": left == right, "!=": left != right}.get(joint)

    def _operand(self, node: Node) -> str | None:
        """A word of a test; None when it is not known, or may be no or several words."""
        found = self._word(node)
        bare = node.type in EXPANSIONS
        return None if found is None or (bare and not re.fullmatch(r"[\w.:/+-]+", found)) else found

    def _seen(self, text: str) -> str:
        def put(match: re.Match[str]) -> str:
            value = self.values.get(match[1] or match[2])
            return match[0] if value is None or len(value) > LONGEST_SEEN else value

        found = NAMED.sub(put, text) if len(text) < LONGEST_TEXT else text
        return found if len(found) < LONGEST_TEXT else text

    def _forget(self, node: Node) -> None:
        """What a loop or a condition sets has no known value after it."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.type == "variable_name" and one.parent and one.parent.type not in EXPANSIONS:
                self.values[_text(one)] = None
            waiting += one.children

    def _command(self, part: _Part) -> Iterator[Command]:
        node, redirects = part.node, part.redirects
        first, last = self._span(node)
        text = _text(node)
        if part.behind:
            yield self._whole(node, first, last, f"{text} &")
        elif redirects:
            text = self._bytes(node.start_byte, redirects.end_byte)
            yield self._with_inner(node, self._plain(node, first, self._span(redirects)[1], text, redirects=redirects))
        elif node.has_error or node.type == "ERROR":
            yield Command(first=first, last=last, text=text, unread=True)
        elif node.type == "command":
            yield self._with_inner(node, self._plain(node, first, last, text))
        elif node.type == "redirected_statement":
            body = node.child_by_field_name("body")
            # The grammar gives the commands behind the name of a heredoc, on its line, to the heredoc.
            heredocs = (child for child in node.children if child.type == "heredoc_redirect")
            behind = {child.type for one in heredocs for child in one.children}
            if body is None or body.type != "command" or behind & {"&&", "||", "|", "pipeline", "list"}:
                yield self._whole(node, first, last, text)
            else:
                yield self._with_inner(body, self._plain(body, first, last, text, redirects=node))
        elif node.type in ("declaration_command", "variable_assignment", "variable_assignments"):
            found = [node] if node.type == "variable_assignment" else list(node.children)
            settings = tuple(self._setting(child) for child in found if child.type == "variable_assignment")
            word = (_text(node.children[0]),) if node.type == "declaration_command" else ()
            inner = tuple(self._inside(node))
            yield Command(first=first, last=last, text=text, words=word, settings=settings, inner=inner)
        elif node.type in ("test_command", "negated_command", "unset_command"):
            inner = tuple(self._inside(node))
            yield Command(first=first, last=last, text=text, words=("test",), inner=inner)
        else:
            yield self._whole(node, first, last, text)

    def _whole(self, node: Node, first: int, last: int, text: str) -> Command:
        return Command(first=first, last=last, text=text, whole=True, inner=tuple(self._inside(node)))

    def _with_inner(self, node: Node, command: Command) -> Command:
        return replace(command, inner=tuple(self._inside(node)))

    def _inside(self, node: Node) -> Iterator[Command]:
        """Every plain command below a node; its words have only what was known before the node."""
        waiting = list(reversed(node.children))
        while waiting:
            one = waiting.pop()
            if one.type == "command":
                first, last = self._span(one)
                yield self._plain(one, first, last, _text(one))
            waiting += reversed(one.children)

    def _plain(self, node: Node, first: int, last: int, text: str, redirects: Node | None = None) -> Command:
        words, written = list[str | None](), list[str]()
        settings = list[tuple[str, str | None]]()
        for child in node.children:
            if child.type == "variable_assignment":
                settings.append(self._setting(child))
            elif child.type not in ("herestring_redirect", "file_redirect", "heredoc_redirect", "comment"):
                named = child.type == "command_name"
                words.append(self._word(child.children[0] if named and child.children else child))
                written.append(_text(child))
        stdin, reads, writes = None, list[str | None](), list[str | None]()
        waiting = [*(redirects.children if redirects else ()), *node.children]
        while waiting:
            child = waiting.pop(0)
            if child.type == "heredoc_redirect":
                stdin = _text(next((part for part in child.children if part.type == "heredoc_body"), None))
                waiting += child.children
            elif child.type == "file_redirect":
                place, *more = child.children_by_field_name("destination") or [None]
                target = self._word(place)
                words += [self._word(word) for word in more]  # the grammar takes every word behind it for a file
                written += [_text(word) for word in more]
                signs = {part.type for part in child.children}
                if signs & {">", ">>", "&>", "&>>", ">|"}:
                    writes.append(target)
                elif "<" in signs:
                    reads.append(target)
        return Command(
            first=first,
            last=last,
            text=text,
            words=tuple(words),
            settings=tuple(settings),
            stdin=stdin,
            reads=tuple(reads),
            writes=tuple(one for one in writes if one != "/dev/null"),
            written=tuple(written),
        )

    def _setting(self, node: Node) -> tuple[str, str | None]:
        value = node.child_by_field_name("value")
        return _text(node.child_by_field_name("name")), self._word(value) if value else ""

    def _word(self, node: Node | None) -> str | None:
        """A word as the shell would make it; None when only the shell can."""
        text, kind = _text(node), node.type if node else ""
        found: str | None = None
        if kind == "raw_string":
            found = text[1:-1]
        elif kind in ("word", "number", "test_operator", "extglob_pattern", "regex"):
            bare = text.replace("\\\n", "")
            found = None if BRACES.search(bare) else re.sub(r"\\(.)", r"\1", bare)
        elif kind in EXPANSIONS and VARIABLE.fullmatch(text):
            found = expand(text, self.values)
        elif kind == "string" and node:
            found = self._string(node)
        elif kind == "concatenation" and node and not BRACES.search(text):
            parts = [self._word(child) for child in node.children]
            found = self._joined(parts, text)
        self.characters += len(found or "")
        if self.characters > MOST_CHARACTERS:
            raise too_long(text)
        return found

    def _joined(self, parts: Sequence[str | None], text: str) -> str | None:
        if sum(len(part or "") for part in parts) > max(LONGEST_VALUE, len(text)):
            raise too_long(text)
        return None if None in parts else "".join(part or "" for part in parts)

    def _string(self, node: Node) -> str | None:
        """Text in double quotes; what stands between its parts is text, too."""
        found, at = list[str | None](), node.start_byte + 1
        for child in node.children[1:-1]:
            found.append(self._bytes(at, child.start_byte))
            content = re.sub(r'\\(["\\$`])', r"\1", _text(child).replace("\\\n", ""))
            found.append(content if child.type == "string_content" else self._word(child))
            at = child.end_byte
        found.append(self._bytes(at, node.end_byte - 1))
        return self._joined(found, _text(node))

    def _bytes(self, start: int, end: int) -> str:
        return self.content[start:end].decode("utf-8", "replace")

    def _span(self, node: Node) -> tuple[int, int]:
        last, column = node.end_point
        last -= not column and last > node.start_point[0]
        rows = [self.rows[min(row, len(self.rows) - 1)] for row in (node.start_point[0], last)] if self.rows else [0, 0]
        return rows[0], rows[1]


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def _sequence(parts: Sequence[_Part]) -> Iterator[_Part]:
    """The parts of a program, with those of lists joined by ``&&`` in their place.

    The grammar gives the redirection at the end of ``a && b < c`` to the whole list, a shell gives it to the last
    command.
    """
    waiting = list(reversed(parts))
    while waiting:
        part = waiting.pop()
        one = part.node
        body = one.child_by_field_name("body") if one.type == "redirected_statement" else None
        joined = body if body and body.type == "list" and body.children[-1].type == "command" else one
        operators = {child.type for child in joined.children if not child.is_named}
        if joined.type == "list" and operators <= {"&&", ";", "\n"} and not one.has_error and not part.behind:
            first, *middle, final = _parts(joined.children)
            own = part.redirects if joined is one else one
            waiting += [replace(final, redirects=own), *reversed(middle), replace(first, joined=part.joined)]
        else:
            yield part


def _parts(children: Sequence[Node]) -> list[_Part]:
    """The commands among nodes beside each other, by the operators between them."""
    found = list[_Part]()
    sign = ""
    for child in children:
        if child.type == "&" and found:
            found[-1] = replace(found[-1], behind=True)
        if child.type in OPERATORS:
            sign = child.type
        elif child.type != "comment":
            found.append(_Part(child, None, sign == "&&", behind=False))
            sign = ""
    return found
