"""Choosing an engine and asking buildx, without one: what can be decided from values and files."""

import hashlib
import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.machine.engine import search_path
from gb10.containers import connection
from gb10.containers.buildx.build import BuildRequest, arguments
from gb10.containers.connection import Endpoint, chosen_endpoint
from gb10.containers.embedded.daemon import Place
from gb10.containers.embedded.privileges import entering
from gb10.containers.packages import Programs
from gb10.containers.reach import MEMBER, connect_if_running, connect_or_start, denial
from gb10.core.store import Store
from gb10.errors import EngineError, Gb10Error


def _context(folder: Path, name: str, host: str) -> None:
    meta = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


@pytest.mark.parametrize(
    ("env", "host", "origin"),
    [
        ({}, "tcp://b:1", "context b"),
        ({"DOCKER_CONTEXT": "a"}, "tcp://a:1", "context a"),
        ({"DOCKER_CONTEXT": "default"}, "unix:///var/run/docker.sock", "default socket"),
        ({"DOCKER_CONTEXT": "a", "DOCKER_HOST": "ssh://h"}, "ssh://h", "DOCKER_HOST"),
    ],
)
def test_precedence_is_that_of_docker(tmp_path: Path, env: dict[str, str], host: str, origin: str) -> None:
    for name in ("a", "b"):
        _context(tmp_path, name, f"tcp://{name}:1")
    (tmp_path / "config.json").write_text('{"currentContext": "b"}')
    chosen = chosen_endpoint(env | {"DOCKER_CONFIG": str(tmp_path)})
    assert (chosen.host, chosen.origin) == (host, origin)


def test_without_any_setting_it_is_the_default_socket() -> None:
    assert chosen_endpoint({}).origin == "default socket"


def test_tls_is_used_only_when_it_is_asked_for(tmp_path: Path) -> None:
    env = {"DOCKER_HOST": "tcp://h:2376", "DOCKER_CERT_PATH": str(tmp_path)}
    assert chosen_endpoint(env).certificates is None
    assert chosen_endpoint(env | {"DOCKER_TLS_VERIFY": "1"}).certificates == tmp_path


@pytest.mark.parametrize("config", [None, "not json"])
def test_a_missing_context_or_a_broken_config_is_an_error(tmp_path: Path, config: str | None) -> None:
    if config:
        (tmp_path / "config.json").write_text(config)
    env = {"DOCKER_CONFIG": str(tmp_path)} | ({} if config else {"DOCKER_CONTEXT": "gone"})
    with pytest.raises(EngineError):
        chosen_endpoint(env)


@pytest.fixture
def no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not in the group docker."""

    class Refusing(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied", address)

    monkeypatch.setattr("gb10.containers.connection.socket.socket", Refusing)


@pytest.mark.usefixtures("no_member")
def test_a_docker_that_one_may_not_use_is_no_reason_for_the_embedded_engine(tmp_path: Path) -> None:
    env, store = {"DOCKER_CONFIG": str(tmp_path)}, Store(tmp_path)
    with pytest.raises(EngineError, match="you may not use Docker") as caught:
        connect_or_start(env, store)
    assert (caught.value.where, caught.value.hint) == ("/var/run/docker.sock: Permission denied", MEMBER)
    assert connect_if_running(env, store) is None
    assert denial(env, store)
    assert not (tmp_path / "engine").exists()


def test_where_no_engine_can_be_used_the_error_names_each_that_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Absent(socket.socket):
        def connect(self, address: object) -> None:
            raise FileNotFoundError(2, "No such file or directory", address)

    monkeypatch.setattr("gb10.containers.connection.socket.socket", Absent)
    env, store = {"DOCKER_CONFIG": str(tmp_path), "PATH": ""}, Store(tmp_path / "store")
    with pytest.raises(EngineError, match="no container engine can be used here") as caught:
        connect_or_start(env, store)
    default, own = (caught.value.where or "").split("\n")
    assert default == "no Docker at the default socket (unix:///var/run/docker.sock): No such file or directory"
    assert own.startswith("the embedded engine needs unshare and")
    with pytest.raises(EngineError) as chosen:
        connect_or_start({**env, "DOCKER_HOST": Place(store).endpoint.host}, store)
    assert chosen.value.where == own


@pytest.mark.usefixtures("no_member")
def test_a_socket_of_docker_host_that_one_may_not_use(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="you may not use Docker") as caught:
        connect_if_running({"DOCKER_HOST": "unix:///x/docker.sock"}, Store(tmp_path))
    assert caught.value.where == "/x/docker.sock: Permission denied\nnamed by DOCKER_HOST"


@pytest.mark.usefixtures("no_member")
def test_status_says_that_one_may_not_use_docker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    assert main(["engine", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "used      none: you may not use Docker: /var/run/docker.sock: Permission denied"
    assert lines[1].strip() == MEMBER


def test_the_socket_path_is_short_whatever_the_store(tmp_path: Path) -> None:
    root = tmp_path / ("long " * 40) / "store"
    root.mkdir(parents=True)
    place = Place(Store(root))
    assert len(str(place.socket)) < 60
    assert place.name == Place(Store(root)).name != Place(Store(tmp_path)).name


def test_a_build_has_no_network_and_no_attestation_by_default() -> None:
    argv = arguments(_request(), work=Path("/w"))
    assert {"--network=none", "--provenance=false", "--sbom=false"} <= set(argv)
    assert not [word for word in argv if word.startswith("--allow")]
    assert argv[-2:] == ["--output=type=cacheonly", "/w/empty"]


def test_what_is_asked_for_is_passed_on_in_a_fixed_order() -> None:
    request = _request(contexts={"b": Path("/b"), "a": Path("/a")}, tags=("t:1", "t:2"))
    argv = arguments(request, work=Path("/w"))
    assert [word for word in argv if word.startswith("--build-context")] == [
        "--build-context=a=/a",
        "--build-context=b=/b",
    ]
    assert [word for word in argv if word.startswith("--tag")] == ["--tag=t:1", "--tag=t:2"]


def test_a_secret_may_have_commas_and_quotes_in_its_path() -> None:
    argv = arguments(_request(secrets={"ca": Path('/a, "b".pem')}), work=Path("/w"))
    assert '--secret=id=ca,"src=/a, ""b"".pem"' in argv


def test_a_result_goes_to_a_directory_with_any_name() -> None:
    argv = arguments(_request(out=Path('/a, "b" c')), work=Path("/w"))
    assert argv[-2] == '--output=type=local,"dest=/a, ""b"" c"'


def test_a_build_has_one_output() -> None:
    with pytest.raises(Gb10Error, match="two outputs"):
        _request(out=Path("/a"), output="type=image")


def test_the_engine_enters_its_own_mount_namespace() -> None:
    argv = entering(Path("/run/x"), Path("/s t/data"), "gb10-x", ["dockerd", "--debug"])
    assert argv[:2] == ["unshare", "--mount"]
    assert argv[-5:] == ["/run/x", "/s t/data", "gb10-x", "dockerd", "--debug"]


def _request(
    *,
    contexts: dict[str, Path] | None = None,
    secrets: dict[str, Path] | None = None,
    tags: tuple[str, ...] = (),
    output: str | None = None,
    out: Path | None = None,
) -> BuildRequest:
    return BuildRequest(
        dockerfile=Path("/D"),
        target="final",
        platform="linux/arm64",
        contexts=contexts or {},
        secrets=secrets or {},
        tags=tags,
        output=output,
        out=out,
    )


def test_a_machine_without_docker_gets_the_embedded_engines_program(tmp_path: Path) -> None:
    programs = Programs(tmp_path / "embedded/bin", {}, {})
    assert search_path({"PATH": str(tmp_path)}, programs) == f"{programs.bin}:{tmp_path}"
    assert search_path({"PATH": str(tmp_path)}, None) is None
    (tmp_path / "docker").touch(mode=0o755)
    assert search_path({"PATH": str(tmp_path)}, programs) is None


def test_the_engines_data_is_seen_only_on_this_machine_and_in_this_namespace(tmp_path: Path) -> None:
    """A mount point of another namespace is an empty folder here."""
    local = Endpoint(host="unix:///run/docker.sock", origin="default socket")
    assert connection._data(local, tmp_path) is None
    (tmp_path / "overlay2").mkdir()
    assert connection._data(local, tmp_path) == tmp_path
    assert connection._data(replace(local, host="ssh://spark"), tmp_path) is None
    assert connection._data(local, tmp_path / "gone") is None
