"""What a recipe may do beside starting an engine, and what it asks for that `run` does not do. Pure."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gb10.containers.container_options import HostMount
from gb10.models.load.host_access import host_request
from gb10.models.load.model_recipe import ModelRecipe, Step, own_section
from gb10.models.needs.image_need import known_engine, read_arguments
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.models.render.untrusted_command import judge_rendered

HOOKS: Final[Mapping[str, str]] = {
    "pre_exec": "runs as root in each container",
    "post_exec": "runs in the head's container",
    "post_commands": "runs on the machine that launches",
}
RIGHTS: Final = frozenset(
    ("volumes", "devices", "cap_add", "security_opt", "privileged", "user", "ipc", "extra_hosts", "labels")
)
"""Keys of the host's side that change what a container may do, or what others do with it."""
ALWAYS: Final = frozenset({("ipc", "host")})
"""What every container of `run` has."""
OTHERWISE: Final[Mapping[str, str]] = {
    "entrypoint": "the first process is gb10's, which starts the engine's command",
    "network": "a service has the network of its node",
}
"""Keys of executor_config that `run` cannot do."""
FETCHED: Final = re.compile(r"--(?:vllm-repo|apply-[a-z]+-prs?|apply-preset-[a-z-]+)\b")
"""Build arguments that bring code of somebody's into the image."""
PLACEHOLDER: Final = re.compile(r"\{[A-Za-z_]\w*\}")
SERVERLESS: Final = "vllm serve x"
"""A command in place of none."""
MOST_NODES: Final = 16
SHOWN: Final = 100
"""Characters of a value that is quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """One thing. ``used``: `run` or `image` of gb10 do it; what they do not do is other launchers' alone."""

    text: str
    line: int
    used: bool = False


def powers_of(
    recipe: ModelRecipe, mods: Sequence[str], rendered: RenderedRecipe | None = None, *, chosen_image: bool = False
) -> tuple[Power, ...]:
    """All of them in the order of the file; ``mods`` are those of the recipe that are none of ours, as written.

    ``rendered`` is what runs; without it the recipe is judged on as many nodes as it needs. ``chosen_image``: the image
    is the user's choice.
    """
    found = (
        *_hooks(recipe),
        *mod_powers(recipe, mods),
        *_host(recipe),
        *_image(recipe, chosen=chosen_image),
        *_started(recipe, rendered or _on_its_nodes(recipe)),
    )
    return tuple(sorted(dict.fromkeys(found), key=lambda power: (power.line, power.text)))


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


def _host(recipe: ModelRecipe) -> Iterator[Power]:
    """What its containers get of their host, and what `run` does not give them."""
    for one in host_request(recipe).asked:
        if one.key in RIGHTS and (one.key, one.value) not in ALWAYS:
            yield Power(text=f"its containers get of the host: {one.text}", line=one.line, used=True)
    yield from _launched_otherwise(recipe)


def _launched_otherwise(recipe: ModelRecipe) -> Iterator[Power]:
    """Another entry point or network: `run` starts the server itself, on the node's network."""
    for key, what in OTHERWISE.items():
        value = recipe.section("executor_config").get(key)
        if value not in NOTHING and str(value).lower() not in DONE.get(key, ()):
            yield _power(recipe, f"its containers run with {key}: {_short(value)}; {what}", "executor_config", key)


def _image(recipe: ModelRecipe, *, chosen: bool) -> Iterator[Power]:
    container = recipe.container
    if container and not chosen and known_engine(container) is None:
        yield _power(recipe, f"its containers are of somebody's image: {_short(container)}", "container", used=True)
    yield from _code_from_elsewhere(recipe)
    for patch in own_section(recipe).patches:
        yield _power(recipe, f"the image gets a patch: {_short(patch)}", "gb10", "patches", used=True)


def _code_from_elsewhere(recipe: ModelRecipe) -> Iterator[Power]:
    """Repositories, commits and pull requests of an image: as they are written, and as the image's build reads them."""
    places, arguments = tuple(recipe.build_args), tuple(recipe.build_args.values())
    written = [index for index, argument in enumerate(arguments) if FETCHED.search(argument)]
    for index in written:
        text = f"the image gets code from elsewhere: {_short(' '.join(arguments[index : index + 2]))}"
        yield _power(recipe, text, *places[index], used=True)
    try:
        read = read_arguments(arguments)
    except ValueError:  # no image is built of them, and the reason is said
        return
    pulls = (f"pull request {number} of {source}" for source, number in read.pulls)
    for what in () if written else (*read.sources, *pulls):
        yield _power(recipe, f"the image gets code from elsewhere: {_short(what)}", *places[0][:-1], used=True)


def _on_its_nodes(recipe: ModelRecipe) -> RenderedRecipe:
    """The recipe rendered alone, else on the first number of nodes for which it can be."""
    least = recipe.values.get("min_nodes")
    counts = [1, *([least] if isinstance(least, int) and 1 < least <= MOST_NODES else ()), *range(2, MOST_NODES + 1)]
    alone = render_recipe(recipe, RenderRequest())
    for count in counts:
        nodes = tuple(f"node-{number}" for number in range(1, count + 1)) if count > 1 else ()
        found = render_recipe(recipe, RenderRequest(nodes=nodes)) if nodes else alone
        if found.ranks:
            return found
    return alone


def _started(recipe: ModelRecipe, rendered: RenderedRecipe) -> Iterator[Power]:
    """What the servers of all nodes do beside serving."""
    if rendered.serve is None:  # it has a mistake, and nothing runs; what it means can be seen all the same
        template = PLACEHOLDER.sub("x", (recipe.command or "").replace("{{", "{").replace("}}", "}"))
        environment = {name: str(value) for name, value in recipe.env.items()}
        rendered = replace(rendered, serve=template or SERVERLESS, environment=environment)
    for doubt in judge_rendered(recipe, rendered).doubts:
        yield _power(recipe, doubt.text, *doubt.at, used=True)


def _power(recipe: ModelRecipe, text: str, *at: Step, used: bool = False) -> Power:
    return Power(text=text, line=recipe.line(*at), used=used)


def _short(value: object) -> str:
    text = "".join(char if char.isprintable() else " " for char in str(value))
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


EXECUTOR: Final[Mapping[str, str]] = {
    "shm_size": "its containers have the node's own shared memory, of the size that it has there (--ipc host)",
    "memory_limit": "the limit is what the model is known to take, or --memory GIB",
    "restart_policy": "--restart starts a container again",
    "auto_remove": "a container that ended stays, with its log, until stop or the next run",
    "gpus": "its containers see all GPUs of their node",
    "gpu_access_mode": "its containers see all GPUs of their node",
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
SNAPSHOT: Final = re.compile(r"^(/.*/models--[^/]+)/snapshots/[^/]+(?:/.*)?$")
"""A model in the Hub's cache on a machine, and the folder of its repository."""
SHARD: Final = re.compile(r"/[^/]+-\d{5}-of-\d{5}\.gguf$")
"""The name of a part of a GGUF model: llama.cpp gets the first, and reads the others beside it."""
SERVERS: Final = ("serve", "trtllm-serve")
OURS: Final = ("/var/cache/gb10", "/gb10")
"""Where `run` itself puts files."""


def unsupported_by_run(recipe: ModelRecipe, command: str | None = None) -> tuple[Power, ...]:
    """What a recipe asks for and `run` cannot do, in the order of the file: it must not start without it in silence.

    ``command`` is the engine's as it runs, with its values.
    """
    found = (*_hooks(recipe), *_launched_otherwise(recipe), *_relative(recipe, command or recipe.command or ""))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.line, one.text)))


def replaced_by_run(recipe: ModelRecipe) -> tuple[Power, ...]:
    """Settings in whose place `run` has something of its own, in the order of the file."""
    return tuple(sorted(dict.fromkeys(_settings(recipe)), key=lambda one: (one.line, one.text)))


def undone_by_run(recipe: ModelRecipe, command: str | None = None) -> tuple[Power, ...]:
    """Both together."""
    found = (*unsupported_by_run(recipe, command), *replaced_by_run(recipe))
    return tuple(sorted(found, key=lambda one: (one.line, one.text)))


def model_files(command: str, model: str | None) -> tuple[HostMount, ...]:
    """The files of a model that a command names by absolute paths, read-only at the same paths.

    They are optional: where a node lacks one, the image may hold it. Of a snapshot in the Hub's cache it is the whole
    repository: a snapshot holds links to files beside it. Of a GGUF model that was split it is the folder.
    """
    found = list[HostMount]()
    named = (one.rstrip("/") for one in (*_path_in(model or ""), *_of_command(command)))
    for path in dict.fromkeys(SHARD.sub("", SNAPSHOT.sub(r"\1", one)) for one in named):
        inside = any(f"{path}/".startswith(f"{one.source}/") for one in found)
        if path.startswith("/") and ".." not in path.split("/") and not path.startswith(OURS) and not inside:
            found.append(HostMount(source=path, target=path, read_only=True, optional=True))
    return tuple(found)


def _settings(recipe: ModelRecipe) -> Iterator[Power]:
    own = host_request(recipe).access.own_shared_memory
    for key, value in recipe.section("executor_config").items():
        if key in EXECUTOR and not (key == "shm_size" and own):
            yield from _setting(recipe, value, EXECUTOR[key], "executor_config", key)
    for key, what in TOP.items():
        yield from _setting(recipe, recipe.values.get(key), what, key)


def _setting(recipe: ModelRecipe, value: object, what: str, *at: str) -> Iterator[Power]:
    if value not in NOTHING and str(value).lower() not in DONE.get(at[-1], ()):
        yield _power(recipe, f"{at[-1]} {_short(value)}; {what}", *at)


def _relative(recipe: ModelRecipe, command: str) -> Iterator[Power]:
    """Files of a model by a path that means another folder on each node."""
    for path in dict.fromkeys((*_path_in(recipe.model or ""), *_of_command(command))):
        if not path.startswith("/"):
            text = f"mount {_short(path)}; write the absolute path that it has on each node"
            yield _power(recipe, text, "model" if path == recipe.model else "command")


def _of_command(command: str) -> Iterator[str]:
    try:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
    except ValueError:
        words = command.split()
    for before, word in zip(("", *words), words, strict=False):
        name, _, value = word.partition("=")
        if before in SERVERS or before in FILES:
            yield from _path_in(word)
        elif name in FILES:
            yield from _path_in(value)
        elif word.startswith("{"):
            yield from _path_in(_model_of(word))


def _model_of(text: str) -> str:
    """The model that an option's JSON names, as of drafts."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("model") or "") if isinstance(found, dict) else ""


def _path_in(text: str) -> Iterator[str]:
    """The path of a word: ``/models/x``, ``NAME=/models/x``, and nothing for a name of the Hub."""
    path = text.rpartition("=")[2]
    if FOLDER.fullmatch(path):
        yield path
