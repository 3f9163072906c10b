"""`docker run` scripts, compose files, objects of Kubernetes become recipes: each line, or why it is left out. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from gb10.core.secret_names import Level, level_of
from gb10.models.importing.import_result import (
    ImportChoices,
    ImportResult,
    command_of,
    import_error,
    pullable,
)
from gb10.models.launches.container_launch import ContainerLaunch, Taken
from gb10.models.launches.launch_forms import Launches
from gb10.models.launches.launch_recipe import OF_LLAMA, VARIABLE, model_of, port_of, served_words, shell_before

RUNTIMES: Final = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "llama-cpp": "llama-cpp"}
SIZES: Final = {"--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--pipeline-parallel-size", "-pp", "--pp-size"}

GIVEN: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Secrets that `run` takes from the environment of the user."""


def import_launch(launches: Launches, file: str, wanted: ImportChoices) -> ImportResult:
    """The recipe of one container; raises UsageError with the reason where there is none, or several."""
    launch = choose(launches, file, wanted)
    words = _placed(tuple(_public(served_words(launch))), launch)
    options = _options(launch)
    env = {name: value for name, value in launch.environment.items() if not _is_secret(name)}
    host = "0.0.0.0"  # noqa: S104 - what servers in containers listen on
    defaults = {"port": _port(launch), **({"host": host} if "{host}" in words else {})}
    nodes = _nodes(served_words(launch))
    engine = launch.engine or ""
    ours = {"engine": engine, "sources": [f"{launches.what}, {launch.name}"]}
    return ImportResult(
        values={
            "recipe_version": "2",
            "model": model_of(launch),
            "description": f"{launch.name} of {launches.what}",
            "runtime": RUNTIMES[engine],
            "container": pullable(launch.image) or wanted.image,
            "min_nodes": nodes,
            "max_nodes": nodes,
            "defaults": defaults,
            **({"env": env} if env else {}),
            **({"executor_config": options} if options else {}),
            "command": command_of(" ".join(words[: _start(words)]), words[_start(words) :]),
            "gb10": ours,
        },
        said=tuple(_report_lines(launch)),
    )


def choose(launches: Launches, file: str, wanted: ImportChoices) -> ContainerLaunch:
    """The launch that starts a server; ``--variant NAME`` names one of several. Raises UsageError."""
    servers = [one for one in launches.servers if wanted.variant in (None, one.name)]
    names = ", ".join(one.name for one in launches.servers)
    if not launches.servers:
        raise import_error(
            file,
            "no launch in it starts a server by its own words (vllm serve, python3 -m sglang.launch_server)",
            "if a script of the image starts it: write the command that its log or `docker top` shows behind the image",
        )
    if len(servers) != 1:
        found = f"{len(servers)} of its launches start a server" if wanted.variant is None else "it has none so named"
        raise import_error(file, found, f"name one: --variant NAME; servers: {names}")
    if not model_of(servers[0]):
        raise import_error(file, f"the command of {servers[0].name} names no model", "write a recipe by hand")
    if servers[0].image.startswith("$") or (not servers[0].image and servers[0].form in ("docker run", "compose")):
        raise import_error(file, f"the image of {servers[0].name} is a variable", "write the image into the file")
    return servers[0]


def _placed(words: tuple[str, ...], launch: ContainerLaunch) -> list[str]:
    """The words with placeholders for the model, the port and the address."""
    model, port = model_of(launch), str(port_of(launch))
    found = ["{model}" if word == model else word for word in words]
    for index, word in enumerate(found[:-1]):
        if word == "--port" and found[index + 1] == port:
            found[index + 1] = "{port}"
        if word == "--host":
            found[index + 1] = "{host}"
    if _port(launch) != port_of(launch) and f"--port={port}" in found:
        found.remove(f"--port={port}")
    if "{port}" not in found and f"--port={port}" not in found:
        found += ["--port", "{port}"]
    return found


def _start(words: list[str]) -> int:
    """How many words stand before the first option."""
    llama = words[0].endswith("llama-server")
    found = (index for index, word in enumerate(words) if word.startswith("--") or (llama and word in OF_LLAMA))
    return next(found, len(words))


def _nodes(words: tuple[str, ...]) -> int:
    """Spark by Spark one GPU: the product of the sizes that the command names."""
    world = 1
    for index, word in enumerate(words[:-1]):
        if word in SIZES and words[index + 1].isdecimal():
            world *= int(words[index + 1])
    return min(max(world, 1), 64)


def _port(launch: ContainerLaunch) -> int:
    """The machine's port: a recipe's server uses the network of its host, so it listens there itself."""
    inner = port_of(launch)
    if launch.options.get("network") == "host":
        return inner
    return next((outer for outer, port in launch.ports if port == inner), inner)


def _options(launch: ContainerLaunch) -> dict[str, object]:
    """For ``executor_config``: without an entrypoint, which the command begins with, and volumes of no full path."""
    found = {key: value for key, value in launch.options.items() if key != "entrypoint"}
    volumes = found.get("volumes")
    if isinstance(volumes, list):
        found["volumes"] = [one for one in volumes if not _is_of_the_user(one)]
        if not found["volumes"]:
            del found["volumes"]
    return found


def _is_of_the_user(volume: object) -> bool:
    """Whether a volume's folder is known only where the file is used: ``$HOME/x``, ``~/x``, ``./x``."""
    return isinstance(volume, str) and volume.startswith(("$", "~", "./", "../", ".:"))


def _is_secret(name: str) -> bool:
    return level_of(name) >= Level.WEAK or name.endswith(("_TOKEN", "_KEY", "_SECRET", "PASSWORD"))


def _secret_words(words: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Index, option and value of each word that is a secret; an option may have several."""
    option = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            option = name if level_of(name) >= Level.STRONG and not equals else ""
        if equals and level_of(name) >= Level.STRONG:
            yield index, name, value
        elif option:
            yield index, option, "" if word == option else word


def _public(words: tuple[str, ...]) -> Iterator[str]:
    """The words without options that are secrets."""
    hidden = {index for index, _, _ in _secret_words(words)}
    yield from (word for index, word in enumerate(words) if index not in hidden)


def _report_lines(launch: ContainerLaunch) -> Iterator[str]:
    """What each line became, and what was not taken; no value of a secret."""
    words = served_words(launch)
    hidden = {value for _, _, value in _secret_words(words)}
    hidden |= {value for name, value in launch.environment.items() if _is_secret(name)}
    for row in _rows(launch, {name: None for _, name, _ in _secret_words(words)}):
        text = row
        for value in sorted((one for one in hidden if len(one) > 3), key=len, reverse=True):
            text = text.replace(value, "...")
        yield text


def _rows(launch: ContainerLaunch, options: Mapping[str, None]) -> Iterator[str]:
    secrets = {f"env.{name}" for name in launch.environment if _is_secret(name)}
    for one in launch.taken:
        if one.became and one.became not in secrets and not _is_of_the_user(one.written.partition(" ")[2]):
            yield f"line {one.line}: {_shown(one, launch)} -> {_became(one, launch)}"
    for name, value in launch.environment.items():
        line = launch.line_of(f"env.{name}")
        if _is_secret(name):
            yield (
                f"line {line}: {name} is left out: a recipe is a file that people share; "
                + (f"give {name} in your environment" if name in GIVEN else "`run` takes only HF_TOKEN from you")
            )
        elif not value:
            yield f"line {line}: {name} is empty in the file, and in the recipe"
    for name in options:
        line = launch.line_of("command")
        yield f"line {line}: {name} is left out of the command: a recipe is a file that people share"
    if before := shell_before(launch):
        line = launch.line_of("command")
        yield (
            f"line {line}: {before[:100]} is left out: a recipe's command is the server's own; put what must run "
            "before it into the image or a mod"
        )
    volumes = launch.options.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        if _is_of_the_user(volume):
            yield f"line {_line_of_volume(launch, volume)}: volume {volume[:100]} is left out: {_why(volume)}"
    yield from _of_command(launch)
    for one in launch.left:
        yield f"line {one.line}: {_shown(one, launch)} is left out: {one.why}"


def _of_command(launch: ContainerLaunch) -> Iterator[str]:
    """What the launch lacks: an image, words behind a missing backslash, values of variables."""
    if not launch.image and launch.form == "Kubernetes":
        yield f"line {launch.line}: no image is named, its controller has one: the recipe has ours, or that of --image"
    if launch.behind:
        yield f"line {launch.behind}: what follows is left out: the line above has no backslash, so the call ends there"
    for word in _public(served_words(launch)):
        if VARIABLE.search(word):
            line = launch.line_of("command")
            yield f"line {line}: {word[:100]} is known only where the file is used: write its value"


def _shown(one: Taken, launch: ContainerLaunch) -> str:
    """The start of what is written; a command is cut after its secrets are gone, so that no half of one stays."""
    if one.became == "command" and " " in one.written:
        return " ".join(_public(served_words(launch)))[:100]
    return one.written[:100]


def _became(one: Taken, launch: ContainerLaunch) -> str:
    if one.became == "port" and _port(launch) != port_of(launch):
        return f"port {_port(launch)}: the server uses the network of its host, so it listens there itself"
    if one.became == "executor_config.entrypoint":
        return "command"
    if one.became == "executor_config.memory_limit":
        return f"{one.became}, which `run` does not take: give it as `run --memory GIB`"
    return one.became


def _line_of_volume(launch: ContainerLaunch, volume: str) -> int:
    written = (one.line for one in launch.taken if one.written.endswith(volume[:150]) or one.written == "volumes")
    return launch.lines.get(f"volumes.{volume}") or next(written, launch.line)


def _why(volume: str) -> str:
    if "/.cache/huggingface" in volume:
        return "gb10 keeps models in its own volume gb10-cache, so it is not needed"
    return "its folder depends on who runs it; write an absolute path under executor_config.volumes"
