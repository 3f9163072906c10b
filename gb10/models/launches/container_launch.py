"""One container that starts a server, read from a file of another tool: what was taken, and what was not. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gb10.models.render.serve_line import SERVE

Form = Literal["docker run", "compose", "Kubernetes", "shell"]
SERVERS: Final[Mapping[str, re.Pattern[str]]] = {
    **SERVE,
    "llama-cpp": re.compile(r"\bllama-server\b"),
}
ENTRYPOINTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"(?:docker\.io/)?vllm/vllm-openai(?:[:@-].*)?", ("vllm", "serve")),
    (r"ghcr\.io/ggml-org/llama\.cpp:server.*", ("llama-server",)),
)
"""Images whose own entrypoint is the server: their arguments are its options."""
OF_VLLM: Final = frozenset(
    ("--max-model-len", "--gpu-memory-utilization", "--served-model-name", "--tensor-parallel-size")
)
MODEL: Final = re.compile(r"[\w.-]{1,100}/[\w.-]{1,200}|/[\w./-]{1,300}")
FULL: Final = re.compile(r"ghcr\.io/ggml-org/llama\.cpp:full.*")
"""Its entrypoint is a script whose first argument says the program."""
OF_SCRIPT: Final = (
    "the script adds it under a condition",
    "the script's own arguments are known only where it runs",
)
"""Why words of a call are left out that only the run of a script decides."""
HOST_NETWORK: Final = "host"
LARGEST_MAPPING: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What one line of the file became: ``--shm-size=16g`` -> ``executor_config.shm_size``; or why it was not taken."""

    line: int
    written: str
    became: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerLaunch:
    """``words`` are the whole command, the image's known entrypoint included; ``lines`` are those of the parts.

    ``ports`` are (port of the machine, port of the container). ``options`` are for ``executor_config``.
    """

    form: Form
    name: str
    line: int
    image: str = ""
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[tuple[int, int], ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    gpu: bool = True
    """Whether it asks for a GPU."""
    entrypoint: str = ""
    """What replaces the image's entrypoint: ``command`` of Kubernetes, ``--entrypoint``; empty when nothing does."""
    taken: tuple[Taken, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    """By part: ``image``, ``command``, ``ports``, ``entrypoint``, and ``env.NAME``."""
    own: tuple[str, ...] = ()
    """The words that the file has for the container, without an entrypoint."""
    behind: int = 0
    """The line of an option that a missing backslash cuts off from the call; 0 without such."""

    @property
    def engine(self) -> str | None:
        """The engine whose server it starts; None for another program."""
        text = " ".join(self.words)
        return next((name for name, pattern in SERVERS.items() if pattern.search(text)), None)

    @property
    def left(self) -> tuple[Taken, ...]:
        """What was not taken."""
        return tuple(one for one in self.taken if not one.became)

    def line_of(self, part: str) -> int:
        """The line of a part, else that of the container."""
        return self.lines.get(part, self.line)


def entrypoint_of(image: str) -> tuple[str, ...]:
    """The server that an image starts by itself; empty where none is known."""
    return next((start for name, start in ENTRYPOINTS if re.fullmatch(name, image)), ())


def with_entrypoint(image: str, words: tuple[str, ...], entrypoint: tuple[str, ...] | None) -> tuple[str, ...]:
    """The whole command: the entrypoint that is given, else the image's own where it is known, then the words."""
    if entrypoint is not None:
        return (*entrypoint, *words)
    if FULL.fullmatch(image) and words[:1] in (("--server",), ("-s",)):
        return ("llama-server", *words[1:])
    text = " ".join(words)
    if any(pattern.search(text) for pattern in SERVERS.values()):
        return words
    start = entrypoint_of(image)
    return (*start, *words) if start else (*_start_of_build(image, words), *words)


def _start_of_build(image: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """``vllm serve`` of somebody's own build of vLLM whose arguments are a model and the server's options."""
    if "vllm" not in image.lower() or not OF_VLLM & {word.partition("=")[0] for word in words}:
        return ()
    return ("vllm", "serve") if words[0].startswith("--") or MODEL.fullmatch(words[0]) else ()


def mapped_port(text: str) -> tuple[int, int] | None:
    """``127.0.0.1:8356:8000/tcp`` as (8356, 8000); ``8000`` as (8000, 8000); None for what names no single port."""
    parts = text.partition("/")[0].rsplit(":", 2)
    numbers = [int(part) for part in parts[-2:] if part.isascii() and part.isdecimal() and len(part) < 6]
    if len(numbers) < min(len(parts), 2):
        return None
    return (numbers[0], numbers[-1])


VARIABLE: Final = re.compile(r"\$\$|\$\{(\w{1,128})(?:(:?[-+?=])([^{}]{0,1024}))?\}|\$(\w{1,128})")


def interpolated(text: str, known: Mapping[str, str]) -> str:
    """A text with the values of variables that are known or have a default; others stay as ``$NAME``."""

    def filled(found: re.Match[str]) -> str:
        name = found[1] or found[4]
        if not name:
            return "$"
        value, sign = known.get(name), found[2] or ""
        if value or (value is not None and ":" not in sign):
            return found[3] if "+" in sign else value
        if sign.endswith(("-", "=")):
            return found[3] or ""
        return f"${name}" if value is None else ""

    return VARIABLE.sub(filled, text[:LARGEST_MAPPING])


def texts_of(value: object) -> Iterator[str]:
    """The texts of a list, or the one of a scalar."""
    if isinstance(value, list | tuple):
        yield from (str(one) for one in value if isinstance(one, str | int | float))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def mapping(value: object) -> Mapping[str, object]:
    """A mapping with text keys; an empty one for anything else."""
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}
