"""The servers that a shell script starts without a container, each with the variables of its own place. Pure."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from gb10.models.launches.container_launch import ContainerLaunch, Taken, interpolated
from gb10.models.launches.shell_words import (
    COMMANDS,
    DEFAULTED,
    arrays_of,
    end_of,
    expanded,
    line_at,
    plain,
    shell_words,
    with_what_is_left,
    without_comments,
    word_end,
    written_words,
)

GAP: Final = r"(?:[ \t]|\\\n){1,40}"
SERVER: Final = re.compile(
    rf"(?<![\w./~$}}-])(?:[\w.~${{}}/-]{{0,120}}/)?(?:(?:vllm|sglang){GAP}serve|trtllm-serve|llama-server|"
    rf"python3?(?:\.\d{{1,2}})?(?:{GAP}-(?:[bBdEiIOPqsSuvx]{{1,8}}|[WX][ \t]*[\w:=.]{{1,60}})){{0,8}}"
    rf"{GAP}-[bBdEiIOPqsSuvx]{{0,8}}m{GAP}(?:vllm\.entrypoints\.openai\.api_server|"
    rf"vllm\.entrypoints\.cli\.main{GAP}serve|sglang\.launch_server))"
    r"(?=[\s;&|<>)\\]|\Z)"
)
KEYWORDS: Final = frozenset(("then", "do", "else", "if", "elif", "while", "until", "{", "!", "time", "$"))
"""What stands before a command; ``$`` is a prompt that was copied along."""
WRAPPERS: Final = frozenset(
    (
        *("exec", "nohup", "sudo", "doas", "env", "command", "nice", "ionice", "chrt", "numactl", "taskset", "timeout"),
        *("setsid", "stdbuf", "uv", "uvx", "poetry", "pixi", "conda", "mamba", "micromamba"),
    )
)
"""Programs that start the one that their words name behind their options."""
NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?[smhd]?")
MODEL: Final = re.compile(r"[\w./:@{}$~+=-]{0,400}[\w/}]")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w{0,127})=", re.ASCII)
NAME: Final = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
STATEMENT: Final = re.compile(
    r"(?P<sign>^[ \t]*|(?:[;&|{]|(?<!\$)\()[ \t]*|\b(?:then|do|else)[ \t]+)(?:"
    r"(?P<export>(?:export|(?:declare|typeset)[ \t]+-\w{0,8}x\w{0,8})[ \t]+)|(?P<unset>unset[ \t]+)|"
    r"set[ \t]+(?P<all>[-+])(?:\w{0,8}a\w{0,8}|o[ \t]+allexport)\b|"
    r"(?P<plain>(?:(?:readonly|local|declare|typeset)[ \t]+)?(?=[A-Za-z_]\w{0,127}=)))",
    re.MULTILINE,
)
MOST: Final = 64
"""Servers of a script."""
MOST_STATEMENTS: Final = 1000
AHEAD: Final = 4096
"""Characters of a statement, and of a command ahead of its server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What one statement does to a variable. ``value`` is None where only the shell knows it, or for ``unset``."""

    at: int
    name: str
    value: str | None = None
    literal: bool = False
    """Whether a ``$`` in it is only a sign: it stood between single quotation marks."""
    assigns: bool = False
    exports: bool = False
    certain: bool = True
    """Whether the shell comes by here for sure: it stands in no branch."""
    default: bool = False
    """Whether it counts only where the variable has no value: ``: "${NAME:=value}"``."""


@dataclass(kw_only=True, slots=True)
class Variables:
    """The variables at one place of a script. None: a value that only the shell knows."""

    known: dict[str, str | None] = field(default_factory=dict)
    exported: dict[str, int] = field(default_factory=dict)
    """The place where each got its value."""

    def take(self, one: Setting) -> None:
        """Follow one statement."""
        if one.default and one.name in self.known:
            return
        if one.assigns:
            value = one.value
            if value is not None and "$" in value and not one.literal:
                value = interpolated(value, self.plain)
            if not one.certain and one.name in self.known and self.known[one.name] != value:
                value = None
            self.known[one.name] = value
        if one.exports or (one.assigns and one.name in self.exported):
            self.exported[one.name] = one.at
        if not one.assigns and not one.exports:
            self.known.pop(one.name, None)
            self.exported.pop(one.name, None)

    @property
    def plain(self) -> dict[str, str]:
        """Those whose value is known."""
        return {name: value for name, value in self.known.items() if value is not None}


def shell_servers(text: str) -> tuple[ContainerLaunch, ...]:
    """Every server that a script starts without a container, in order."""
    text = without_comments(text)
    arrays, settings = arrays_of(text), sorted(_settings(text), key=lambda one: one.at)
    found: list[ContainerLaunch] = []
    for start in islice(SERVER.finditer(text), MOST):
        own = _ahead(text, start.start())
        if own is None:
            continue
        written = list(shell_words(text, start.end()))
        words = [word for word, _ in expanded(written, arrays)]
        # The words of a server, and not of a sentence, have at most a model before the options.
        models = list(takewhile(lambda word: not word.startswith(("-", "$")), words))
        most = 2 if start[0].endswith("trtllm-serve") else int(start[0].endswith("serve"))
        if len(models) <= most and all(MODEL.fullmatch(word) for word in models):
            launch = _launch(text, start, words, [*_before(settings, start.start()), *own])
            found.append(with_what_is_left(launch, text, written, arrays, end_of(text, written, start.end())))
    return tuple(found)


def _launch(text: str, start: re.Match[str], words: Sequence[str], settings: Sequence[Setting]) -> ContainerLaunch:
    variables = Variables()
    for one in settings:
        variables.take(one)
    known = variables.plain
    called = (*start[0].replace("\\\n", " ").split(), *(interpolated(word, known) for word in words))
    line = line_at(text, start.start())
    lines = {name: line_at(text, at) for name, at in variables.exported.items() if name in variables.known}
    taken = [
        Taken(line=lines[name], written=f"{name}={known[name]}"[:200], became=f"env.{name}")
        if name in known
        else Taken(line=lines[name], written=name, why="its value is known only where the script runs")
        for name in lines
    ]
    return ContainerLaunch(
        form="shell",
        name=f"line-{line}",
        line=line,
        words=called,
        environment={name: known[name] for name in lines if name in known},
        taken=(*taken, Taken(line=line, written=" ".join(called)[:200], became="command")),
        lines={"command": line, **{f"env.{name}": at for name, at in lines.items()}},
    )


def _before(settings: Sequence[Setting], at: int) -> Iterator[Setting]:
    return takewhile(lambda one: one.at < at, settings)


def _settings(text: str) -> Iterator[Setting]:
    """What the statements of a script do to variables."""
    for found in islice(DEFAULTED.finditer(text), MOST_STATEMENTS):
        yield Setting(at=found.start(), name=found[1], value=found[2], assigns=True, default=True)
    all_are_exported, until = False, 0
    for found in islice(STATEMENT.finditer(text), MOST_STATEMENTS):
        if found.start() < until:
            continue  # a line that goes on
        if found["all"]:
            all_are_exported = found["all"] == "-"
            continue
        certain = found["sign"].strip() == ";" or not found["sign"]
        words = list(written_words(text, found.end(), longest=AHEAD))
        until = words[-1][1] + len(words[-1][0]) if words else found.end()
        if found["plain"] is not None and not all(ASSIGNMENT.match(word) for word, _ in words):
            continue  # a command, with variables of its own
        for word, at in words:
            named = ASSIGNMENT.match(word)
            if named:
                exports = bool(found["export"]) or all_are_exported
                yield _assigned(word, named, at, exports=exports, certain=certain)
            elif NAME.fullmatch(word):
                yield Setting(at=at, name=word, exports=bool(found["export"]))


def _assigned(word: str, named: re.Match[str], at: int, *, exports: bool, certain: bool) -> Setting:
    """The setting of ``NAME=VALUE``."""
    written, value = word[named.end() :], None
    literal = written.startswith("'")
    if literal or not any(sign in written for sign in COMMANDS):
        with suppress(ValueError):  # quotes that end nowhere: no value
            value = plain(written)
    return Setting(at=at, name=named[1], value=value, literal=literal, assigns=True, exports=exports, certain=certain)


def _ahead(text: str, at: int) -> list[Setting] | None:
    """The variables that a command sets for its server; None where no command begins there: in quotes, as a word."""
    begin = text.rfind("\n", 0, at) + 1
    while begin > 1 and text[begin - 2] == "\\" and at - begin < AHEAD:
        begin = text.rfind("\n", 0, begin - 1) + 1
    if at - begin > AHEAD:
        return None
    body, place, words = text[begin:at], 0, list[tuple[str, int]]()
    while place < len(body):
        if body.startswith("\\\n", place):
            place += 2
        elif body[place] in " \t\r":
            place += 1
        elif body[place] in ";&|()":
            words.clear()
            place += 1
        else:
            end = word_end(body, place)
            if end in (None, place, len(body)):
                return None  # in quotes, behind a redirection, or in the middle of a word
            words.append((body[place:end], begin + place))
            place = end or len(body)
    return _own(words)


def _own(words: Sequence[tuple[str, int]]) -> list[Setting] | None:
    found: list[Setting] = []
    wrapper, option = "", False
    for word, at in words:
        named = ASSIGNMENT.match(word)
        name = word.rpartition("/")[2]
        if named:
            found.append(_assigned(word, named, at, exports=True, certain=True))
        elif name in WRAPPERS:
            wrapper = name
        elif not (wrapper and (option or word.startswith("-") or NUMBER.fullmatch(word) or word == "run")) and (
            wrapper or word not in KEYWORDS
        ):
            return None
        option = word.startswith("-")
    return found
