"""What holds for every test: unit and golden tests touch no network."""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

Deep = Callable[[int, str, bytes], Path]
MAY_CONNECT = ("integration", "e2e", "gpu")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share fixtures of a module stay in one worker; integration tests, which take longest, start first."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> None:
    """Ctrl-C reaches the tests' children also where the suite was started in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test without one of the markers above fails as soon as it looks up a name or connects."""
    if any(request.node.get_closest_marker(name) for name in MAY_CONNECT):
        return

    def refuse(*_: object, **__: object) -> NoReturn:
        pytest.fail("a unit test must not use the network: mark it `integration`")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


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
