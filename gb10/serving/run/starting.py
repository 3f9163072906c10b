"""Starting a service: a container on every node, mods, the same driver everywhere, then the servers at once."""

import io
import os
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from gb10.containers.connection import Engine, EngineHost
from gb10.containers.docker_containers import (
    container_state,
    create_container,
    end_container,
    name_is_taken,
    put_archive,
    put_files,
    run_inside,
    start_container,
)
from gb10.containers.images import ImageInfo, find_image
from gb10.containers.reference import NAMESPACE, registry_of
from gb10.core.folder_files import Files
from gb10.core.machine import ARCHITECTURES
from gb10.core.proc import last_lines
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import EngineError, Gb10Error, ServeError, UsageError
from gb10.image.context import Context
from gb10.image.mods.read import FoundMod
from gb10.image.plan.options import short_label
from gb10.image.publish.pulling import LOCAL, pull_everywhere
from gb10.serving.doctor.log_judging import remedy_of
from gb10.serving.run.fleet import Fleet, on_all_nodes, on_all_nodes_collect_errors
from gb10.serving.run.service import FOLDER, Service, container_options, launch_files, read_labels, secret_files

PLACE = "/workspace/mods"
RUN = 'chmod +x run.sh && WORKSPACE_DIR="$1" ./run.sh'
MODES = {"file": 0o644, "executable": 0o755, "folder": 0o755, "link": 0o777}
TYPES = {"link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}
BAKE = "bake it instead, and see its whole log: ./build.py image --mod {name}"


def _apply(engine: Engine, container: str, host: str, workdir: str, mod: FoundMod) -> None:
    """Run a mod in a container that runs. Raises ServeError with the end of what a failing one printed."""
    put_files(engine, container, {f"{PLACE}/{mod.name}/.keep": (b"", 0o644)})
    put_archive(engine, container, f"{PLACE}/{mod.name}", _packed(mod.files))
    argv = ["sh", "-c", RUN, "sh", workdir]
    code, output = run_inside(engine, container, argv, user="0", workdir=f"{PLACE}/{mod.name}")
    if code:
        raise ServeError(
            f"the mod {mod.name} failed on {host}: its run.sh exited with {code}",
            where=last_lines(output, 10),
            hint=BAKE.format(name=mod.path if os.sep in str(mod.path) else mod.name),
        )


def _packed(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, file in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.type = MODES[file.kind], TYPES.get(file.kind, tarfile.REGTYPE)
            member.linkname = os.fsdecode(file.content) if file.kind == "link" else ""
            member.size = len(file.content) if file.kind in ("file", "executable") else 0
            tar.addfile(member, io.BytesIO(file.content) if member.size else None)
    return out.getvalue()


USER: Final = ("bash", "-c", "echo $EUID")
"""Prints the number of the server's user; the first process needs bash, too."""
DRIVER: Final = ("cat", "/proc/driver/nvidia/version")
RELEASE: Final = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
PATIENCE: Final = 10
HINTS: Final = (
    (
        "bind source path does not exist",
        "the pulled weights are gone there: ./build.py recipe pull RECIPE (--host NODE for another machine)",
    ),
    ("no space left on device", "make room there: docker system df shows what takes it"),
)
Started = dict[str, str]
"""The id of the container of each node."""


@contextmanager
def started(
    service: Service,
    fleet: Fleet,
    images: Mapping[str, ImageInfo],
    mods: Sequence[FoundMod],
    secrets: Mapping[str, str],
    *,
    reporter: Reporter,
) -> Iterator[Started]:
    """The containers of a service, whose servers run. If the context fails, all of them are ended.

    ``secrets`` are variables that only the server sees: they come into the container with its start, after the mods.
    Raises ServeError, EngineError.
    """
    made: Started = {}

    def apply(engine: Engine, host: str, image: ImageInfo) -> None:
        baked = {value for name, value in image.labels.items() if name.startswith(f"{NAMESPACE}.mod.")}
        for mod in mods:
            if short_label(mod.name, mod.digest) not in baked:
                with reporter.task(f"{host}: the mod {mod.name}"):
                    _apply(engine, made[host], host, image.workdir, mod)

    try:
        _create(service, fleet, launch_files(), made)
        on_all_nodes(lambda host, engine: _start(engine, host, made[host]), fleet)
        _check_drivers(service, fleet, made)
        on_all_nodes(lambda host, engine: apply(engine, host, images[host]), fleet)
        on_all_nodes(lambda host, engine: _release(engine, host, made[host], secrets), fleet)
        yield made
    except BaseException:
        begun = {host: engine for host, engine in fleet.items() if host in made}
        on_all_nodes_collect_errors(lambda host, engine: end_container(engine, made[host], patience=PATIENCE), begun)
        raise


def _create(service: Service, fleet: Fleet, files: Mapping[str, tuple[bytes, int]], made: Started) -> None:
    ranks = {rank.node.host: rank for rank in service.ranks}

    def create(host: str, engine: Engine) -> None:
        options = container_options(service, ranks[host])
        try:
            made[host] = create_container(engine, options, files)
        except EngineError as error:
            if name_is_taken(error):
                raise _taken(engine, host, options.name) from error
            raise _refused(error, f"the container cannot be made on {host}") from error

    on_all_nodes(create, fleet)


def _taken(engine: Engine, host: str, name: str) -> ServeError:
    """Why a container's name is taken: by another run, which came first, or by somebody else."""
    holder = container_state(engine, name)
    if holder is None:
        return ServeError(f"{host} had a container {name} a moment ago, and has none now", hint="run the command again")
    labels = read_labels(holder.labels)
    if not labels.service:
        hint = f"remove it there, when it is not needed: docker rm --force {name}"
        return ServeError(f"{host} has a container {name} that gb10 did not make", hint=hint)
    return ServeError(
        f"another run of {labels.service} was first: it made the container {name} on {host}",
        where=f"made at {holder.created[:19] or 'a time that is not known'}, now {holder.status}",
        hint=f"./build.py status {labels.service} shows it; to start it anew: --replace",
    )


def _release(engine: Engine, host: str, container: str, secrets: Mapping[str, str]) -> None:
    """Let the server of a container start, with its secrets: the mods have run, and did not see them."""
    if secrets:
        code, printed = run_inside(engine, container, USER)
        number = "".join(printed.split()[-1:])  # a shell may print warnings before it
        if code or not number.isdecimal():
            raise ServeError(
                f"the user of the server is not known on {host}, so it got no token",
                where=last_lines(printed, 3) or f"{shlex.join(USER)} exited with {code}",
                hint=f"run it without: unset {' '.join(secrets)}",
            )
        put_files(engine, container, secret_files(secrets), owner=int(number))
    put_files(engine, container, {f"{FOLDER}/go": (b"", 0o444)})


def _start(engine: Engine, host: str, container: str) -> None:
    try:
        start_container(engine, container)
    except EngineError as error:
        raise _refused(error, f"the container does not start on {host}") from error


def _refused(error: EngineError, message: str) -> ServeError:
    """The error of a container engine, with what to do about it."""
    reason = error.where or error.message
    ours = next((hint for sign, hint in HINTS if sign in reason.lower()), None)
    hint = ours or remedy_of([reason]) or error.hint
    return ServeError(message, where=reason, hint=hint)


def _check_drivers(service: Service, fleet: Fleet, made: Started) -> None:
    """Raise ServeError when the nodes have different NVIDIA drivers: NCCL and compiled kernels must fit both."""
    if len(fleet) == 1 or not service.settings.gpus:
        return
    printed = on_all_nodes(lambda host, engine: run_inside(engine, made[host], DRIVER)[1], fleet)
    releases = {host: found[1] if (found := RELEASE.search(text)) else "none" for host, text in printed.items()}
    if len(set(releases.values())) > 1:
        where = "\n".join(f"{host}: {release}" for host, release in releases.items())
        raise ServeError("the nodes have different NVIDIA drivers", where=where, hint="install the same one everywhere")


def end_all(fleet: Fleet, containers: Mapping[str, Sequence[str]], *, patience: int = PATIENCE) -> dict[str, Gb10Error]:
    """End and remove containers on every node at the same time; the error of each node where that failed."""

    def end(host: str, engine: Engine) -> None:
        for container in containers[host]:
            end_container(engine, container, patience=patience)

    done = on_all_nodes_collect_errors(end, {host: engine for host, engine in fleet.items() if containers.get(host)})
    return {host: error for host, error in done.items() if error is not None}


BUILD = (
    "it names no registry: build it here (./build.py image --recipe NAME), or name a published one:\n"
    "--image REGISTRY/NAME:TAG; if it is one of Docker Hub: --image docker.io/{reference}"
)
SAME = "pull it to every node: ./build.py pull REF --host NODE --host NODE"


def ready_images(
    ctx: Context, fleet: Fleet, reference: str, machines: Mapping[str, EngineHost]
) -> dict[str, ImageInfo]:
    """The image on each node. Raises UsageError where it cannot be had or cannot run, PublishError of the pull."""
    found = on_all_nodes(lambda _, engine: find_image(engine, reference), fleet)
    missing = [host for host, image in found.items() if image is None]
    if missing:
        _pull(ctx, reference, missing)
        found = on_all_nodes(lambda _, engine: find_image(engine, reference), fleet)
    images = {host: image for host, image in found.items() if image is not None}
    _check_same(images)
    for host, image in images.items():
        machine = machines[host].machine
        runs = f"linux/{ARCHITECTURES.get(machine, machine)}"
        if not image.platform.startswith(runs):
            hint = "run it on a Spark: --nodes NAME"
            raise UsageError(f"{reference} is for {image.platform}, and {host} runs {runs}", hint=hint)
    return images


def _pull(ctx: Context, reference: str, hosts: list[str]) -> None:
    if registry_of(reference) is None:
        where = f"{', '.join(hosts)}: no image {reference}"
        raise UsageError(f"the image is not on {_count(hosts)}", where=where, hint=BUILD.format(reference=reference))
    ctx.reporter.say(f"{reference}: missing on {', '.join(hosts)}; pulling it")
    pull_everywhere(ctx, reference, [LOCAL if host == HERE else host for host in hosts], None)


def _count(hosts: list[str]) -> str:
    return "this machine" if hosts == [HERE] else f"{len(hosts)} node{'s' * (len(hosts) > 1)}"


def _check_same(images: Mapping[str, ImageInfo]) -> None:
    """Ids differ between kinds of image stores; the layers of one image do not."""
    layers = {host: image.diff_ids for host, image in images.items()}
    if len(set(layers.values())) > 1:
        where = "\n".join(f"{host}: {image.id[:19]}, {len(image.diff_ids)} layers" for host, image in images.items())
        raise EngineError("the nodes have different images under this name", where=where, hint=SAME)
