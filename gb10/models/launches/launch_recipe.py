"""A launch of another tool as a model recipe: for lint with the lines of its own file, for import as a file. Pure."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

from gb10.models.issue import Issue, Level
from gb10.models.launches.container_launch import HOST_NETWORK, SERVERS, ContainerLaunch, entrypoint_of
from gb10.models.load.model_recipe import At, ModelRecipe

VARIABLE: Final = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w{0,80})|\{(?P<braced>[A-Za-z_]\w{0,80})\})")
DEFAULT_PORTS: Final = {"vllm": 8000, "sglang": 30000, "trtllm": 8000, "llama-cpp": 8080}
MODEL_OPTIONS: Final = ("--model", "--model-path")
OF_LLAMA: Final = ("-m", "-hf", "-hfr", "--hf-repo")
"""More names that llama.cpp has for them; its variables are ``LLAMA_ARG_MODEL`` and ``LLAMA_ARG_HF_REPO``."""
STARTS_SERVER: Final = re.compile(
    r"\bvllm(?:\.entrypoints\.cli\.main)?\s+serve\b|launch_server\b|sglang\s+serve\b|api_server\b|trtllm-serve\b|llama-server\b"
)
NGC: Final = re.compile(r"nvcr\.io/")
FILES: Final = ("--env-file", "env_file", "envFrom", "extends")
ENGINES_OWN: Final = re.compile(r"(?:--env )?(?:VLLM|SGLANG|FLASHINFER|CUDA|NVIDIA)_")
"""Variables that decide how a server runs."""
OF_RECIPES: Final = frozenset(("no-revision", "unused-default", "missing-key", "recipe-version", "unknown-runtime"))
"""Findings about keys that only a recipe has."""


def served_words(launch: ContainerLaunch) -> tuple[str, ...]:
    """The words of the server's own command: inside of ``bash -c '…'`` those between the separators of the shell.

    A variable that the launch itself sets, and that is no secret, stands as its value.
    """
    return tuple(_with_values(word, launch) for word in _split(launch)[0])


def shell_before(launch: ContainerLaunch) -> str:
    """What a shell runs before and after the server, which no recipe's command has; empty without such."""
    return _split(launch)[1]


def _split(launch: ContainerLaunch) -> tuple[tuple[str, ...], str]:
    inner = next((word for word in launch.words if " " in word and STARTS_SERVER.search(word)), None)
    if inner is None:
        return launch.words, ""
    lexer = shlex.shlex(inner.replace("\n", " ; "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word.strip(";&|"):
                commands[-1].append(word)
            else:
                commands.append([])
    except ValueError:
        return launch.words, ""
    served = next((one for one in commands if STARTS_SERVER.search(" ".join(one))), None)
    if served is None:
        return launch.words, ""
    others = "; ".join(" ".join(one) for one in commands if one and one is not served)
    return tuple(served[1:] if served[0] == "exec" else served), others


def _with_values(word: str, launch: ContainerLaunch) -> str:
    named = VARIABLE.fullmatch(word)
    name = named["name"] or named["braced"] if named else ""
    value = launch.environment.get(name, "")
    if not value or "$" in value:
        return word
    from gb10.core.secret_names import Level, level_of  # noqa: PLC0415 - for a command with a variable that is set

    return value if level_of(name) < Level.WEAK else word


def model_of(launch: ContainerLaunch) -> str:
    """The model that the command names; empty when it names none."""
    words, llama = served_words(launch), launch.engine == "llama-cpp"
    for option in (*MODEL_OPTIONS, *(OF_LLAMA if llama else ())):
        for index, word in enumerate(words):
            if word == option and index + 1 < len(words):
                return words[index + 1]
            if word.startswith(f"{option}="):
                return word.partition("=")[2]
    for index, word in enumerate(words[:-1]):
        if word == "serve" or word.endswith("trtllm-serve"):
            return words[index + 1] if not words[index + 1].startswith("-") else ""
    named = (launch.environment.get(f"LLAMA_ARG_{name}") for name in ("MODEL", "HF_REPO"))
    return next((one for one in named if one), "") if llama else ""


def port_of(launch: ContainerLaunch) -> int:
    """The port that the server listens at."""
    words = served_words(launch)
    given = [words[index + 1] for index, word in enumerate(words[:-1]) if word == "--port"]
    given += [word.partition("=")[2] for word in words if word.startswith("--port=")]
    text = given[-1] if given else ""
    return int(text) if text.isascii() and text.isdecimal() else DEFAULT_PORTS.get(launch.engine or "", 8000)


def as_recipe(launch: ContainerLaunch, file: str) -> ModelRecipe:
    """The launch as a recipe of version 2, every part at the line of the file that it is of."""
    keys: dict[At, int] = {
        ("container",): launch.line_of("image"),
        ("command",): launch.line_of("command"),
        ("model",): launch.line_of("command"),
        ("env",): launch.line,
        **{("env", name): launch.line_of(f"env.{name}") for name in launch.environment},
    }
    values: dict[object, object] = {
        "recipe_version": "2",
        "model": model_of(launch) or "a model that the command does not name",
        "container": launch.image,
        "env": dict(launch.environment),
        "command": shlex.join(launch.words) if len(launch.words) > 1 else "".join(launch.words),
    }
    return ModelRecipe(file=file, stem=PurePath(file).stem, format="v2", values=values, keys=keys)


SHELLS: Final = ("bash", "sh", "python", "python3")
TWO_WORDS: Final = re.compile(r"(--?[A-Za-z][\w.-]*)\s+(\S.*)", re.DOTALL)
"""An option and its value in one word, as no parser takes them."""
MakeIssue = Callable[[str, Level, str, str, str], Issue]


def _word_issues(launch: ContainerLaunch, issue: MakeIssue) -> Iterator[Issue]:
    """Words that the server does not get as they are meant."""
    if launch.behind:
        text = f"the call ends before line {launch.behind}: the line above it has no backslash, so its options are lost"
        yield issue("call-ends-early", "error", "command", text, "put a backslash at the end of each line but the last")
    start, first = entrypoint_of(launch.image), PurePath(launch.own[0]).name if launch.own else ""
    if start and (first in SHELLS or any(one.search(" ".join(launch.own)) for one in SERVERS.values())):
        text = f"the image starts `{' '.join(start)}` by itself, so it takes `{' '.join(launch.own)[:60]}` as arguments"
        fix = "write only the model and the options" + ("; or name another entrypoint" if first in SHELLS else "")
        yield issue("entrypoint-repeated", "error", "command", text, f"{fix} (vllm#40872, vllm#37133)")
    for word in launch.words:
        two = TWO_WORDS.fullmatch(word)
        if two and not STARTS_SERVER.search(word):
            text = f"`{word[:80]}` is one word, so the server does not know it as the option {two[1]}"
            yield issue(
                "two-words-in-one", "error", "command", text, f"write two: {two[1]} and {two[2][:40]} (vllm#22072)"
            )


def launch_issues(launch: ContainerLaunch, file: str) -> Iterator[Issue]:
    """What is wrong with the launch itself: its entrypoint, its ports, its GPU."""

    def issue(code: str, level: Level, part: str, text: str, fix: str) -> Issue:
        return Issue(code=code, level=level, file=file, line=launch.line_of(part), text=text, fix=fix)

    yield from _word_issues(launch, issue)
    if launch.form == "shell":
        return  # no container: image, ports and GPU are the shell's
    if not launch.image and launch.form == "docker run":
        text = "the call ends without an image: a comment, or a line without a backslash, ends it before its last line"
        yield issue(
            "call-without-image", "error", "image", text, "put comments above the call, a backslash at each end"
        )
        return
    if launch.entrypoint and NGC.match(launch.image):
        written = "command:" if launch.form == "Kubernetes" else "the entrypoint"
        text = (
            f"{written} replaces the entrypoint of an image of NVIDIA, which switches on CUDA's forward compatibility"
        )
        fix = "write it as args:" if launch.form == "Kubernetes" else "leave the image's entrypoint as it is"
        evidence = "gyliu513/langX101#409: cudaErrorUnsupportedPtxVersion in a pod, not with docker run"
        yield issue("entrypoint-replaced", "warning", "entrypoint", text, f"{fix} ({evidence})")
    served = port_of(launch)
    published = {inside for _, inside in launch.ports}
    if published and served not in published and launch.options.get("network") != HOST_NETWORK:
        text = f"the server listens at {served}, and the container's port {min(published)} is published"
        yield issue("port-not-served", "warning", "ports", text, f"publish {served}, or write --port {min(published)}")
    if not launch.gpu:
        asked = {
            "docker run": "--gpus all",
            "compose": "gpus: all",
            "Kubernetes": "resources.limits: nvidia.com/gpu: 1",
        }
        text = "no GPU is asked for: the container sees one only where NVIDIA's runtime is the default, as on DGX OS"
        yield issue("no-gpu", "note", "image", text, f"write {asked[launch.form]}")
