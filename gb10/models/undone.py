"""What a recipe asks of a launcher and `run` does not do: each is said, so that nothing is dropped in silence. Pure."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe, Step
from gb10.models.powers import RIGHTS, SHOWN, Power, powers_of

EXECUTOR: Final[Mapping[str, str]] = {
    "shm_size": "its containers have the node's own shared memory, of the size that it has there (--ipc host)",
    "ulimit": "its containers have Docker's limits; with RDMA they may lock all memory",
    "memory_limit": "the limit is what the model is known to take, or --memory GIB",
    "restart_policy": "--restart starts a container again",
    "auto_remove": "a container that ended stays, with its log, until stop or the next run",
    "gpus": "its containers see all GPUs of their node",
    "gpu_access_mode": "its containers see all GPUs of their node",
    "labels": "the labels are those that status and stop read",
}
"""Keys of executor_config that change no right, and what `run` does in their place."""
TOP: Final[Mapping[str, str]] = {
    "executor": "it starts containers by Docker",
    "runtime_config": "it does not read this",
    "distribution_config": "images and weights come by pull and recipe pull",
    "cluster_config": "nodes are those of --nodes",
    "stop_after_post": "a service runs until stop",
}
DONE: Final[Mapping[str, frozenset[str]]] = {
    "ipc": frozenset({"host"}),
    "network": frozenset({"host"}),
    "gpus": frozenset({"all"}),
    "restart_policy": frozenset({"no", "none"}),
    "executor": frozenset({"docker", "auto"}),
}
"""Values that ask for what `run` does anyway."""
NOTHING: Final[tuple[object, ...]] = (None, False, "", [], {})
FOLDER: Final = re.compile(r"(?:/|~|\.\.?/)\S*")
FILES: Final = frozenset(
    {
        *("--model", "--model-path", "-m", "--tokenizer", "--tokenizer-path", "--hf-config-path", "--chat-template"),
        *("--lora-modules", "--lora-paths", "--speculative-draft-model-path", "--speculative-model", "--mmproj"),
        *("--model-draft", "-md", "--lora", "--download-dir", "--generation-config", "--reasoning-parser-plugin"),
        "--tool-parser-plugin",
    }
)
"""Options that name files of a model."""
SERVERS: Final = ("serve", "trtllm-serve")
OURS: Final = ("/var/cache/gb10", "/gb10")
"""Where `run` itself puts files."""


def undone_by_run(recipe: ModelRecipe, command: str | None = None) -> tuple[Power, ...]:
    """All of it in the order of the file; ``command`` is the engine's as it runs, with its values."""
    rights = (one for one in powers_of(recipe, ()) if not one.used and not _same(recipe, one))
    found = (*rights, *_settings(recipe), *_folders(recipe, command or recipe.command or ""))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.line, one.text)))


def lines_of_undone(recipe: ModelRecipe, undone: tuple[Power, ...]) -> list[str]:
    """``FILE:LINE: run does not do this: TEXT``, one for each."""
    return [f"{recipe.file}:{one.line}: run does not do this: {one.text}" for one in undone]


def _same(recipe: ModelRecipe, power: Power) -> bool:
    """Whether a right is one that every container of `run` has."""
    asked = recipe.section("executor_config")
    kept = [key for key in RIGHTS if key in DONE and str(asked.get(key)).lower() in DONE[key]]
    return any(power.text.startswith(f"its containers run with {key}: ") for key in kept)


def _settings(recipe: ModelRecipe) -> Iterator[Power]:
    for key, value in recipe.section("executor_config").items():
        if key in EXECUTOR:
            yield from _setting(recipe, value, EXECUTOR[key], "executor_config", key)
    for key, what in TOP.items():
        yield from _setting(recipe, recipe.values.get(key), what, key)


def _setting(recipe: ModelRecipe, value: object, what: str, *at: str) -> Iterator[Power]:
    if value not in NOTHING and str(value).lower() not in DONE.get(at[-1], ()):
        yield _undone(recipe, f"{at[-1]} {_short(value)}; {what}", *at)


def _folders(recipe: ModelRecipe, command: str) -> Iterator[Power]:
    """Files of a model that are named by a path: none of the host's is mounted."""
    for path in dict.fromkeys((*_named(recipe.model or ""), *_of_command(command))):
        if not path.startswith(OURS):
            text = f"mount {_short(path)}; nothing of the host is mounted there, so the image must hold it"
            yield _undone(recipe, text, "model" if path == recipe.model else "command")


def _of_command(command: str) -> Iterator[str]:
    try:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
    except ValueError:
        words = command.split()
    for before, word in zip(("", *words), words, strict=False):
        name, _, value = word.partition("=")
        if before in SERVERS or before in FILES:
            yield from _named(word)
        elif name in FILES:
            yield from _named(value)
        elif word.startswith("{"):
            yield from _named(_model_of(word))


def _model_of(text: str) -> str:
    """The model that an option's JSON names, as of drafts."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("model") or "") if isinstance(found, dict) else ""


def _named(text: str) -> Iterator[str]:
    """The path of a word: ``/models/x``, ``NAME=/models/x``, and nothing for a name of the Hub."""
    path = text.rpartition("=")[2]
    if FOLDER.fullmatch(path):
        yield path


def _undone(recipe: ModelRecipe, text: str, *at: Step) -> Power:
    return Power(text=text, line=recipe.line(*at))


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
