"""A server that a command starts: what it gets of the environment, and how its end before it is healthy is told."""

import sys
from pathlib import Path

import pytest

from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import ServeError
from gb10.serving.benchmark.launcher import Command, by_command

pytestmark = pytest.mark.integration
SERVER = f"{sys.executable} -m http.server --bind 127.0.0.1"
"""Healthy in a folder with a file ``health``."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OPENAI_API_KEY": "secret", "OWN": "kept"}
    return Host(env=env, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=-1))


def test_a_server_gets_the_environment_without_the_key_of_its_clients(host: Host, tmp_path: Path) -> None:
    command = Command(template="sh -c env", parameters={"env.MORE": "1"})
    begun: list[int] = []
    launch = by_command(host, command, tmp_path / "log", lambda pid, _: begun.append(pid))
    with pytest.raises(ServeError, match="the server did not start") as caught, launch():
        pass
    found = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert {"OWN=kept", "MORE=1"} <= {*found}
    assert "secret" not in "".join(found)
    assert (len(begun), str(tmp_path / "log") in (caught.value.hint or "")) == (1, True)


def test_a_server_is_healthy_at_its_port_until_its_launch_ends(host: Host, tmp_path: Path) -> None:
    (tmp_path / "health").touch()
    command = Command(template=f"{SERVER} --directory {tmp_path} {{port}}", parameters={}, patience=60)
    with by_command(host, command, tmp_path / "logs/log", lambda *_: None)() as launched:
        assert launched.ended() == ""
        assert launched.facts["environment"] == {}
        assert str(tmp_path) in str(launched.facts["command"])
        assert any("/health" in line for line in launched.log())
    assert launched.ended()


def test_a_server_that_stays_unhealthy_is_ended(host: Host, tmp_path: Path) -> None:
    command = Command(template="sleep 60", parameters={}, patience=0.5)
    with (
        pytest.raises(ServeError, match="is not healthy after") as caught,
        by_command(host, command, tmp_path / "log", lambda *_: None)(),
    ):
        pass
    assert "--wait SECONDS" in (caught.value.hint or "")
