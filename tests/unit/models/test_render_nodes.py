"""What each of several nodes runs, by runtime; and what is said when their number does not fit."""

import pytest

from gb10.models.load.loading import load_model_recipe
from gb10.models.render.nodes import PORT, REPLICA_PORT
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe


def rendered(command: str, nodes: str = "", runtime: str = "", **defaults: object) -> RenderedRecipe:
    sizes = "".join(f", {name}: {value}" for name, value in defaults.items())
    lines = ["model: org/m", "container: image:1", f"defaults: {{port: 8000{sizes}}}", f"command: {command}"]
    text = "\n".join([*lines, *([f"runtime: {runtime}"] if runtime else [])])
    return render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(nodes=tuple(nodes)))


def options(rendered: RenderedRecipe) -> list[str]:
    """What each rank has behind the recipe's own command, in its order."""
    return [" ".join(rank.command.split()) for rank in rendered.ranks]


VLLM = "vllm serve {model} --port {port} -tp {tensor_parallel}"
SGLANG = "python3 -m sglang.launch_server --model-path {model} --port {port} --tp {tensor_parallel}"


def test_vllm_has_a_head_and_workers_without_an_api() -> None:
    first, second = options(rendered(VLLM, "ab", tensor_parallel=2))
    assert first.endswith(f" --nnodes 2 --node-rank 0 --master-addr a --master-port {PORT}")
    assert second.endswith(f" --nnodes 2 --node-rank 1 --master-addr a --master-port {PORT} --headless")


def test_replicas_of_vllm_that_span_nodes_have_heads_of_their_own() -> None:
    found = options(rendered(VLLM, "abcd", tensor_parallel=2, data_parallel=2))
    parts = [words.partition(" --nnodes 2 ")[2].split(" --data-parallel-size")[0] for words in found]
    assert parts == [
        f"--node-rank 0 --master-addr a --master-port {PORT}",
        f"--node-rank 1 --master-addr a --master-port {PORT} --headless",
        f"--node-rank 0 --master-addr c --master-port {PORT}",
        f"--node-rank 1 --master-addr c --master-port {PORT} --headless",
    ]
    assert [words.partition("--data-parallel-rank ")[2][0] for words in found] == ["0", "0", "1", "1"]
    assert all(f"--data-parallel-address a --data-parallel-rpc-port {REPLICA_PORT}" in words for words in found)


def test_a_command_that_has_its_number_of_replicas_keeps_it() -> None:
    own = f"{VLLM} --data-parallel-size {{data_parallel}}"
    for words in options(rendered(own, "ab", tensor_parallel=1, data_parallel=2)):
        assert words.count("--data-parallel-size") == 1
        assert "--nnodes" not in words
    for words in options(rendered(VLLM, "ab", tensor_parallel=1, data_parallel=2)):
        assert words.count("--data-parallel-size 2") == 1


def test_a_port_of_the_recipe_is_kept() -> None:
    found = rendered(VLLM, "ab", tensor_parallel=1, data_parallel=2, data_parallel_rpc_port=7777)
    assert all("--data-parallel-rpc-port 7777" in words for words in options(found))
    assert found.meeting == ()


def test_sglang_has_one_address_for_all_nodes() -> None:
    found = options(rendered(SGLANG, "abc", tensor_parallel=3))
    for rank, words in enumerate(found):
        assert words.endswith(f"--tp 3 --dist-init-addr a:{PORT} --nnodes 3 --node-rank {rank}")


def test_replicas_of_sglang_on_one_node_each_meet_nobody() -> None:
    found = options(rendered(SGLANG, "ab", tensor_parallel=1, data_parallel=2))
    assert found == [SGLANG.format(model="org/m", port=8000, tensor_parallel=1)] * 2


def test_llama_lends_the_gpus_of_all_nodes_but_the_first() -> None:
    found = rendered("llama-server -hf {model}", "abc", "llama-cpp", tensor_parallel=3)
    head, *workers = options(found)
    (port,) = found.meeting
    assert head.endswith(f"--rpc b:{port},c:{port}")
    assert workers == [f"rpc-server --host 0.0.0.0 --port {port}"] * 2


@pytest.mark.parametrize("runtime", ["atlas", "tokenary"])
def test_ranks_of_others_know_the_world(runtime: str) -> None:
    found = options(rendered("serve {model}", "ab", runtime, tensor_parallel=2))
    for rank, words in enumerate(found):
        assert f"--rank {rank} --world-size 2 --master-addr a --master-port {PORT}" in words
    if runtime == "tokenary":
        assert ["--server --port 8000" in words for words in found] == [True, False]
        assert all("--tp-size 2" in words for words in found)


def codes(found: RenderedRecipe) -> set[str]:
    return {issue.code for issue in found.issues}


def test_the_number_of_nodes_fits_or_is_said() -> None:
    assert "nodes-not-named" in codes(rendered(VLLM, "", tensor_parallel=2))
    assert "too-few-nodes" in codes(rendered(VLLM, "a", tensor_parallel=2))
    few = rendered(VLLM, "abc", tensor_parallel=2)
    assert "unused-nodes" in codes(few)
    assert [rank.host for rank in few.ranks] == ["a", "b"]
    exact = rendered(VLLM, "ab", tensor_parallel=2)
    alone = rendered(VLLM, "", tensor_parallel=1)
    assert not {"nodes-not-named", "too-few-nodes", "unused-nodes"} & (codes(exact) | codes(alone))


@pytest.mark.parametrize(
    ("command", "runtime", "sizes", "ports"),
    [
        (VLLM, "", {"tensor_parallel": 2}, (PORT,)),
        (VLLM, "", {"tensor_parallel": 1, "data_parallel": 2}, (REPLICA_PORT,)),
        (SGLANG, "", {"tensor_parallel": 2}, (PORT,)),
    ],
)
def test_the_ports_by_which_nodes_meet(
    command: str, runtime: str, sizes: dict[str, int], ports: tuple[int, ...]
) -> None:
    assert rendered(command, "ab", runtime, **sizes).meeting == ports
