"""The containers of a machine that serve models, with what their images say of themselves, and their logs scanned."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.docker_containers import ServingContainer, file_in, log_blocks, run_inside, serving_containers
from gb10.containers.node import reached
from gb10.containers.reach import connect_if_running, denial
from gb10.core.checked import NotChecked
from gb10.core.host import Host
from gb10.core.ssh import HERE
from gb10.errors import EngineError, Gb10Error
from gb10.image.moe.tuned_name import nearest_files
from gb10.serving.checkup.collected import TAIL, CollectedContainers, merge_visits, scanner_for, unread
from gb10.serving.doctor.container_checks import ContainerState
from gb10.serving.doctor.image_record import PLACE, ImageRecord, read_installed, read_plan
from gb10.serving.doctor.log_scan import Scan, last_lines_of, whole_lines
from gb10.serving.run.service import read_labels

LARGEST_PLAN: Final = 4 << 20
UNTUNED: Final = ("no-tuned-file", "tuned-file-without-dtype")
ASKED, LISTED = 4, 5000
INSTALLED: Final = (
    "sh",
    "-c",
    "ls -d /usr/local/lib/python3*/*-packages/*.dist-info /usr/lib/python3*/*-packages/*.dist-info"
    " /opt/*/lib/python3*/site-packages/*.dist-info 2>/dev/null; true",
)


def collect_containers(host: Host, name: str) -> CollectedContainers:
    """The containers of a machine, each looked at. What cannot be read is a row "not checked"."""
    try:
        with _engine(host, name) as engine:
            found = [_one(engine, name, container) for container in serving_containers(engine)]
            return (
                merge_visits(found)
                if found
                else CollectedContainers(remarks=(f"no container on {name} serves a model",))
            )
    except Gb10Error as error:
        return CollectedContainers(unchecked=(unread(error, "containers", name),))


@contextmanager
def _engine(host: Host, name: str) -> Iterator[Engine]:
    if name != HERE:
        with reached(name) as engine:
            yield engine
        return
    found = connect_if_running(host.env, host.store)
    if found is None:
        raise denial(host.env, host.store) or EngineError("no container engine runs here")
    yield found


def _one(engine: Engine, host: str, container: ServingContainer) -> CollectedContainers:
    text, record = _record(engine, container)
    shown = ContainerState(
        name=container.name,
        host=host,
        image=container.image,
        record=record,
        command=container.command,
        environment=container.environment,
        labels=container.labels,
        devices=container.devices,
        gpus=container.gpus,
        privileged=container.privileged,
        runtime=container.runtime,
        memlock=container.memlock,
        runs=container.runs,
        hosts=max(1, len(read_labels(container.labels).hosts)),
    )
    label = shown.label
    try:
        scan, tail = _log(engine, container, record)
    except Gb10Error as error:
        return CollectedContainers(containers=(shown,), unchecked=(unread(error, "log", label),))
    unknown = NotChecked(what="rules about a release", reason="its image does not say what it has", where=label)
    return CollectedContainers(
        containers=(shown,),
        logs={label: scan},
        plans={label: text} if text else {},
        tails={label: tail},
        notes=_notes(engine, container, scan),
        unchecked=() if record else (unknown,),
    )


def _notes(engine: Engine, container: ServingContainer, scan: Scan) -> dict[str, str]:
    """What files are near those that the engine asked for in vain; nothing of a container that ended."""
    asked = dict.fromkeys(hit.value for hit in scan.hits if hit.rule.code in UNTUNED)
    found = {}
    for path in list(asked)[:ASKED] if container.runs else ():
        folder = str(PurePosixPath(path).parent)
        try:
            _, printed = run_inside(engine, container.id, ["ls", "--", folder])
        except EngineError:  # an image without ls
            return {}
        near = nearest_files(path, printed.splitlines()[:LISTED])
        found[path] = "; ".join(near) or f"no file in {folder} is near it"
    return found


def _record(engine: Engine, container: ServingContainer) -> tuple[str, ImageRecord | None]:
    """The text of plan.json and what it says; of an image of others, what is installed in it, while it runs."""
    content = file_in(engine, container.id, PLACE, LARGEST_PLAN)
    text = content.decode("utf-8", "replace") if content else ""
    record = read_plan(text)
    if record is not None or not container.runs:
        return text, record
    try:
        _, printed = run_inside(engine, container.id, INSTALLED)
    except EngineError:  # an image without a shell
        return text, None
    return text, read_installed(printed)


def _log(engine: Engine, container: ServingContainer, record: ImageRecord | None) -> tuple[Scan, bytes]:
    scanner, tail = scanner_for(record), b""
    for block in whole_lines(log_blocks(engine, container.id)):
        scanner.feed(block)
        tail = last_lines_of(tail + block, TAIL)
    return scanner.scan(), tail
