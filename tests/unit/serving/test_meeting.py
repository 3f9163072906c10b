"""The ports by which the ranks of services meet: another one for each API, moved on where one is taken."""

import io
import re
import socket
from contextlib import redirect_stderr
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from gb10.cli import main
from gb10.core.reporter import Reporter
from gb10.core.ssh import ssh_host
from gb10.errors import EngineError, Gb10Error, UsageError
from gb10.models.load.loading import load_model_recipe
from gb10.models.render.nodes import BLOCKS, LLAMA_PORT, PORT, REPLICA_PORT, Meeting, api_port
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import PORT as RAY_PORT
from gb10.models.render.rendering import render_recipe
from gb10.serving.run import ports
from gb10.serving.run.existing import Found
from gb10.serving.run.ports import check_port, on_free_ports, ports_of
from gb10.serving.run.service import ContainerSettings, Service, service_of
from gb10.serving.run.service_nodes import nodes_of

VLLM = "command: vllm serve {model} --port {port} -tp {tensor_parallel}\n"
KINDS = {
    "vllm": VLLM,
    "replicas": "command: vllm serve {model} --port {port} -dp 2\n",
    "ray": "runtime: vllm-ray\n" + VLLM,
    "sglang": "command: python3 -m sglang.launch_server --model-path {model} --port {port} --tp {tensor_parallel}\n",
    "llama": "runtime: llama-cpp\ncommand: llama-server -hf {model} --port {port}\n",
    "version 1": "recipe_version: '1'\nname: n\ndescription: d\n" + VLLM.replace("{model}", "org/model"),
}


def rendered(kind: str, port: int, *arguments: str, **change: object) -> RenderedRecipe:
    sizes = "data_parallel: 2" if kind == "replicas" else "tensor_parallel: 2"
    text = f"model: org/model\ncontainer: image:1\ndefaults: {{port: {port}, {sizes}}}\n{KINDS[kind]}"
    request = replace(RenderRequest(nodes=("a", "b"), arguments=arguments), **change)  # type: ignore[arg-type]
    found = render_recipe(load_model_recipe(text, "x.yaml"), request)
    assert len(found.ranks) == 2, found.issues
    return found


@pytest.mark.parametrize("first", [PORT, REPLICA_PORT, LLAMA_PORT, RAY_PORT, 29501])
def test_no_two_ports_of_apis_give_the_same_meeting_port(first: int) -> None:
    """Of all that exist; each of its own kind, so that a server without root may open it."""
    for low, high in BLOCKS:
        ports = [Meeting(api).port(first) for api in range(low, high + 1)]
        assert len(set(ports)) == len(ports)
        assert (min(ports), max(ports)) == (low, high)
        assert all(api != port for api, port in zip(range(low, high + 1), ports, strict=True))


def test_what_a_peer_has_for_every_service_is_ours_for_one_at_8000() -> None:
    assert [Meeting(8000).port(first) for first in (PORT, REPLICA_PORT, 29501)] == [25000, 13345, 29501]
    assert Meeting(None, 3).port(PORT) == PORT


@pytest.mark.parametrize("kind", KINDS)
def test_services_at_any_two_ports_meet_elsewhere_whatever_renders_them(kind: str) -> None:
    found = [rendered(kind, port) for port in (8000, 8001, 9000, 10000, 30000, 18000, 443, 40000)]
    meeting = [port for one in found for port in one.meeting]
    assert len(set(meeting)) == len(meeting) >= 8
    for one in found:
        for port in one.meeting:
            assert any(re.search(rf"[ :]{port}\b", rank.command) for rank in one.ranks)
    moved = rendered(kind, 8000, step=1)
    assert [new - old for new, old in zip(moved.meeting, found[0].meeting, strict=True)] == [1] * len(moved.meeting)


@pytest.mark.parametrize(("peer", "port"), [("sparkrun", 25000), ("eugr", 29501)])
def test_the_form_of_a_peer_keeps_the_peers_port(peer: str, port: int) -> None:
    for api in (8000, 9000, 30000):
        found = rendered("version 1" if peer == "eugr" else "vllm", api, peer=peer)
        assert f"--master-port {port}" in found.ranks[1].command


def test_the_last_port_counts_as_its_engine_reads_it() -> None:
    assert rendered("vllm", 8000, "--port", "9000").meeting == rendered("vllm", 9000).meeting
    assert rendered("ray", 8000, "--port=9000").meeting == rendered("ray", 9000).meeting
    assert api_port("vllm serve m --port 8000 --port '9001'", "vllm") == 9001
    assert api_port("vllm serve m --port 99999", "vllm") == 8000
    assert api_port("sglang serve --model-path m", "sglang") == 30000


def service(step: int = 0) -> Service:
    nodes = nodes_of(("localhost", "unix:///run/other.sock"))
    found = rendered("vllm", 8000, step=step)
    return service_of(name="x", model="m", rendered=found, nodes=nodes, mods=(), settings=ContainerSettings())


def test_a_port_that_is_taken_is_passed_over_and_said() -> None:
    said = io.StringIO()
    with socket.create_server(("", 0)) as held, redirect_stderr(said):
        port = held.getsockname()[1]
        assert port in ports_of("localhost")
        asked = replace(service(), meeting=(port,))
        found = on_free_ports(Reporter({}), asked, lambda step: replace(asked, meeting=(port + step,)))
    assert found.meeting[0] > port
    assert f"port {port} is taken on localhost, so the ranks meet at {found.meeting[0]}" in said.getvalue()


def test_the_port_of_the_api_is_no_place_to_meet_and_one_node_meets_nobody() -> None:
    asked = replace(service(), port=25000)
    assert on_free_ports(Reporter({}), asked, lambda step: replace(service(step), port=25000)).meeting != (25000,)
    alone = replace(asked, meeting=())
    assert on_free_ports(Reporter({}), alone, lambda step: alone) is alone


def test_when_no_port_is_free_that_is_an_error() -> None:
    with socket.create_server(("", 0)) as held:
        asked = replace(service(), meeting=(held.getsockname()[1],))
        with pytest.raises(UsageError, match="no port is free for the ranks of x to meet"):
            on_free_ports(Reporter({}), asked, lambda step: asked)


@pytest.mark.parametrize("host", ["2", "02", "me@3", "ssh://4:22", "5:22"])
def test_a_number_is_no_machine(host: str) -> None:
    assert ssh_host(host) is None


@pytest.mark.parametrize(
    "verb",
    [("run", "qwen3-0.6b", "--dry-run"), ("stop", "x"), ("status",), ("logs", "x"), ("recipe", "render", "qwen3-0.6b")],
)
def test_a_number_of_nodes_is_answered_by_what_to_write(verb: tuple[str, ...]) -> None:
    said = io.StringIO()
    with redirect_stderr(said):
        assert main([*verb, "--nodes", "2"]) == 2
    assert "hint: name each of them, the head first: --nodes HEAD,WORKER" in said.getvalue()


def test_a_service_at_a_port_that_is_taken_names_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "listens", lambda *place: place in {("127.0.0.1", 8000), ("192.0.2.1", 8001)})
    first, *others = service().ranks

    def at(client: str, port: int) -> Service:
        node = replace(first.node, client=client, address="192.0.2.1")
        return replace(service(), port=port, ranks=(replace(first, node=node), *others))

    labels = [("none", "http://elsewhere"), ("mine", at("", 8001).endpoint)]
    found = [cast("Found", SimpleNamespace(labels=SimpleNamespace(service=name, endpoint=at))) for name, at in labels]
    for known, message, hint in (
        (found, "port 8001 of 192.0.2.1 is taken by the service mine", "./build.py stop mine"),
        (found[:1], "port 8001 of 192.0.2.1 is taken", "--set port=N"),
    ):
        with pytest.raises(UsageError) as caught:
            check_port(at("", 8001), known)
        assert caught.value.message == message
        assert (caught.value.hint or "").startswith(hint if hint.startswith("--") else f"stop it ({hint})")
    with pytest.raises(UsageError, match=r"port 8000 of 127\.0\.0\.1 is taken"):
        check_port(at("127.0.0.1", 8000), found)
    check_port(at("127.0.0.1", 8001), found)
    check_port(at("", 8000), found)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EngineError("no way", where="ssh:\n  timed out"), "ssh: timed out"),
        (EngineError("no way"), "no way"),
        (UsageError("x" * 300), "x" * 200),
    ],
)
def test_a_node_whose_ports_cannot_be_read_is_said(
    error: Gb10Error, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"localhost": error, "me@b": frozenset({7001})}
    monkeypatch.setattr(ports, "each_machine", lambda hosts, _: {host: answers[host] for host in hosts})
    nodes = nodes_of(("localhost", "me@b"))
    asked = replace(service(), meeting=(7001, 7002), ranks=service().ranks)
    asked = replace(asked, ranks=tuple(replace(rank, node=node) for rank, node in zip(asked.ranks, nodes, strict=True)))
    said = io.StringIO()
    with redirect_stderr(said):
        found = on_free_ports(Reporter({}), asked, lambda step: replace(asked, meeting=(7001 + step, 7002 + step)))
    assert found.meeting == (7002, 7003)
    first, second = said.getvalue().splitlines()
    assert first.endswith(f"localhost: not looked at whether port 7001, 7002 is free there: {reason}")
    assert second.endswith("port 7001 is taken on me@b, so the ranks meet at 7002, 7003")
