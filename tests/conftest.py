"""What holds for every test: unit and golden tests touch no network."""

import gc
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

Deep = Callable[[int, str, bytes], Path]
GROUPS: Final = {
    "image": "bench broken_images build_usage launchers mods patched_build pipeline publish rebuild retaining upstream",
    "on images of others": "adopt_trust on_image",
    "compilers": "extension targets",
}
"""Integration tests whose files share a worker. The first small image in a worker's engine takes a minute of CPU time,
the next ones find its layers; so does the first change of an image of others. Compilers need several GB each: two at
once are more than a small machine has."""
GROUP_OF: Final = {
    f"tests/integration/test_{name}.py": group for group, names in GROUPS.items() for name in names.split()
}
PATCHES: Final = "tests/integration/patches/"
"""A folder whose files share a worker, too: they read the same releases."""
MAY_CONNECT = ("integration", "e2e", "gpu", "gauged")
GARBAGE: Final = 50_000
"""New objects before the collector looks at them. Python's own 700 costs a twentieth of the unit tests' time."""
MEMORY: Final = Path("/dev/shm")  # noqa: S108 # what makes files there gives them names of its own
FREE: Final = 1 << 30
"""Bytes that MEMORY needs free; unit and golden tests fill a fiftieth of that."""
SHORT: Final = 0.005
"""Seconds. Less than that is in no list of durations."""
gc.disable()  # until all tests are collected: nothing of what they import is garbage


def group_of(nodeid: str) -> str:
    """The group of a test's file; a file of none is one by itself."""
    file = nodeid.partition("::")[0]
    return PATCHES if file.startswith(PATCHES) else GROUP_OF.get(file, file)


class ByFile(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """A file's tests stay in one worker, and so do all files of one of GROUPS.

    xdist's own groups do nothing with pytest 9.2: they rename tests by an attribute that pytest no longer reads.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--in-memory", action="store_true", help=f"temporary files in {MEMORY} if it is fit for unit tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Signals, the folder of temporary files, and what workers tell.

    Ctrl-C reaches the tests' children also where the suite was started in the background, which ignores it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.in_memory and "TMPDIR" not in os.environ and is_fit(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if hasattr(config, "workerinput") and config.option.verbose <= 0:
        for plugin in config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                plugin.sendevent = partial(send_news, plugin.sendevent)


def is_fit(folder: Path) -> bool:
    """Whether tests can have their files there: enough is free, they may be run, and have attributes.

    tmpfs has attributes of users since Linux 6.6.
    """
    try:
        found = os.statvfs(folder)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.setxattr(file.name, "user.gb10", b"")
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= FREE and not found.f_flag & os.ST_NOEXEC


def send_news(send: Callable[..., None], name: str, **values: Mapping[str, Any]) -> None:
    """What a worker of xdist tells of a test: its result, and what failed or took time before and after it.

    Of its six messages for each test that passes, the two that are left change what is printed. The other four cost a
    twentieth of the unit tests' time.
    """
    if name not in ("logstart", "logfinish") and not (name == "testreport" and is_idle(values["data"])):
        send(name, **values)


def is_idle(report: Mapping[str, Any]) -> bool:
    """Whether a set-up or tear-down did nothing that anybody wants to know."""
    return bool(report["when"] != "call" and report["outcome"] == "passed" and report["duration"] < SHORT)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """How xdist hands tests to its workers."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The groups start first, then the other integration tests: the longest do not come last."""
    items.sort(
        key=lambda item: (
            group_of(item.nodeid) not in (*GROUPS, PATCHES),
            item.get_closest_marker("integration") is None,
        )
    )


def pytest_collection_finish() -> None:
    """The collector looks at what tests make, not again and again at the modules and the tests themselves."""
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test without one of the markers above fails as soon as it looks up a name or connects."""
    if any(item.get_closest_marker(name) for name in MAY_CONNECT):
        return (yield)
    known = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo
    socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse  # type: ignore[method-assign]
    try:
        return (yield)
    finally:
        socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo = known  # type: ignore[method-assign]


def refuse(*_: object, **__: object) -> NoReturn:
    """Take the place of what reaches the network."""
    pytest.fail("a unit test must not use the network: mark it `integration`")


@pytest.fixture
def deep() -> Iterator[Deep]:
    """Makes so many folders of a name within each other, with a file ``k`` in the last.

    They do not lie in tmp_path: pytest's own removal recurses, fails, and fails again in every later run.
    """
    place = Path(tempfile.mkdtemp())

    def make(depth: int, name: str, content: bytes) -> Path:
        folder = os.open(place, os.O_RDONLY)
        for inner in ("root", *[name] * depth):
            os.mkdir(inner, dir_fd=folder)
            below = os.open(inner, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = below
        with os.fdopen(os.open("k", os.O_WRONLY | os.O_CREAT, dir_fd=folder), "wb") as file:
            file.write(content)
        os.close(folder)
        return place / "root"

    yield make
    subprocess.run(["rm", "-rf", str(place)], check=True)
