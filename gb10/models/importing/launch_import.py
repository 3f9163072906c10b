"""`docker run` scripts, compose files, objects of Kubernetes become recipes: each line, or why it is left out. Pure."""

from collections.abc import Iterator
from typing import Final

from gb10.models.importing.import_result import (
    ImportChoices,
    ImportResult,
    command_of,
    import_error,
    pullable,
)
from gb10.models.launches.container_launch import ContainerLaunch
from gb10.models.launches.launch_forms import Launches
from gb10.models.launches.launch_recipe import model_of, port_of, served_words

RUNTIMES: Final = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "llama-cpp": "llama-cpp"}
SIZES: Final = {"--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--pipeline-parallel-size", "-pp", "--pp-size"}


def import_launch(launches: Launches, file: str, wanted: ImportChoices) -> ImportResult:
    """The recipe of one container; raises UsageError with the reason where there is none, or several."""
    launch = choose(launches, file, wanted)
    words = _placed(served_words(launch), launch)
    env = {name: value for name, value in launch.environment.items() if not _is_secret(name)}
    host = "0.0.0.0"  # noqa: S104 - what servers in containers listen on
    defaults = {"port": port_of(launch), **({"host": host} if "{host}" in words else {})}
    nodes = _nodes(served_words(launch))
    engine = launch.engine or ""
    ours = {"engine": engine, "sources": [f"{launches.what}, {launch.name}"]}
    return ImportResult(
        values={
            "recipe_version": "2",
            "model": model_of(launch),
            "description": f"{launch.name} of {launches.what}",
            "runtime": RUNTIMES[engine],
            "container": pullable(launch.image),
            "min_nodes": nodes,
            "max_nodes": nodes,
            "defaults": defaults,
            **({"env": env} if env else {}),
            **({"executor_config": dict(launch.options)} if launch.options else {}),
            "command": command_of(" ".join(words[: _start(words)]), words[_start(words) :]),
            "gb10": ours,
        },
        said=tuple(_said(launch)),
    )


def choose(launches: Launches, file: str, wanted: ImportChoices) -> ContainerLaunch:
    """The container that starts a server; ``--variant NAME`` names one of several. Raises UsageError."""
    servers = [one for one in launches.servers if wanted.variant in (None, one.name)]
    names = ", ".join(one.name for one in launches.servers) or "none"
    if len(servers) != 1:
        found = f"{len(servers)} of its containers start a server" if wanted.variant is None else "it has none so named"
        raise import_error(file, found, f"name one: --variant NAME; servers: {names}")
    if not model_of(servers[0]):
        raise import_error(file, f"the command of {servers[0].name} names no model", "write a recipe by hand")
    if not servers[0].image or servers[0].image.startswith("$"):
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
    if "{port}" not in found and f"--port={port}" not in found:
        found += ["--port", "{port}"]
    return found


def _start(words: list[str]) -> int:
    """How many words stand before the first option."""
    return next((index for index, word in enumerate(words) if word.startswith("--")), len(words))


def _nodes(words: tuple[str, ...]) -> int:
    """Spark by Spark one GPU: the product of the sizes that the command names."""
    world = 1
    for index, word in enumerate(words[:-1]):
        if word in SIZES and words[index + 1].isdecimal():
            world *= int(words[index + 1])
    return min(max(world, 1), 64)


def _is_secret(name: str) -> bool:
    return name.endswith(("_TOKEN", "_KEY", "_SECRET", "PASSWORD"))


def _said(launch: ContainerLaunch) -> Iterator[str]:
    """What each line became, and what was not taken."""
    for one in launch.taken:
        if one.became:
            yield f"line {one.line}: {one.written[:100]} -> {one.became}"
    for name in launch.environment:
        if _is_secret(name):
            yield f"line {launch.line_of(f'env.{name}')}: {name} is left out: a recipe is a file that people share"
    for one in launch.left:
        yield f"line {one.line}: {one.written[:100]} is left out: {one.why}"
