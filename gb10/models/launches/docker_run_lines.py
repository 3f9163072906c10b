"""The ``docker run`` lines of a shell script: options, image and command, with the line of each. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from gb10.models.launches.container_launch import (
    ContainerLaunch,
    Taken,
    interpolated,
    mapped_port,
    with_entrypoint,
)

START: Final = re.compile(
    r"(?<![\w./-])(?:/(?:[\w.-]{1,40}/){1,5})?(?:docker|podman|nerdctl)\s+(?:container\s+)?(?:run|create)\b"
)
SERVER: Final = re.compile(
    r"(?:(?<=[\n;&|(])|^)[ \t]*(?:\$ )?(?P<before>(?:[A-Za-z_]\w{0,127}=(?:'[^'\n]{0,400}'|\"[^\"\n]{0,400}\"|"
    r"[^\s'\";&|]{0,400})[ \t]+|"
    r"(?:exec|nohup|sudo|env|uv run|uvx)[ \t]+){0,20})"
    r"(?P<call>(?:/[\w./-]{0,120}/)?(?:vllm[ \t]+serve|sglang[ \t]+serve|trtllm-serve|llama-server|"
    r"python3?(?:\.\d{1,2})?[ \t]+-m[ \t]+(?:vllm\.entrypoints\.openai\.api_server|sglang\.launch_server))(?![\w.-]))",
    re.MULTILINE,
)
"""A server that a shell starts by itself, with variables before it."""
SWITCHES: Final = frozenset(
    (
        *("-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--init", "--privileged", "-P"),
        *("--publish-all", "--read-only", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "-q", "--quiet"),
        *("--disable-content-trust", "--replace", "--tls-verify", "--help"),
    )
)
"""Options of ``docker run`` without a value; a value after ``=`` is theirs, too."""
SHORT: Final = {
    "-e": "--env",
    "-v": "--volume",
    "-p": "--publish",
    "-w": "--workdir",
    "-u": "--user",
    "-h": "--hostname",
    "-m": "--memory",
    "-l": "--label",
    "-c": "--cpu-shares",
    "-a": "--attach",
    "--net": "--network",
}
KEYS: Final = {
    "--shm-size": "shm_size",
    "--ipc": "ipc",
    "--network": "network",
    "--user": "user",
    "--gpus": "gpus",
    "--memory": "memory_limit",
    "--restart": "restart_policy",
    "--entrypoint": "entrypoint",
}
LISTS: Final = {
    "--volume": "volumes",
    "--mount": "volumes",
    "--cap-add": "cap_add",
    "--device": "devices",
    "--security-opt": "security_opt",
    "--ulimit": "ulimit",
    "--label": "labels",
}
ASSIGNED: Final = re.compile(r"^[ \t]*(?:export[ \t]+|readonly[ \t]+|local[ \t]+)?(\w{1,128})=(.*)$", re.MULTILINE)
EXPORTED: Final = re.compile(
    r"^[ \t]*export[ \t]+([A-Za-z_]\w{0,127})=('[^'\n]*'|\"[^\"\n]*\"|[^\s;&|]*)", re.MULTILINE
)
BEFORE: Final = re.compile(r"([A-Za-z_]\w{0,127})=('[^'\n]*'|\"[^\"\n]*\"|[^\s'\";&|]*)")
ARRAY: Final = re.compile(r"^[ \t]*(?:local[ \t]+|declare[ \t]+-a[ \t]+)?(\w{1,128})(\+?)=\(", re.MULTILINE)
WHOLE: Final = re.compile(r"\$\{(\w{1,128})\[[@*]\]\}")
MOST: Final = 64
"""Containers of a script."""
MOST_WORDS: Final = 2000
"""Words of a call."""
LONGEST: Final = 64 << 10
"""Characters of one call."""


def docker_runs(text: str) -> tuple[ContainerLaunch, ...]:
    """Every ``docker run`` of a script, in order. What only a shell can know stays as ``$NAME``."""
    known, arrays = _variables(text), _arrays(text)
    found: list[ContainerLaunch] = []
    until = 0
    for start in START.finditer(text):
        if start.start() < until or len(found) >= MOST or _in_comment(text, start.start()):
            continue
        words = list(islice(_words(text, start.end()), MOST_WORDS))
        until = words[-1][1] + len(words[-1][0]) if words else start.end()
        found.append(_launch(text, start, list(_expanded(words, arrays)), known))
    return tuple(found)


def shell_servers(text: str) -> tuple[ContainerLaunch, ...]:
    """Every server that a script starts without a container, in order."""
    known, arrays = _variables(text), _arrays(text)
    exported = {found[1]: interpolated(found[2].strip("'\""), known) for found in EXPORTED.finditer(text)}
    found: list[ContainerLaunch] = []
    for start in islice(SERVER.finditer(text), MOST):
        if _in_comment(text, start.start("call")):
            continue
        placed = _expanded(list(islice(_words(text, start.end()), MOST_WORDS)), arrays)
        words = (*start["call"].split(), *(interpolated(word, known) for word, _ in placed))
        line = text.count("\n", 0, start.start("call")) + 1
        own = {one[1]: one[2].strip("'\"") for one in BEFORE.finditer(start["before"])}
        written = " ".join(words)[:200]
        found.append(
            ContainerLaunch(
                form="shell",
                name=f"line-{line}",
                line=line,
                words=words,
                environment={**exported, **own},
                taken=(Taken(line=line, written=written, became="command"),),
                lines={"command": line},
            )
        )
    return tuple(found)


def _in_comment(text: str, at: int) -> bool:
    start = text.rfind("\n", 0, at) + 1
    return text[start:at].lstrip().startswith("#")


def _variables(text: str) -> dict[str, str]:
    """Assignments of plain texts; of a name that is assigned twice nothing is known."""
    found: dict[str, str] = {}
    twice = set()
    for name, value in ASSIGNED.findall(text):
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            continue
        if name in found or len(words) > 1 or any(sign in value for sign in ("$(", "`")):
            twice.add(name)
        else:
            found[name] = interpolated(words[0] if words else "", found)
    return {name: value for name, value in found.items() if name not in twice}


def _arrays(text: str) -> dict[str, list[str]]:
    """Arrays of plain texts, with what is added to them further down."""
    found: dict[str, list[str]] = {}
    until = 0
    for start in ARRAY.finditer(text):
        if start.start() < until or len(found) >= MOST:
            continue
        words = list(islice(_words(text, start.end(), ends=")"), MOST_WORDS))
        until = words[-1][1] + len(words[-1][0]) if words else start.end()
        texts = [word for word, _ in words]
        found[start[1]] = [*found.get(start[1], ()), *texts][:MOST_WORDS] if start[2] else texts
    return found


def _expanded(words: Sequence[tuple[str, int]], arrays: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int]]:
    for word, at in words:
        named = WHOLE.fullmatch(word)
        if named and named[1] in arrays:
            yield from ((one, at) for one in arrays[named[1]])
        else:
            yield word, at


def _words(text: str, start: int, ends: str = "\n;&|<>)") -> Iterator[tuple[str, int]]:
    """The words of a call with the offset of each one's start; up to the end of the call, or a quote without an end."""
    body = text[start : start + LONGEST]
    at, last = 0, len(body)
    while at < last:
        sign = body[at]
        if sign == "\\" and body[at + 1 : at + 2] == "\n":
            at += 2
        elif sign in " \t\r" or (sign == "\n" and sign not in ends):
            at += 1
        elif sign == "#":
            at = body.find("\n", at) if "\n" in body[at:] else last
        elif sign in ends or sign in ";&|<>)":
            return
        else:
            end = _end(body, at)
            if end is None:
                return
            try:
                yield "".join(shlex.split(body[at:end].replace("\\\n", ""))), start + at
            except ValueError:
                return
            at = end


def _end(body: str, at: int) -> int | None:
    """Where a word ends; None where a quotation mark is not closed."""
    quote = ""
    while at < len(body):
        sign = body[at]
        if quote:
            if sign == "\\" and quote == '"':
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif sign == "\\":
            at += 1
        elif sign in " \t\r\n;&|<>)":
            return at
        at += 1
    return None if quote else len(body)


def _launch(
    text: str, found: re.Match[str], placed: Sequence[tuple[str, int]], known: Mapping[str, str]
) -> ContainerLaunch:
    words = [(interpolated(word, known), text.count("\n", 0, at) + 1) for word, at in placed]
    reader = _Reader(text.count("\n", 0, found.start()) + 1)
    while words and words[0][0].startswith("-") and words[0][0] != "-":
        name, line = words.pop(0)
        name, equals, value = name.partition("=") if name.startswith("--") else (name[:2], name[2:], name[2:])
        if not equals and name not in SWITCHES and words:
            value = words.pop(0)[0]
        elif name in SWITCHES and not name.startswith("--"):
            words[:0] = [(f"-{equals}", line)] if equals else []
            value = ""
        reader.option(SHORT.get(name, name), value, line)
    image = words.pop(0) if words else ("", reader.line)
    return reader.launch(image, words)


class _Reader:
    """What the options of one call say."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.name = ""
        self.environment: dict[str, str] = {}
        self.ports: list[tuple[int, int]] = []
        self.options: dict[str, object] = {}
        self.entrypoint: tuple[str, ...] | None = None
        self.gpu = False
        self.taken: list[Taken] = []
        self.lines: dict[str, int] = {}

    def option(self, name: str, value: str, line: int) -> None:
        """Take one option, or note why not."""
        written = f"{name}{f' {value}' if value else ''}"
        became, why = self._became(name, value, line)
        self.taken.append(Taken(line=line, written=written[:200], became=became, why=why))

    def _became(self, name: str, value: str, line: int) -> tuple[str, str]:
        if name == "--env":
            variable, equals, given = value.partition("=")
            if not equals:
                return "", "its value is the environment of whoever runs the script"
            self.environment[variable] = given
            self.lines[f"env.{variable}"] = line
            return f"env.{variable}", ""
        if name == "--publish":
            port = mapped_port(value)
            self.ports += [port] if port else []
            self.lines.setdefault("ports", line)
            return ("port" if port else ""), "" if port else "it names no single port"
        if name == "--name":
            self.name = value
            return "name", ""
        return self._setting(name, value, line)

    def _setting(self, name: str, value: str, line: int) -> tuple[str, str]:
        self.gpu = self.gpu or name == "--gpus" or "nvidia" in value
        if name == "--entrypoint":
            self.entrypoint = (value,) if value else ()
            self.lines["entrypoint"] = line
        if name in KEYS:
            self.options[KEYS[name]] = value
            return f"executor_config.{KEYS[name]}", ""
        if name in LISTS:
            listed = self.options.setdefault(LISTS[name], [])
            if isinstance(listed, list):
                listed.append(value)
            return f"executor_config.{LISTS[name]}", ""
        if name in ("--privileged", "--rm"):
            self.options["privileged" if name == "--privileged" else "auto_remove"] = True
            return f"executor_config.{'privileged' if name == '--privileged' else 'auto_remove'}", ""
        if name == "--env-file":
            return "", "the file was not read"
        return "", "no key of a recipe says it" if name not in SWITCHES else "the launcher decides it"

    def launch(self, image: tuple[str, int], words: list[tuple[str, int]]) -> ContainerLaunch:
        """The launch of an image and a command."""
        command = with_entrypoint(image[0], tuple(word for word, _ in words), self.entrypoint)
        lines = {"image": image[1], "command": words[0][1] if words else image[1], **self.lines}
        taken = [Taken(line=image[1], written=image[0], became="container")] if image[0] else []
        taken += [Taken(line=lines["command"], written=" ".join(command)[:200], became="command")] if command else []
        return ContainerLaunch(
            form="docker run",
            name=self.name or f"line-{self.line}",
            line=self.line,
            image=image[0],
            words=command,
            environment=self.environment,
            ports=tuple(self.ports),
            options=self.options,
            gpu=self.gpu,
            entrypoint=" ".join(self.entrypoint or ()),
            taken=(*self.taken, *taken),
            lines=lines,
        )
