"""What a recipe may do beside its engine's own command: hooks, mods, host paths, rights, code from elsewhere. Pure.

A recipe of somebody else is shown with these before anything of it runs.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe, Step
from gb10.models.load.own_section import own_section
from gb10.models.needs.containers import known_engine

HOOKS: Final[Mapping[str, str]] = {
    "pre_exec": "runs as root in each container",
    "post_exec": "runs in the head's container",
    "post_commands": "runs on the machine that launches",
}
RIGHTS: Final = ("privileged", "devices", "cap_add", "security_opt", "network", "ipc", "user", "entrypoint")
"""Keys of executor_config that change what a container may do."""
FETCHED: Final = re.compile(r"--(?:vllm-repo|apply-[a-z]+-prs?|apply-preset-[a-z-]+)\b")
"""Build arguments that bring code of somebody's into the image."""
ENGINES: Final = re.compile(
    r"(?:vllm serve|sglang serve|python3? -m (?:sglang\.launch_server|vllm\.entrypoints\.openai\.api_server)"
    r"|llama-server|trtllm-serve|spark serve|max serve|tokenary)\b"
)
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
SUBSTITUTED: Final = re.compile(r"`|\$\(")
SIGNS: Final = ";&|()<>"
SHOWN: Final = 100
"""Characters of a value that is quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """One thing. ``used``: `run` or `image` of gb10 do it; what they do not do is other launchers' alone."""

    text: str
    line: int
    used: bool = False


def powers_of(recipe: ModelRecipe, mods: Sequence[str]) -> tuple[Power, ...]:
    """All of them in the order of the file; ``mods`` are those of the recipe that are none of ours, as written."""
    found = (
        *_hooks(recipe),
        *mod_powers(recipe, mods),
        *_paths(recipe),
        *_rights(recipe),
        *_image(recipe),
        *_shell(recipe),
    )
    return tuple(sorted(found, key=lambda power: (power.line, power.text)))


def _hooks(recipe: ModelRecipe) -> Iterator[Power]:
    for key, what in HOOKS.items():
        value = recipe.values.get(key)
        for index, one in enumerate(value if isinstance(value, list) else [value] if value else ()):
            yield _power(recipe, f"{key} {what}: {_short(one)}", key, index)


def mod_powers(recipe: ModelRecipe, mods: Sequence[str]) -> Iterator[Power]:
    """What these of its mods may do."""
    for index, written in enumerate(recipe.mods):
        if written in mods:
            text = f"the mod {_short(written)} runs as root in each container, or in the image's build"
            yield _power(recipe, text, "mods", index, used=True)


def _paths(recipe: ModelRecipe) -> Iterator[Power]:
    for at in (("executor_config", "volumes"), ("volumes",)):
        value: object = recipe.values
        for step in at:
            value = value.get(step) if isinstance(value, Mapping) else None
        entries = [f"{name}:{one}" for name, one in value.items()] if isinstance(value, Mapping) else value
        for one in entries if isinstance(entries, list) else [entries] if entries else ():
            yield _power(recipe, f"mounts a path of the host: {_short(one)}", *at)


def _rights(recipe: ModelRecipe) -> Iterator[Power]:
    for key, value in recipe.section("executor_config").items():
        if key in RIGHTS and value not in (None, False, "", [], {}):
            yield _power(recipe, f"its containers run with {key}: {_short(value)}", "executor_config", key)


def _image(recipe: ModelRecipe) -> Iterator[Power]:
    container = recipe.container
    if container and known_engine(container) is None:
        yield _power(recipe, f"its containers are of somebody's image: {_short(container)}", "container", used=True)
    arguments = recipe.entries("build_args")
    for index, argument in enumerate(arguments):
        if FETCHED.search(argument):
            text = f"the image gets code from elsewhere: {_short(' '.join(arguments[index : index + 2]))}"
            yield _power(recipe, text, "build_args", index, used=True)
    for patch in own_section(recipe).patches:
        yield _power(recipe, f"the image gets a patch: {_short(patch)}", "gb10", "patches", used=True)


def _shell(recipe: ModelRecipe) -> Iterator[Power]:
    more = beyond_engine(recipe.command or "")
    if more:
        yield _power(recipe, f"the command runs more than the engine: {_short(more)}", "command", used=True)
    for name, value in recipe.env.items() if recipe.format == "v1" else ():
        if SUBSTITUTED.search(str(value)):
            yield _power(recipe, f"the variable {_short(name)} runs a command: {_short(value)}", "env", name, used=True)


def beyond_engine(command: str) -> str:
    """The part of a command that is not an engine's server and its options; empty when there is none."""
    lines = re.sub(r"\\[ \t]*\n", " ", command).splitlines()
    kept = [line.strip() for line in lines if line.strip(" \t\\") and not line.strip().startswith("#")]
    if not kept:
        return ""
    if len(kept) > 1:
        return next((line for line in kept if not ENGINES.match(line)), kept[1])
    lexer = shlex.shlex(kept[0], posix=True, punctuation_chars=SIGNS)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return kept[0]
    sign = next((index for index, word in enumerate(words) if word and set(word) <= set(SIGNS)), None)
    if sign is not None:
        return " ".join(words[sign : sign + 6])
    while words and ASSIGNMENT.match(words[0]):
        del words[0]
    started = ENGINES.match(" ".join(words))
    substituted = SUBSTITUTED.search(kept[0])
    return kept[0][substituted.start() :] if substituted else "" if started else " ".join(words)


def _power(recipe: ModelRecipe, text: str, *at: Step, used: bool = False) -> Power:
    return Power(text=text, line=recipe.line(*at), used=used)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
