"""The ``docker run`` lines of a shell script: options, image and command, with the line of each. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gb10.models.launches.container_launch import (
    ContainerLaunch,
    Taken,
    interpolated,
    mapped_port,
    with_entrypoint,
)
from gb10.models.launches.shell_words import (
    arrays_of,
    end_of,
    expanded,
    line_at,
    shell_words,
    variables,
    with_what_is_left,
    without_comments,
)

START: Final = re.compile(
    r"(?<![\w./-])(?:/(?:[\w.-]{1,40}/){1,5})?(?:docker|podman|nerdctl)\s+(?:container\s+)?(?:run|create)\b"
)
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
MOST: Final = 64
"""Containers of a script."""


def docker_runs(text: str) -> tuple[ContainerLaunch, ...]:
    """Every ``docker run`` of a script, in order. What only a shell can know stays as ``$NAME``."""
    text = without_comments(text)
    known, arrays = variables(text), arrays_of(text)
    found: list[ContainerLaunch] = []
    until = 0
    for start in START.finditer(text):
        if start.start() < until or len(found) >= MOST:
            continue
        words = list(shell_words(text, start.end()))
        until = end_of(text, words, start.end())
        launch = _launch(text, start, list(expanded(words, arrays)), known)
        found.append(with_what_is_left(launch, text, words, arrays, until))
    return tuple(found)


def _launch(
    text: str, found: re.Match[str], placed: Sequence[tuple[str, int]], known: Mapping[str, str]
) -> ContainerLaunch:
    words = [(interpolated(word, known), line_at(text, at)) for word, at in placed]
    reader = _Reader(line_at(text, found.start()))
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
            own=() if self.entrypoint is not None else tuple(word for word, _ in words),
            environment=self.environment,
            ports=tuple(self.ports),
            options=self.options,
            gpu=self.gpu,
            entrypoint=" ".join(self.entrypoint or ()),
            taken=(*self.taken, *taken),
            lines=lines,
        )
