"""What a service is, how its containers are labelled, why it ended; the first process of its containers, for real."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.connection import EngineHost, seconds_of
from gb10.containers.docker_containers import ContainerState
from gb10.containers.images import ImageInfo
from gb10.errors import UsageError
from gb10.models.load.loading import load_model_recipe
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.run.existing import Found, check_memory, runs_unchanged
from gb10.serving.run.service import (
    SCRIPT,
    ContainerSettings,
    Service,
    container_options,
    curl_line,
    labels_of,
    launch_files,
    read_labels,
    secret_files,
    server_line,
    service_of,
)
from gb10.serving.run.service_nodes import Node, address_of, nodes_of, parse_nodes
from gb10.serving.run.watching import cause_of, ending_of
from tests.hang import PATIENCE

RECIPE = """\
model: org/model
container: gb10/vllm:1
defaults: {port: 9000, tensor_parallel: 2}
env: {A: b}
command: vllm serve {model} --port {port} -tp {tensor_parallel}
"""


def service(text: str = RECIPE, *hosts: str, name: str = "name", options: ContainerSettings | None = None) -> Service:
    nodes = nodes_of(hosts or ("me@one", "ssh://me@two:22"))
    request = RenderRequest(nodes=tuple(node.address for node in nodes))
    recipe = load_model_recipe(text, "name.yaml")
    rendered = render_recipe(recipe, request)
    return service_of(
        name=name, model=recipe.model, rendered=rendered, nodes=nodes, mods=(), settings=options or ContainerSettings()
    )


def test_each_node_runs_its_rank_and_meets_the_head_by_address() -> None:
    found = service()
    assert found.hosts == ("me@one", "ssh://me@two:22")
    assert (found.endpoint, found.model, found.runtime) == ("http://one:9000", "org/model", "vllm-distributed")
    assert "--nnodes 2 --node-rank 1 --master-addr one" in found.ranks[1].container.command


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("me@spark", "spark"),
        ("ssh://me@spark:2222/run/docker.sock", "spark"),
        ("10.0.0.1", "10.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("unix:///run/docker.sock", "127.0.0.1"),
        ("me@fe80::1", "fe80::1"),
        ("tcp://10.0.0.5:2375", "10.0.0.5"),
    ],
)
def test_what_the_others_call_a_node(host: str, address: str) -> None:
    assert address_of(host) == address


def test_a_node_twice_and_odd_names_are_refused() -> None:
    with pytest.raises(UsageError, match="named twice"):
        parse_nodes({}, "a,a")
    with pytest.raises(UsageError, match="cannot be the name"):
        service(name="a b")


@pytest.mark.parametrize(
    ("command", "port"),
    [
        ("vllm serve {model}", 8000),
        ("vllm serve {model} --port=8011", 8011),
        ("python3 -m sglang.launch_server --model-path {model}", 30000),
        ("llama-server -m x --port '9001'", 9001),
    ],
)
def test_the_port_is_the_commands_or_the_engines(command: str, port: int) -> None:
    text = f"model: org/model\ncontainer: image:1\ncommand: {command}\n"
    assert service(text, "localhost").port == port


def test_ray_starts_on_every_node_and_the_server_when_all_have_joined() -> None:
    text = "runtime: vllm-ray\n" + RECIPE
    rendered = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(nodes=("10.0.0.1", "10.0.0.2")))
    head, worker = (rank.command for rank in rendered.ranks)
    (port,) = rendered.meeting
    assert f"ray start --head --port {port} --include-dashboard=false --node-ip-address 10.0.0.1 " in head
    assert (
        f"10.0.0.1:{port} 2 || exit\nvllm serve org/model --port 9000 -tp 2 --distributed-executor-backend ray" in head
    )
    assert f"exec ray start --block --address 10.0.0.1:{port} --node-ip-address 10.0.0.2 " in worker
    assert "--nnodes" not in head + worker
    assert [one.command for one in rendered.containers] == [head, worker]


def test_a_recipe_of_version_1_runs_by_its_scripts() -> None:
    text = (
        "recipe_version: '1'\nname: N\ncontainer: vllm-node\ncommand: vllm serve m --port {port}\ndefaults: {port: 1}\n"
    )
    found = service(text, "localhost")
    assert found.ranks[0].container.command.startswith("#!/bin/bash\n# Generated from recipe: N")
    assert (found.port, found.image) == (1, "vllm-node")


def test_labels_tell_all_and_broken_ones_tell_nothing() -> None:
    found = service(options=ContainerSettings(memory=5))
    labels = read_labels(labels_of(found, found.ranks[1]))
    assert (labels.service, labels.rank, labels.hosts, labels.memory) == ("name", 1, found.hosts, 5)
    assert (labels.endpoint, labels.digest) == (found.endpoint, found.digest)
    ours = {name.removesuffix("rank") for name in labels_of(found, found.ranks[0]) if name.endswith(".rank")}.pop()
    odd = read_labels({ours[:-1]: "x", f"{ours}rank": "9" * 40, f"{ours}hosts": "[" * 5000, f"{ours}memory": "-1"})
    assert (odd.service, odd.rank, odd.hosts, odd.memory) == ("x", -1, (), 0)


def found_ranks(found: Service, **change: object) -> list[Found]:
    states = [
        ContainerState(id=str(rank.number), name="c", image="sha256:1", status="running", labels=labels_of(found, rank))
        for rank in found.ranks
    ]
    states[-1] = replace(states[-1], **change)  # type: ignore[arg-type]
    return [
        Found(host=rank.node.host, state=state, labels=read_labels(state.labels))
        for rank, state in zip(found.ranks, states, strict=True)
    ]


@pytest.mark.parametrize(
    ("change", "same"), [({}, True), ({"status": "exited"}, False), ({"image": "sha256:2"}, False)]
)
def test_a_service_runs_unchanged_only_when_every_rank_does(change: dict[str, object], same: bool) -> None:
    wanted = service()
    images = {
        host: ImageInfo(id="sha256:1", size=0, diff_ids=(), platform="linux/arm64", tags=()) for host in wanted.hosts
    }
    assert runs_unchanged(wanted, found_ranks(wanted, **change), images) is same
    other = service(RECIPE.replace("A: b", "A: c"))
    assert not runs_unchanged(other, found_ranks(wanted, **change), images)


def test_what_was_found_on_the_nodes_makes_no_other_service() -> None:
    asked = service()
    nodes = [Node(host=host, address="10.0.0.1", environment={"NCCL_IB_HCA": "x"}) for host in asked.hosts]
    ranks = [replace(rank, node=node) for rank, node in zip(asked.ranks, nodes, strict=True)]
    started = replace(asked, ranks=tuple(ranks), asked=asked.digest)
    assert read_labels(labels_of(started, started.ranks[0])).digest == asked.digest
    assert replace(asked, mods=("x",)).digest != asked.digest


def test_services_of_one_node_share_its_memory() -> None:
    alone = RECIPE.replace("tensor_parallel: 2", "tensor_parallel: 1")
    total = {"me@one": EngineHost(machine="aarch64", memory=120 << 30, ahead=0.0, runtimes=frozenset())}
    first = found_ranks(service(alone, "me@one", options=ContainerSettings(memory=60 << 30), name="first"))
    check_memory(service(alone, "me@one", options=ContainerSettings(memory=52 << 30)), first, total)
    wanted = service(alone, "me@one", options=ContainerSettings(memory=60 << 30))
    check_memory(wanted, [], total)
    with pytest.raises(UsageError, match=r"me@one has 120\.0 GiB, and the services there may then use 120\.0 GiB"):
        check_memory(wanted, first, total)


def test_services_of_unknown_models_share_what_their_commands_claim() -> None:
    text = RECIPE.replace("tensor_parallel: 2", "tensor_parallel: 1") + "  --gpu-memory-utilization {share}\n"
    total = {"me@one": EngineHost(machine="aarch64", memory=120 << 30, ahead=0.0, runtimes=frozenset())}

    def wanted(name: str, share: float) -> Service:
        return service(text.replace("{share}", str(share)), "me@one", name=name)

    first = found_ranks(wanted("first", 0.5))
    assert first[0].labels.share == 0.5
    check_memory(wanted("second", 0.4), first, total)
    check_memory(wanted("second", 0.95), [], total)
    with pytest.raises(UsageError, match=r"may then use 114\.0 GiB"):
        check_memory(wanted("second", 0.45), first, total)


def test_a_container_has_the_limits_of_its_service() -> None:
    found = service(options=ContainerSettings(memory=1 << 30, least=3 << 20, restart=True))
    options = container_options(found, found.ranks[0])
    assert options.command[:3] == ("bash", "/gb10/run/launch.sh", "3072")
    assert (options.memory, options.restart, options.name) == (1 << 30, True, "gb10-name-0")
    assert options.oom_score_adj > 0


def test_words_count_into_a_service_only_where_no_shell_reads_its_command() -> None:
    asked = service()
    words = tuple(replace(rank, container=replace(rank.container, argv=("a", "b c"))) for rank in asked.ranks)
    started = replace(asked, ranks=words)
    assert started.digest != asked.digest
    command = container_options(started, started.ranks[0]).command
    assert command[-3:] == ("--", "a", "b c")
    assert server_line(command) == "a 'b c'"
    assert server_line(container_options(asked, asked.ranks[0]).command) == asked.ranks[0].container.command


def test_an_endpoint_is_what_clients_reach_and_ranks_meet_elsewhere() -> None:
    nodes = [Node(host=host, address=f"10.0.0.{at}", client=f"fd00::{at}") for at, host in enumerate(("a", "b"), 1)]
    rendered = render_recipe(load_model_recipe(RECIPE, "x.yaml"), RenderRequest(nodes=("10.0.0.1", "10.0.0.2")))
    found = service_of(name="x", model="m", rendered=rendered, nodes=nodes, mods=(), settings=ContainerSettings())
    assert found.endpoint == "http://[fd00::1]:9000"
    assert "--master-addr 10.0.0.1" in found.ranks[1].container.command


def test_the_file_of_a_cluster_wins_over_the_recipe_and_that_over_what_was_found() -> None:
    found, own = {"A": "found", "NCCL_NET": "IB"}, {"NCCL_NET": "Socket"}
    nodes = [Node(host=host, address=host, client=host, environment=found, own=own) for host in ("a", "b")]
    rendered = render_recipe(load_model_recipe(RECIPE, "x.yaml"), RenderRequest(nodes=("a", "b")))
    made = service_of(name="x", model="m", rendered=rendered, nodes=nodes, mods=(), settings=ContainerSettings())
    environment = made.ranks[0].container.environment
    assert (environment["A"], environment["NCCL_NET"]) == ("b", "Socket")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:00.123456789+01:00", 0.123456),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
    ],
)
def test_moments_of_an_engine(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_a_request_to_paste() -> None:
    line = curl_line("http://one:8000", "it's")
    assert line.startswith("curl http://one:8000/v1/chat/completions -H 'Content-Type: application/json' -d ")
    assert """'"'"'s""" in line


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            [
                "INFO loading",
                "(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory.",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            "(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory.",
        ),
        (
            [
                "(Worker pid=19) WARNING 11-25 07:05:05 [cpu_worker.py:114] libtcmalloc is not found in LD_PRELOAD.",
                "[W1125 07:22:36.240643957 utils.cpp:41] Warning: numa_migrate_pages failed. errno: 1 (function f)",
                "(MainProcess pid=8) ERROR 11-25 07:05:17 [multiproc_executor.py:315] Worker proc 1 died unexpectedly",
            ],
            "(MainProcess pid=8) ERROR 11-25 07:05:17 [multiproc_executor.py:315] Worker proc 1 died unexpectedly",
        ),
        (
            [
                "0.00.002.602 W srv          init: no API key is set and failed requests are not counted",
                "0.00.350.507 E llama_init_from_model: quantized V cache requires flash_attn to be enabled",
                "0.00.635.862 E srv          init: exiting due to model loading error",
                "RuntimeError: Failed to init server, please check the input params.",
            ],
            "0.00.350.507 E llama_init_from_model: quantized V cache requires flash_attn to be enabled",
        ),
        (["vllm serve: error: unrecognized arguments: --foo"], "vllm serve: error: unrecognized arguments: --foo"),
        (["bash: line 1: vllm: command not found"], "bash: line 1: vllm: command not found"),
        (["RuntimeError: Engine core initialization failed. See root cause above."] * 2, None),
        (["WARNING 11-25 07:16:33 [system_utils.py:255] failed to raise the limit: OSError", "bye"], None),
        (["/a/executor.py:152: UserWarning: Failed to get the IP address", "bye"], None),
        (["WARNING giving up: ValueError: 7", "bye"], "WARNING giving up: ValueError: 7"),
        ([f"ValueError: {'word ' * 100}"], f"ValueError: {'word ' * 57}…"),
        (["loading", "bye", ""], "bye"),
        ([], None),
    ],
)
def test_the_line_that_tells_why(lines: list[str], cause: str | None) -> None:
    assert cause_of(lines) == (cause if cause or not lines else lines[-1])


def test_endings_in_words() -> None:
    assert ending_of(99, out_of_memory=False) == "the memory guard ended it"
    assert ending_of(137, out_of_memory=True) == "it ran out of the memory that its container may use"
    assert ending_of(139, out_of_memory=False) == "it was ended by SIGSEGV"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("run", "secrets"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / "run/launch.sh")
    (tmp_path / "secrets/TOKEN").write_text("it's $HOME\n", encoding="utf-8")
    (tmp_path / "secrets/NONE").touch()
    return tmp_path / "run/launch.sh"


def launched(place: Path, least: int, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(place), str(least), command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def outcome(place: Path, least: int, command: str) -> tuple[str, int]:
    child = launched(place, least, command)
    return child.communicate(timeout=PATIENCE)[0], child.returncode


def test_the_first_process_has_the_servers_code_and_its_secrets(place: Path) -> None:
    assert outcome(place, 1, 'echo "$TOKEN ${NONE-unset}"; exit 7') == ("it's $HOME unset\n", 7)


def test_the_first_process_can_be_given_inline(place: Path) -> None:
    argv = ["bash", "-c", place.read_text(encoding="utf-8"), "/nowhere/run/launch.sh", "1", "echo ran; exit 7"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("ran\n", 7)


def test_the_first_process_starts_words_that_no_shell_reads(place: Path) -> None:
    words = ["printf", "%s\\n", "$(id)", "a b", "; exit 3", "--", ""]
    done = subprocess.run(
        ["bash", str(place), "1", "--", *words], check=False, capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.returncode) == ("$(id)\na b\n; exit 3\n--\n\n", 0)


def test_the_first_process_hands_a_signal_on_and_ends_what_is_left(place: Path, tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    with launched(
        place, 1, f"trap 'echo bye; exit 5' TERM; sleep 99 & echo $! > {kept}; while :; do sleep 0.1; done"
    ) as child:
        while not kept.exists() or not kept.read_text():
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=PATIENCE)
    assert (out.splitlines()[-1], child.returncode) == ("bye", 5)
    left = Path(f"/proc/{kept.read_text().strip()}/stat")
    for _ in range(100):
        try:
            if left.read_text().rpartition(")")[2].split()[0] == "Z":  # ended; who takes orphans has not noticed
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    raise AssertionError(left)


def test_the_first_process_ends_a_server_when_memory_runs_out(place: Path) -> None:
    out, code = outcome(place, os.sysconf("SC_PHYS_PAGES") * 8 + 2, "sleep 99")
    assert code == 99
    assert "of the node: the memory guard ends the server (rule floor: less than" in out


def test_the_first_process_waits_for_its_mods(place: Path) -> None:
    (place.parent / "hold").touch()
    with launched(place, 1, "echo ran") as child:
        time.sleep(0.3)
        assert child.poll() is None
        (place.parent / "go").touch()
        out, _ = child.communicate(timeout=PATIENCE)
    assert out == "ran\n"


def test_a_secret_is_no_file_before_the_server_starts_and_then_its_users_alone() -> None:
    assert not any("secret" in path for path in launch_files())
    assert secret_files({"HF_TOKEN": "x"}) == {"/gb10/secrets/HF_TOKEN": (b"x\n", 0o400)}
