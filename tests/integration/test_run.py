"""Services for real: containers of real engines, on one node and two, with a server that stands for the engine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from docker.models.containers import Container

from gb10.containers.connection import Engine, client
from gb10.containers.docker_containers import container_state, create_container, end_container
from gb10.containers.embedded.daemon import down
from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start
from gb10.core.proc import background, capture
from gb10.core.reporter import Reporter
from gb10.core.store import Store, open_store
from gb10.errors import ServeError
from gb10.image.plan.catalog import ROOT
from gb10.models.load.loading import load_model_recipe
from gb10.models.render.nodes import PORT, Meeting
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.run.ports import ports_of
from gb10.serving.run.service import ContainerSettings, container_options, service_of
from gb10.serving.run.service_nodes import nodes_of as nodes_by_name
from gb10.serving.run.starting import started
from tests.hang import until
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.hub_server import Repository, fake_hub
from tests.integration.nodes import (
    another_engine,
    build_py,
    debs,
    free_port,
    kill,
    remove_containers,
    store_of,
    wake,
)
from tests.integration.services import (
    CPU,
    IMAGE,
    called,
    containers,
    failed,
    foreground,
    load,
    pid_in,
    ran,
    recipe,
    stand_in_image,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(scope="module")
def image(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_image(store, tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def engine(store: Store, image: Path) -> Engine:
    found = connect_or_start(os.environ, store)
    load(found, image)
    return found


@pytest.fixture(scope="module")
def second(store: Store, image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with another_engine(store, tmp_path_factory.mktemp("second")) as found:
        load(found, image)
        yield found


@pytest.fixture(autouse=True)
def _nothing_left(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts and ends without a container, and without a note of the nodes of a service."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    remove_containers(engine)


def nodes_of(*engines: Engine) -> tuple[str, str]:
    return "--nodes", ",".join(engine.endpoint.host for engine in engines)


def test_the_phases_of_a_start_are_said_and_kept_with_the_service(engine: Engine, tmp_path: Path) -> None:
    _, _, said = called("run", str(recipe(tmp_path, "phased")), *CPU, "--detach")
    assert re.search(
        r"phased: ready after \d:\d\d: import \d:\d\d, config \d:\d\d, load \d:\d\d; first answer after", said
    )
    start = json.loads(ran("status", "--json"))["services"][0]["start"]
    assert start["ready_s"] == pytest.approx(sum(start["phases_s"].values()), abs=0.1)
    assert start["phases_s"]["config"] >= 0.2
    assert start["first_answer_s"] > 0
    assert "    ready after " in ran("status")
    _, _, other = called("run", str(recipe(tmp_path, "small")), *CPU, "--detach", "--set", "port=8765")
    assert "the phases of its start are not known, its log shows no line" in other


def test_a_service_from_start_to_stop(engine: Engine, tmp_path: Path) -> None:
    path = str(recipe(tmp_path, "small"))
    endpoint, curl = build_py("run", path, *CPU, "--detach", env=dict(os.environ)).splitlines()
    assert "message" not in capture(["curl", "--silent", "--fail", f"{endpoint}/health"])
    assert "You wrote: Hello" in capture(["bash", "-c", curl])
    (before,) = containers(engine)
    again = ran("run", path, *CPU, "--detach", "--json")
    assert json.loads(again)["unchanged"] is True
    assert containers(engine) == [before]
    code, words = failed("run", path, *CPU, "--detach", "--set", "tensor_parallel=1", "--", "--served-model-name", "x")
    assert (code, "runs already, with other settings" in words) == (2, True)
    found = json.loads(ran("status", "--json"))["services"][0]
    assert (found["name"], found["healthy"], found["ranks"][0]["status"]) == ("small", True, "running")
    assert "loading org/small, rank 0 of 1" in ran("logs", "small")
    assert build_py("stop", "small", env=dict(os.environ)) == "small localhost gb10-small-0\n"
    assert containers(engine) == []
    assert failed("stop", "small")[0] == 3


@pytest.mark.slow
def test_weights_that_were_pulled_are_what_the_server_reads(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(recipe(tmp_path, "small"))
    with fake_hub() as hub:
        hub.repositories["org/small"] = Repository(private=False)
        hub.put("org/small", {"config.json": b"{}", "model.safetensors": b"x" * 1000})
        for name, value in (("HF_ENDPOINT", hub.url), ("HF_HOME", str(tmp_path / "hf"))):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        build_py("recipe", "pull", path, env=dict(os.environ))  # the Hub's client reads its settings once
    ran("run", path, *CPU, "--detach")
    log = ran("logs", "small")
    assert "offline 1: {}" in log
    assert "not changed: Read-only file system" in log
    ran("stop", "small")
    (tmp_path / "hf").rename(tmp_path / "gone")
    code, words = failed("run", path, *CPU, "--detach")
    assert (code, "bind source path does not exist" in words) == (12, True)
    assert "recipe pull" in words


def test_a_server_that_dies_is_named_with_the_line_that_tells_why(engine: Engine, tmp_path: Path) -> None:
    code, words = failed("run", str(recipe(tmp_path, "dies")), *CPU)
    assert code == 12
    assert "rank 0 on localhost ended first: it ended with code 1" in words
    assert "\n  torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" in words
    assert containers(engine) == []


@pytest.mark.slow
def test_a_server_that_fails_at_its_first_request_is_stopped_with_the_line_that_tells_why(
    engine: Engine, tmp_path: Path
) -> None:
    code, words = failed("run", str(recipe(tmp_path, "breaks")), *CPU)
    assert (code, "its first answer is ERROR" in words) == (12, True), words
    assert "\n  (EngineCore pid=7) RuntimeError: no kernel image is available" in words
    assert containers(engine) == []


def test_a_server_whose_first_answer_is_garbage_is_stopped(engine: Engine, tmp_path: Path) -> None:
    code, words = failed("run", str(recipe(tmp_path, "garbage")), *CPU)
    assert (code, "its first answer is GARBAGE" in words) == (12, True)
    assert containers(engine) == []


GUARDED = "the memory guard ended it"
KILLED = "it ran out of the memory that its container may use"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "limits", "ways"),
    [
        ("eats", ("--memory", "0.2", "--keep-free", "0.05"), {GUARDED}),
        ("gulps", ("--memory", "2", "--keep-free", "0.5"), {GUARDED}),
        ("gulps", ("--memory", "0.5", "--keep-free", "0.01"), {GUARDED, KILLED}),  # whoever is faster
    ],
)
def test_a_server_that_eats_memory_ends_and_the_machine_does_not(
    engine: Engine, tmp_path: Path, name: str, limits: tuple[str, ...], ways: set[str]
) -> None:
    """Slowly and at gigabytes a second, in a real cgroup: by the guard, and by the kernel where the guard is off."""
    before = killed_by_the_kernel()
    code, said = failed("run", str(recipe(tmp_path, name)), "--no-gpus", *limits)
    assert code == 12
    assert any(f"ended first: {way}" in said for way in ways), said
    if KILLED not in ways:
        assert killed_by_the_kernel() == before
        assert re.search(r"\d+ MiB of memory are left of the container's limit: the memory guard ends the server", said)
        assert re.search(r"gb10: in \d+ s: left -\d+, .*, this container \+\d+", said)
    assert containers(engine) == []


def killed_by_the_kernel() -> int:
    """How many processes of this machine ended because memory ran out."""
    found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(encoding="ascii"), re.MULTILINE)
    assert found
    return int(found[1])


def test_the_kernel_and_earlyoom_take_a_server_before_the_machines_own_programs(
    engine: Engine, store: Store, tmp_path: Path
) -> None:
    ran("run", str(recipe(tmp_path, "small")), *CPU, "--detach")
    server = Path(f"/proc/{pid_in(engine, 'gb10-small-0', 'vllm')}")
    assert score_of(server, "oom_score_adj") == 500
    others = [path for path in Path("/proc").glob("[0-9]*") if not score_of(path, "oom_score_adj")]
    assert score_of(server, "oom_score") > max(score_of(path, "oom_score") for path in others)
    (package,) = (path for path in debs(store, "earlyoom", suite="bookworm") if path.name.startswith("earlyoom_"))
    capture(["dpkg-deb", "--extract", str(package), str(tmp_path)])
    dry = [str(tmp_path / "usr/bin/earlyoom"), "--dryrun", "-m", "99,98", "-r", "0"]  # as if memory were short
    with background(dry, log=tmp_path / "log"):
        until(lambda: "dryrun, not actually" in (tmp_path / "log").read_text(), "earlyoom")
    taken = re.search(r"sending SIG\w+ to process (\d+)", (tmp_path / "log").read_text())
    assert taken
    assert score_of(Path("/proc", taken[1]), "oom_score_adj") == 500  # a server of gb10's, whichever runs just now


def score_of(process: Path, name: str) -> int:
    """A score of the kernel's for a process; zero for one that has ended."""
    try:
        return int((process / name).read_text(encoding="ascii"))
    except OSError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_when_a_rank_dies_all_end(engine: Engine, second: Engine, tmp_path: Path, dies: int) -> None:
    path, log = recipe(tmp_path, "pair", nodes=2), tmp_path / "log"
    with foreground("run", str(path), *CPU, *nodes_of(engine, second), log=log) as alive:
        until(lambda: "Ctrl-C stops it" in log.read_text() or not alive(), "the service")
        assert [containers(engine), containers(second)] == [["gb10-pair-0"], ["gb10-pair-1"]], log.read_text()
        os.kill(pid_in((engine, second)[dies], f"gb10-pair-{dies}", "vllm"), signal.SIGKILL)
        until(lambda: not alive(), "the end")
    assert f"rank {dies} on " in log.read_text()
    assert "ended first: it was ended by SIGKILL; all ranks are stopped" in log.read_text()
    assert containers(engine) + containers(second) == []


@pytest.mark.slow
def test_services_a_thousand_ports_apart_run_on_the_same_nodes_and_pass_over_a_port_that_is_taken(
    engine: Engine, second: Engine, tmp_path: Path
) -> None:
    nodes, first = nodes_of(engine, second), pair_of_ports()
    for name, port in (("one", first), ("two", first + 1000)):
        path = str(recipe(tmp_path, name, nodes=2))
        ran("run", path, *CPU, *nodes, "--detach", "--set", f"port={port}")
    assert ran("status", *nodes).count("  healthy  ") == 2
    ran("stop", "two", *nodes)
    meeting = Meeting(first + 1000).port(PORT)
    with socket.create_server(("127.0.0.1", meeting)):
        code, _, said = called("run", path, *CPU, *nodes, "--detach", "--set", f"port={first + 1000}")
    assert (code, f"port {meeting} is taken on localhost, so the ranks meet at {meeting + 1}" in said) == (0, True), (
        said
    )
    assert ran("stop", "--all", *nodes).count("\n") == 4


def pair_of_ports() -> int:
    """A port that is free, as is the one a thousand above it, and those by which their ranks meet."""
    for port in range(8100, 9000):
        used = [port, port + 1000, *(Meeting(one).port(PORT) + more for one in (port, port + 1000) for more in (0, 1))]
        if not ports_of("localhost") & set(used):
            return port
    raise AssertionError("no port is free")


@pytest.mark.slow
def test_a_service_of_several_nodes_is_found_by_who_started_it_and_by_who_names_them(
    engine: Engine, second: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is in the user's state folder; without it nobody goes where labels lead."""
    nodes = "--nodes", f"localhost,{second.endpoint.host}"
    ran("run", str(recipe(tmp_path, "pair", nodes=2)), *CPU, *nodes, "--detach")
    assert ran("status").count("  rank ") == 2
    assert "loading org/pair, rank 1 of 2" in ran("logs", "pair", "--rank", "1")
    kept = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    for verb in (("status",), ("stop", "pair"), ("stop", "--all"), ("logs", "pair")):
        code, _, said = called(*verb)
        assert (code, f"./build.py {verb[0]} pair --nodes localhost,{second.endpoint.host}" in said) == (2, True), said
    assert containers(engine) + containers(second) == ["gb10-pair-0", "gb10-pair-1"]
    monkeypatch.setenv("XDG_STATE_HOME", str(kept))
    assert ran("stop", "pair").count("\n") == 2
    assert containers(engine) + containers(second) == []
    assert list((kept / "gb10/services").iterdir()) == []


@pytest.mark.slow
def test_a_killed_tool_leaves_a_service_that_can_be_stopped(engine: Engine, second: Engine, tmp_path: Path) -> None:
    path, log = recipe(tmp_path, "pair", nodes=2), tmp_path / "log"
    nodes = nodes_of(engine, second)
    ran("run", str(path), *CPU, *nodes, "--detach")
    status = json.loads(ran("status", "pair", *nodes, "--json"))["services"][0]
    assert [rank["rank"] for rank in status["ranks"]] == [0, 1]
    other = ("--replace", "--set", f"port={free_port()}")
    with foreground("run", str(path), *CPU, *nodes, *other, log=log) as alive:
        until(lambda: "Ctrl-C stops it" in log.read_text() or not alive(), "the service")
        capture(["pkill", "--signal", "KILL", "--full", f"run {path}"])
    assert ran("stop", "pair", *nodes).count("gb10-pair-") == 2
    assert containers(engine) + containers(second) == []


def test_ctrl_c_stops_it(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with foreground("run", str(recipe(tmp_path, "slow")), *CPU, log=log) as alive:
        until(lambda: "loading" in log.read_text(), "the start")
        until(lambda: containers(engine) == ["gb10-slow-0"], "the container")
        capture(["pkill", "--signal", "INT", "--full", f"run {tmp_path}/slow.yaml"])
        until(lambda: not alive(), "the end")
    assert containers(engine) == []


def test_mods_run_once_before_the_server(engine: Engine, tmp_path: Path) -> None:
    mod = tmp_path / "mods/note"
    mod.mkdir(parents=True)
    (mod / "run.sh").write_text('#!/bin/sh\nid -u >> "$WORKSPACE_DIR/noted"\ncat extra >> /noted\n', encoding="utf-8")
    (mod / "extra").write_text("with its files\n", encoding="utf-8")
    path = recipe(tmp_path, "small", more="mods: [mods/note]")
    ran("run", str(path), *CPU, "--detach")
    with closing(client(engine)) as sdk:
        assert sdk.containers.get("gb10-small-0").exec_run(["cat", "/noted"]).output == b"0\nwith its files\n"
    ran("stop", "--all")
    (mod / "run.sh").write_text("#!/bin/sh\necho no such file: x.py\nexit 3\n", encoding="utf-8")
    code, words = failed("run", str(path), *CPU, "--detach")
    assert code == 12
    assert "the mod note failed on localhost: its run.sh exited with 3\n  no such file: x.py" in words
    assert containers(engine) == []


def test_a_recipe_of_others_starts_without_a_shell_and_its_mods_need_trust(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    theirs = tmp_path / "theirs"
    (theirs / "mods/drop-caches").mkdir(parents=True)
    (theirs / "mods/drop-caches/run.sh").write_text("#!/bin/bash\necho theirs >/PWN\n", encoding="utf-8")
    (theirs / "mods/drop-caches/run.sh").chmod(0o755)
    for name, more in (("plain", ""), ("mod", "mods: [mods/drop-caches]"), ("evil", "env: {BASH_ENV: $(touch /PWN)}")):
        path = recipe(theirs, name, more=more)
        text = path.read_text(encoding="utf-8").replace(IMAGE, "vllm/vllm-openai:v0.33.0")
        path.write_text(text, encoding="utf-8")
    ran("recipe", "add", str(theirs))
    how = (*CPU, "--image", IMAGE, "--detach")
    ran("run", "@theirs/plain", *how)
    with closing(client(engine)) as sdk:
        command = sdk.containers.get("gb10-plain-0").attrs["Config"]["Entrypoint"]
    assert command[3:7] == ["--", "vllm", "serve", "org/plain"]
    assert json.loads(ran("status", "--json"))["services"][0]["healthy"] is True
    ran("stop", "plain")
    for name, why in (("mod", "the mod mods/drop-caches runs as root"), ("evil", "it sets the variable BASH_ENV")):
        code, words = failed("run", f"@theirs/{name}", *how)
        assert (code, why in words, "add --trust" in words) == (2, True, True)
        assert containers(engine) == []
    ran("run", "@theirs/mod", *how, "--trust")
    with closing(client(engine)) as sdk:
        assert sdk.containers.get("gb10-mod-0").exec_run("cat /PWN").output == b"theirs\n"
    ran("stop", "mod")


NOBODY = 65534


@pytest.mark.parametrize("user", [0, NOBODY])
def test_a_token_is_the_servers_alone_and_comes_after_the_mods(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    mod = tmp_path / "mods/look"
    mod.mkdir(parents=True)
    text = "#!/bin/sh\n(ls -R /gb10; env; cat /gb10/secrets/* /proc/1/environ) > /seen 2>&1\ntrue\n"
    (mod / "run.sh").write_text(text, encoding="utf-8")
    path = recipe(tmp_path, "small", more="mods: [mods/look]")
    if user:
        with closing(client(engine)) as sdk:
            made = sdk.containers.create(IMAGE, ["true"])
            made.commit("gb10/other-user", "1", changes=f"USER {user}")
    image = ("--image", "gb10/other-user:1") if user else ()
    ran("run", str(path), *CPU, *image, "--detach")
    with closing(client(engine)) as sdk:
        found = sdk.containers.get("gb10-small-0")
        seen = found.exec_run(["cat", "/seen"], user="0").output
        assert b"hf_secret" not in seen
        assert b"/gb10/run:" in seen
        assert b"/gb10/secrets:" not in seen
        stat = found.exec_run(["stat", "-c", "%u %a", "/gb10/secrets/HF_TOKEN"], user="0").output
        assert stat == f"{user} 400\n".encode()
        assert found.exec_run(["cat", "/gb10/secrets/HF_TOKEN"], user="1234").exit_code == 1
        assert "hf_secret" not in str(found.attrs)
        environment = found.exec_run(["cat", f"/proc/{server_in(found)}/environ"]).output
        assert b"HF_TOKEN=hf_secret" in environment
    ran("stop", "--all")


def server_in(found: Container) -> str:
    """The number of the server's process, inside of its container."""
    script = "for f in /proc/[0-9]*; do echo ${f#/proc/} $(tr '\\0' ' ' <$f/cmdline); done"
    output = found.exec_run(["sh", "-c", script]).output
    assert isinstance(output, bytes)
    rows = [line.split() for line in output.decode().splitlines()]
    return next(row[0] for row in rows if len(row) > 2 and row[1].endswith("python3") and "vllm" in row[2])


def test_the_loser_of_two_runs_reads_who_was_first(engine: Engine, tmp_path: Path) -> None:
    path = str(recipe(tmp_path, "slow"))
    loaded = load_model_recipe(Path(path).read_text(encoding="utf-8"), path)
    nodes = nodes_by_name(())
    service = service_of(
        name="slow",
        model="m",
        rendered=render_recipe(loaded, RenderRequest()),
        nodes=nodes,
        mods=(),
        settings=ContainerSettings(gpus=False),
    )
    options = container_options(service, service.ranks[0])
    kept = create_container(engine, options, {})
    images = {"localhost": require_image(engine, IMAGE)}
    with (
        pytest.raises(
            ServeError, match="another run of slow was first: it made the container gb10-slow-0 on localhost"
        ),
        started(service, {"localhost": engine}, images, (), {}, reporter=Reporter({})),
    ):
        pass
    assert container_state(engine, kept) is not None
    end_container(engine, kept, patience=0)
    create_container(engine, replace(options, labels={}), {})
    with (
        pytest.raises(ServeError, match="that gb10 did not make"),
        started(service, {"localhost": engine}, images, (), {}, reporter=Reporter({})),
    ):
        pass


@pytest.mark.slow
def test_two_runs_at_once_give_one_service_and_the_truth(engine: Engine, tmp_path: Path) -> None:
    call = [sys.executable, "-I", str(ROOT / "build.py"), "run", str(recipe(tmp_path, "slow")), *CPU, "--detach"]
    children = [
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(3)
    ]
    ends = [(child.communicate(timeout=120), child.returncode) for child in children]
    said = "\n".join(texts[1] for texts, _ in ends)
    assert [code for _, code in ends].count(0) >= 1, said
    assert "did not make" not in said
    assert containers(engine) == ["gb10-slow-0"]


@pytest.mark.slow
def test_docker_starts_it_again_after_a_crash_and_after_a_power_cut(second: Engine, tmp_path: Path) -> None:
    nodes = nodes_of(second)
    ran("run", str(recipe(tmp_path, "small")), *CPU, *nodes, "--detach", "--restart")
    before = pid_in(second, "gb10-small-0", "vllm")
    os.kill(before, signal.SIGKILL)
    until(lambda: healthy(*nodes) and pid_in(second, "gb10-small-0", "vllm") != before, "the second start")
    kill(second)
    down(store_of(second))  # what a power cut ends, too: containers
    wake(second)
    until(lambda: healthy(*nodes), "the third start")
    assert ran("stop", "small", *nodes).count("gb10-small-0") == 1


def healthy(*nodes: str) -> bool:
    """Whether the services of nodes are well."""
    try:
        return '"healthy": true' in ran("status", *nodes, "--json")
    except AssertionError:
        return False


def test_docker_does_not_start_one_rank_of_several_again(tmp_path: Path) -> None:
    path = str(recipe(tmp_path, "pair", nodes=2))
    code, words = failed("run", path, *CPU, "--restart", "--nodes", "a,b")
    assert (code, "--restart is for one node: Docker would start a rank without the others" in words) == (2, True)


def test_what_cannot_start_says_why_and_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    path = str(recipe(tmp_path, "small"))
    code, words = failed("run", path, "--image", "gb10/none:1", *CPU)
    assert (code, "the image is not on this machine\n  localhost: no image gb10/none:1" in words) == (2, True)
    code, words = failed("run", path)
    assert (code, "Install NVIDIA's container toolkit there" in words) == (12, True)
    ran("run", path, *CPU, "--detach")
    code, words = failed("run", path, *CPU, "--detach", "--name", "other")
    assert (code, "is taken by the service small" in words) == (2, True)
    code, words = failed("run", path, *CPU, "--nodes", "unix:///nowhere.sock")
    assert code == 7
    ran("stop", "--all")
    assert containers(engine) == []


@pytest.mark.slow
def test_a_recipe_is_launched_to_be_compared_and_ended(engine: Engine, tmp_path: Path) -> None:
    """`bench compare` and `bench matrix` start recipes as `run` does, each launch anew."""
    path, folder = recipe(tmp_path, "fast"), tmp_path / "out"
    tokenizer = write_byte_tokenizer(tmp_path / "tokenizer.json")
    load = ["--pp", "60", "--tg", "90", "-c", "2", "--runs", "1", "--warm-up", "0", "--canary-tokens", "64"]
    asked = ["bench", "compare", "--recipe", str(path), "", "args='--served-model-name twin'", "--launches", "1", *CPU]
    ran(*asked, *load, "--tokenizer", str(tokenizer), "--out", str(folder))
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    launches = [one for side in "AB" for one in found["sides"][side]["launches"]]
    assert [one["result"] for one in launches] == ["STABLE", "STABLE"]
    assert {one["facts"]["image"] for one in launches} == {IMAGE}
    assert all(one["facts"]["digest"]["localhost"].startswith("sha256:") for one in launches)
    assert "--served-model-name twin" in launches[1]["facts"]["command"]["localhost"]
    assert "model differs: org/fast with A, twin with B" in found["doubts"]
    assert containers(engine) == []


def test_a_row_whose_server_dies_has_the_line_that_tells_why(engine: Engine, tmp_path: Path) -> None:
    axes, folder = tmp_path / "axes.yaml", tmp_path / "out"
    axes.write_text(
        f"recipe: {recipe(tmp_path, 'small')}\naxes:\n  name:\n    dies: {{args: --served-model-name dies}}\n"
        "    unknown: {nothing: 1}\n",
        encoding="utf-8",
    )
    tokenizer = write_byte_tokenizer(tmp_path / "tokenizer.json")
    code, words = failed("bench", "matrix", str(axes), *CPU, "--tokenizer", str(tokenizer), "--out", str(folder))
    assert (code, "no row is stable" in words) == (9, True)
    dies, unknown = json.loads((folder / "result.json").read_text(encoding="utf-8"))["rows"]
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" in dies["cause"]
    assert unknown["result"] == "FAIL"
    assert "nothing" in unknown["why"] + unknown["cause"]
    assert containers(engine) == []


HOST_SIDE = """executor_config:
  volumes: [{data}:/data, gb10-test-kv:/kv]
  devices: [/dev/fuse]
  cap_add: [SYS_PTRACE]
  ulimit: [nofile=4096:8192]
  ipc: private
  shm_size: 96m
  labels: {{team: a}}
gb10:
  host: {{hostname: spark-a, cpuset: "0", extra_hosts: [hub.local:10.0.0.2]}}
"""


def test_a_service_gets_of_its_host_what_the_recipe_asks(engine: Engine, tmp_path: Path) -> None:
    """Each entry of the file is seen from inside the container; a folder of a model is read-only, one that is nowhere
    is left out."""
    (tmp_path / "data").mkdir()
    (tmp_path / "models/m").mkdir(parents=True)
    (tmp_path / "models/m/config.json").write_text("{}\n", encoding="utf-8")
    path = recipe(tmp_path, "host", more=HOST_SIDE.format(data=tmp_path / "data"))
    model = str(tmp_path / "models/m")
    path.write_text(path.read_text(encoding="utf-8").replace("org/host", model), encoding="utf-8")
    planned = called("run", str(path), *CPU, "--dry-run", "--", "--revision", "x")
    assert f"read at start: whether localhost has {model}" in planned[2]
    assert f"--mount type=bind,source={model},target={model},readonly" in planned[1]
    ran("run", str(path), *CPU, "--detach")
    script = f"""
    touch /data/written && ! touch {model}/x 2>/dev/null && cat {model}/config.json && touch /kv/x
    test -c /dev/fuse && ulimit -n && hostname && grep Cpus_allowed_list /proc/1/status && grep hub.local /etc/hosts
    grep CapEff /proc/1/status && df -k /dev/shm | tail -1
    """
    with closing(client(engine)) as sdk:
        container = sdk.containers.get("gb10-host-0")
        code, output = container.exec_run(["bash", "-ec", script])
        labels = container.labels
        volumes = {one.name for one in sdk.volumes.list()}
    assert code == 0, output
    assert isinstance(output, bytes)
    words = output.decode().split()
    assert words[:3] == ["{}", "4096", "spark-a"]
    assert words[words.index("Cpus_allowed_list:") + 1] == "0"
    assert words[words.index("hub.local") - 1] == "10.0.0.2"
    assert int(words[words.index("CapEff:") + 1], 16) >> 19 & 1, "SYS_PTRACE is capability 19"
    assert str(96 << 10) in words
    assert labels["team"] == "a"
    assert "gb10-test-kv" in volumes
    assert (tmp_path / "data/written").is_file()
    assert json.loads(ran("run", str(path), *CPU, "--detach", "--json"))["unchanged"] is True
    ran("stop", "host")
    with closing(client(engine)) as sdk:
        sdk.volumes.get("gb10-test-kv").remove()
    (tmp_path / "models").rename(tmp_path / "gone")
    code, _, said = called("run", str(path), *CPU, "--detach")
    assert f"no node has {model}: it is not mounted, and the image must hold it" in said
    assert code == 0, said  # the stand-in reads no model
    ran("stop", "host")


def test_a_folder_that_leads_elsewhere_is_not_given_to_a_recipe_of_others(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    theirs, allowed, secret = (tmp_path / name for name in ("theirs", "allowed", "secret"))
    for folder in (theirs, allowed / "plain", secret):
        folder.mkdir(parents=True)
    (allowed / "link").symlink_to(secret)
    (allowed / "near").symlink_to(allowed / "plain")
    for name, place in (("far", "link"), ("near", "near"), ("none", "nothing")):
        path = recipe(theirs, name, more=f"executor_config: {{volumes: [{allowed / place}:/data]}}")
        text = path.read_text(encoding="utf-8").replace(IMAGE, "vllm/vllm-openai:v0.33.0")
        path.write_text(text, encoding="utf-8")
    ran("recipe", "add", str(theirs))
    how = (*CPU, "--image", IMAGE, "--detach", "--trust", "--allow-path", str(allowed))
    code, words = failed("run", "@theirs/far", *how)
    assert (code, f"{allowed / 'link'} leads to {secret}, which you have not allowed" in words) == (2, True), words
    code, words = failed("run", "@theirs/none", *how)
    assert (code, f"localhost: no {allowed / 'nothing'}" in words) == (2, True), words
    assert containers(engine) == []
    ran("run", "@theirs/near", *how)
    with closing(client(engine)) as sdk:
        mounts = sdk.containers.get("gb10-near-0").attrs["HostConfig"]["Mounts"]
    assert [one["Source"] for one in mounts] == [str(allowed / "plain")]
    ran("stop", "near")
