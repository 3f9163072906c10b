"""What holds for every test: unit and golden tests touch no network."""

import signal
import socket
from typing import NoReturn

import pytest

MAY_CONNECT = ("integration", "e2e", "gpu")


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
