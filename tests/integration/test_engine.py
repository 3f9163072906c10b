"""The embedded engine for real: life, crashes, neighbours, builds. Needs root with CAP_SYS_ADMIN and a mirror."""

import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import APIError

from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.build_cache import build_cache, prune
from gb10.containers.buildx.commands import Buildx, open_buildx
from gb10.containers.buildx.progress import Event, LogLine, StepDone, Transfer
from gb10.containers.connection import Engine, asking, client, probe
from gb10.containers.embedded.daemon import Place, alive, down, members, status, up
from gb10.containers.images import require_image, tag_image
from gb10.containers.node import reached
from gb10.containers.packages import damaged, unpack
from gb10.containers.reach import connect_if_running, connect_or_start
from gb10.containers.reference import check_reference
from gb10.core.proc import capture, spawn
from gb10.core.store import Store, open_store
from gb10.errors import BuildError, EngineError
from gb10.image.context import build_architecture
from tests.hang import until
from tests.integration.nodes import ENV, another_engine, lend_programs
from tests.integration.own_store import spoil

pytestmark = pytest.mark.integration
TREE = Path(__file__).parents[2]
NATIVE = f"linux/{build_architecture()}"
TOOLS = ("sh", "cat", "sleep", "mkdir")
V1_PIDS = Path("/sys/fs/cgroup/pids")
UP = """\
import os, signal
from pathlib import PosixPath
from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.embedded.daemon import up
from gb10.core.store import open_store
store = open_store(os.environ)
engine = up(store, os.environ)
"""

SLOW_SSH = """\
#!{python}
import os, socket, sys, threading, time
local, _, remote = sys.argv[sys.argv.index("-L") + 1].partition(":")
def copy(source, target):
    while part := source.recv(1 << 16):
        target.sendall(part)
    target.shutdown(socket.SHUT_WR)
with socket.socket(socket.AF_UNIX) as server:
    server.bind(local)
    time.sleep(1)
    server.listen()
    while True:
        near, far = server.accept()[0], socket.socket(socket.AF_UNIX)
        far.connect(remote)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=copy, args=ends, daemon=True).start()
"""
"""Stands for ssh: the file of its socket exists a second before anybody can connect."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store at a path that sockets, PATH and overlayfs could not bear by themselves."""
    root = tmp_path_factory.mktemp("a store, with odd") / ("long" * 25)
    found = open_store({"GB10_CACHE_DIR": str(root)})
    lend_programs(open_store(os.environ), found)
    yield found
    down(found)


@pytest.fixture
def engine(store: Store) -> Engine:
    return up(store, ENV)


@pytest.fixture
def neighbour(store: Store, tmp_path: Path) -> Iterator[Engine]:
    """A second engine, which is not ours to start or stop; the stopped store's programs are shared by hard links."""
    with another_engine(store, tmp_path / "other") as other:
        yield other


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of a few programs of this machine and the libraries that they load."""
    root = tmp_path_factory.mktemp("rootfs")
    for tool in TOOLS:
        program = Path(shutil.which(tool) or tool).resolve()
        libraries = [word for word in capture(["ldd", str(program)]).split() if word.startswith("/")]
        for source, target in [(str(program), f"bin/{tool}"), *((word, word[1:]) for word in libraries)]:
            (root / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / target)
    return root


@dataclass(frozen=True, slots=True)
class Site:
    """Where a test builds: stage ``os`` holds the root file system."""

    buildx: Buildx
    rootfs: Path
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "logs/build.log"

    def request(self, text: str, **changes: Any) -> BuildRequest:  # noqa: ANN401
        dockerfile = self.folder / "Dockerfile"
        dockerfile.write_text(f"FROM scratch AS os\nCOPY --from=rootfs . /\n{text}\n", encoding="utf-8")
        contexts = {"rootfs": self.rootfs} | changes.pop("contexts", {})
        return BuildRequest(dockerfile=dockerfile, target="final", contexts=contexts, **{"platform": NATIVE} | changes)

    def build(self, text: str, **changes: Any) -> list[Event]:  # noqa: ANN401
        events: list[Event] = []
        build(self.buildx, self.request(text, **changes), log=self.log, on_event=events.append)
        return events


@pytest.fixture
def site(engine: Engine, store: Store, rootfs: Path, tmp_path: Path) -> Site:
    return Site(open_buildx(engine, ENV, store), rootfs, tmp_path)


def _python(store: Store, code: str, log: Path) -> int:
    """Start a tool of its own on the store; returns its pid."""
    env = ENV | {"GB10_CACHE_DIR": str(store.root), "PYTHONPATH": str(TREE)}
    return spawn([sys.executable, "-c", UP + code], env=env, log=log)


def _removed(sdk: docker.DockerClient) -> bool:
    """Whether every container could be removed; one whose process ends while it is being killed takes another try."""
    for container in sdk.containers.list(all=True):
        with suppress(APIError):
            container.remove(force=True)
    return not sdk.containers.list(all=True)


def fresh() -> str:
    """The head of a stage that no cache holds."""
    return f"FROM os AS final\nENV FRESH={uuid.uuid4().hex}\n"


def _cached(events: list[Event], part: str) -> bool:
    return any(isinstance(event, StepDone) and event.cached and part in event.step for event in events)


def _lines(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, LogLine)]


def test_up_again_finds_the_running_engine_at_once(engine: Engine, store: Store) -> None:
    before = status(store)
    assert up(store, ENV) == engine == before.engine
    assert status(store).pid == before.pid
    assert set(before.versions) == {"containerd", "docker-buildx", "docker-cli", "docker.io", "runc"}


def test_a_warm_start_fetches_nothing_and_leaves_no_mount(store: Store) -> None:
    up(store, ENV)
    fetched = (store.root / "engine/packages.json").stat().st_mtime_ns
    assert down(store)
    assert not down(store)
    assert not Place(store).run.exists()
    assert not up(store, ENV).containerd
    assert (store.root / "engine/packages.json").stat().st_mtime_ns == fetched
    assert Place(store).name not in Path("/proc/self/mounts").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_starts_at_once_make_one_engine(store: Store) -> None:
    down(store)
    log = store.root / "two.log"
    pids = [_python(store, "", log) for _ in range(2)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0], log.read_text(encoding="utf-8")
    assert sorted(Place(store).daemons().values()) == ["containerd", "dockerd"]


@pytest.mark.slow
def test_a_killed_tool_leaves_the_engine_running(store: Store) -> None:
    down(store)
    pid = _python(store, "os.kill(os.getpid(), signal.SIGKILL)", store.root / "killed.log")
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    running = status(store)
    assert up(store, ENV) == running.engine
    assert status(store).pid == running.pid


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["dockerd", "containerd"])
def test_a_killed_engine_comes_back_with_its_images(engine: Engine, store: Store, site: Site, victim: str) -> None:
    site.build("FROM os AS final", tags=("kept:1",), output="type=image")
    with closing(client(engine)) as sdk:
        sdk.containers.run("kept:1", ["sleep", "1000"], detach=True, network_mode="none")
    place = Place(store)
    orphans = members(place.cgroup)
    assert orphans
    os.kill(next(pid for pid, program in place.daemons().items() if program == victim), signal.SIGKILL)
    with closing(client(up(store, ENV))) as sdk:
        assert sdk.images.get("kept:1").id
        until(lambda: _removed(sdk), "the end of the containers")
    if victim == "dockerd":
        assert not any(alive(pid) for pid in orphans)


@pytest.mark.slow
def test_a_silent_engine_is_never_ended(engine: Engine, store: Store) -> None:
    assert engine.data == Place(store).data
    pid = status(store).pid or 0
    os.kill(pid, signal.SIGSTOP)
    try:
        threads = list(Path(f"/proc/{pid}/task").glob("*/stat"))
        while any(stat.read_text(encoding="ascii").rpartition(") ")[2][0] != "T" for stat in threads):
            time.sleep(0.01)  # a thread stops when it next runs
        with pytest.raises(EngineError, match="gave no answer in 1 s") as caught:
            up(store, ENV, patience=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert str(Place(store).log) in (caught.value.where or "")
    assert up(store, ENV) == engine
    assert status(store).pid == pid


def test_an_engine_that_died_is_said_so(engine: Engine, store: Store) -> None:
    down(store)
    with pytest.raises(EngineError, match="failed") as caught, asking(engine) as sdk:
        sdk.ping()
    assert "No such file" in (caught.value.where or "")


@pytest.mark.slow
def test_a_damaged_program_is_fetched_again(store: Store) -> None:
    down(store)
    runc = unpack(store, ENV).bin / "runc"
    spoil(runc, runc.read_bytes()[:-1])
    assert up(store, ENV).notes == ("the embedded engine's programs were damaged and fetched again: runc",)
    assert damaged(unpack(store, ENV)) == ()


@pytest.mark.slow
def test_the_systems_containerd_is_left_alone(store: Store) -> None:
    down(store)
    code = "import socket; socket.socket(socket.AF_UNIX).bind('/run/containerd/containerd.sock')"
    before = f'mkdir -p /run/containerd; mount -t tmpfs theirs /run/containerd; {sys.executable} -c "{code}"'
    argv = ["unshare", "--mount", "sh", "-euc", f'{before}; exec "$@"', "sh", sys.executable, "-c", UP]
    capture(argv, env=ENV | {"GB10_CACHE_DIR": str(store.root), "PYTHONPATH": str(TREE)})
    assert sorted(Place(store).daemons().values()) == ["containerd", "dockerd"]
    down(store)


@pytest.mark.parametrize("tag", ["my/vllm", "reg:5000/x", "reg:5000/x:1"])
def test_an_image_is_tagged_as_docker_would(engine: Engine, site: Site, tag: str) -> None:
    site.build("FROM os AS final", tags=("some:1",), output="type=image")
    tag_image(engine, "some:1", (tag,))
    assert require_image(engine, check_reference(tag)).id == require_image(engine, "some:1").id


@pytest.mark.slow
def test_an_engine_that_cannot_start_shows_its_log(store: Store) -> None:
    down(store)
    broken = Place(store).data / "containerd"
    broken.rename(broken.with_name("aside"))
    broken.touch()
    try:
        with pytest.raises(EngineError, match="ended at its start") as caught:
            up(store, ENV)
        assert "not a directory" in (caught.value.where or "")
    finally:
        broken.unlink()
        broken.with_name("aside").rename(broken)


def test_docker_host_is_used_and_never_started_or_stopped(neighbour: Engine, store: Store) -> None:
    down(store)
    chosen = connect_or_start(ENV | {"DOCKER_HOST": neighbour.endpoint.host}, store)
    assert (chosen.kind, chosen.endpoint.host, chosen.data) == ("user", neighbour.endpoint.host, None)
    assert not Place(store).daemons()
    assert not down(store)
    assert probe(neighbour.endpoint, "user").version == chosen.version


def test_an_unreachable_docker_host_is_an_error(store: Store, tmp_path: Path) -> None:
    down(store)
    with pytest.raises(EngineError, match="that DOCKER_HOST names cannot be used"):
        connect_or_start(ENV | {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, store)
    assert not Place(store).daemons()


def test_a_forwarded_socket_is_used_once_it_takes_connections(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(SLOW_SSH.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with reached(f"ssh://root@node{engine.endpoint.host.removeprefix('unix://')}") as found:
        assert found.version == engine.version


def test_the_own_socket_in_docker_host_is_the_embedded_engine(engine: Engine, store: Store) -> None:
    env = ENV | {"DOCKER_HOST": engine.endpoint.host}
    assert connect_if_running(env, store) == connect_or_start(env, store) == engine


def test_a_context_and_the_users_plugin_are_used(neighbour: Engine, store: Store, site: Site) -> None:
    programs = unpack(store, ENV)
    for name in ("bin", "cli-plugins"):
        (site.folder / name).symlink_to(programs.bin)
    env = ENV | {"DOCKER_CONFIG": str(site.folder), "PATH": f"{site.folder}/bin:{ENV['PATH']}"}
    capture(["docker", "context", "create", "mine", "--docker", f"host={neighbour.endpoint.host}"], env=env)
    capture(["docker", "context", "use", "mine"], env=env)
    chosen = connect_or_start(env, store)
    assert (chosen.kind, chosen.endpoint.origin) == ("user", "context mine")
    theirs = open_buildx(chosen, env, store)
    assert theirs.command == ("docker", "buildx")
    replace(site, buildx=theirs).build("FROM os AS final", tags=("theirs:1",), output="type=image")
    with closing(client(chosen)) as sdk:
        assert sdk.images.get("theirs:1").id


def test_a_build_tells_steps_lines_and_cache_hits(site: Site) -> None:
    text = f"{fresh()}RUN echo '[1/2] a.cu'; sleep 1; echo '[2/2] b.cu' >&2; mkdir /out"
    events = site.build(text)
    assert _lines(events) == ["[1/2] a.cu", "[2/2] b.cu"]
    assert any(isinstance(event, Transfer) for event in events)
    assert not _cached(events, "mkdir /out")
    assert _cached(site.build(text), "mkdir /out")


def test_a_failed_step_is_named_with_its_last_lines(site: Site) -> None:
    with pytest.raises(BuildError, match=r"RUN \{ echo first") as caught:
        site.build("FROM os AS final\nRUN { echo first; echo the reason; } >&2; exit 3")
    for part in ("first\nthe reason\n", "exit code: 3", str(site.log)):
        assert part in (caught.value.where or "")
    assert "the reason" in site.log.read_text(encoding="utf-8")


def test_a_bad_dockerfile_is_an_error_in_buildx_own_words(site: Site) -> None:
    with pytest.raises(BuildError) as caught:
        site.build("FROM os AS final\nRUM echo")
    assert "RUM" in (caught.value.where or "")


def test_steps_and_containers_cannot_fill_the_process_table(site: Site, store: Store) -> None:
    """The bound lies above them all, and holds: forty processes do not fit into sixteen."""
    (bound,) = [
        path
        for path in (root / Place(store).cgroup / "pids.max" for root in (V1_PIDS, V1_PIDS.parent))
        if path.is_file()
    ]
    usual = bound.read_text(encoding="ascii")
    assert 0 < int(usual) <= min(16_384, int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")))
    forks = f"{fresh()}RUN for n in 1 2 3 4; do for m in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done; done; wait"
    site.build(forks)
    bound.write_text("16", encoding="ascii")
    try:
        with pytest.raises(BuildError) as caught:
            site.build(f"{forks} && echo again")
    finally:
        bound.write_text(usual, encoding="ascii")
    assert "fork" in (caught.value.where or "")


def test_a_step_has_no_network(site: Site) -> None:
    lines = _lines(site.build(f"{fresh()}RUN cat /proc/net/dev"))
    assert {line.split(":")[0].strip() for line in lines if ":" in line} == {"lo"}


def test_a_step_cannot_ask_for_the_hosts_network(site: Site) -> None:
    with pytest.raises(BuildError) as caught:
        site.build(f"{fresh()}RUN --network=host cat /proc/net/dev")
    assert "network.host is not allowed" in (caught.value.where or "")


def test_a_result_lands_in_a_directory_with_an_odd_name(site: Site) -> None:
    out = site.folder / 'out, "of" here'
    site.build("FROM scratch AS final\nCOPY --from=os /bin/sh /sh", out=out)
    assert (out / "sh").read_bytes() == (site.rootfs / "bin/sh").read_bytes()


def test_secrets_and_contexts_with_odd_names(site: Site) -> None:
    folder = site.folder / 'a, "b" c'
    folder.mkdir()
    (folder / "f").write_text("from-context ", encoding="utf-8")
    (folder / "s, x").write_text("from-secret", encoding="utf-8")
    text = f"{fresh()}COPY --from=odd f /f\nRUN --mount=type=secret,id=s cat /f /run/secrets/s"
    events = site.build(text, contexts={"odd": folder}, secrets={"s": folder / "s, x"})
    assert _lines(events) == ["from-context from-secret"]


def test_a_foreign_image_without_steps_builds_anywhere(engine: Engine, site: Site) -> None:
    foreign = "arm64" if NATIVE == "linux/amd64" else "amd64"
    text = f"FROM --platform=linux/{foreign} scratch AS final\nCOPY --link --from=os /bin/sh /sh"
    site.build(text, platform=f"linux/{foreign}", tags=("foreign:1",), output="type=image,compression=uncompressed")
    with closing(client(engine)) as sdk:
        assert sdk.images.get("foreign:1").attrs["Architecture"] == foreign
    assert require_image(engine, "foreign:1").platform == f"linux/{foreign}"


@pytest.mark.parametrize("network", ["none", "host"])
def test_a_container_runs(engine: Engine, site: Site, network: str) -> None:
    site.build("FROM os AS final", tags=("run:1",), output="type=image")
    with closing(client(engine)) as sdk:
        said = sdk.containers.run("run:1", ["sh", "-c", "echo hello"], remove=True, network_mode=network)
    assert said == b"hello\n"


def test_an_interrupt_cancels_the_step(store: Store, site: Site) -> None:
    request = site.request(f"{fresh()}RUN echo begun; sleep 1000")
    code = f"build(open_buildx(engine, os.environ, store), {request!r}, log={site.log!r})"
    pid = _python(store, code, site.folder / "out")
    until(lambda: site.log.exists() and " begun\n" in site.log.read_text(encoding="utf-8"), "the build")
    os.kill(pid, signal.SIGINT)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGINT
    assert "KeyboardInterrupt" in (site.folder / "out").read_text(encoding="utf-8")
    until(lambda: not members(Place(store).cgroup), "the end of all processes")


def test_the_build_cache_is_measured_and_let_go(engine: Engine, site: Site) -> None:
    text = f"{fresh()}RUN echo grown >/grown"
    site.build(text)
    before = build_cache(engine)
    assert before > 0
    assert prune(engine, keep=None, age=10 * 365 * 86_400) == 0
    assert _cached(site.build(text), "grown")
    assert prune(engine, keep=None, age=None) > 0
    assert build_cache(engine) < before
    assert not _cached(site.build(text), "grown")
