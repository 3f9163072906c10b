"""Each sign of a container at its limits: what is just enough, and what is just not."""

from dataclasses import replace
from typing import Any

import pytest

from gb10.serving.doctor.container_checks import CONTAINER_CHECKS, ContainerState, sign_of
from gb10.serving.doctor.doctor_rule import ContainerSign
from gb10.serving.doctor.image_record import ImageRecord
from tests.doctor_trees import machine_of

GIB_IN_KIB = 1 << 20
CABLE = {"cables": {"p0": ("10.0.0.1/24", "10.0.1.1/24")}}


def shown(**fields: Any) -> ContainerState:  # noqa: ANN401 # fields of ContainerShown
    return ContainerState(name="c", host="h", **fields)


def seen(check: str, **fields: Any) -> str | None:  # noqa: ANN401
    return CONTAINER_CHECKS[check](shown(**fields))


def record(**versions: str) -> ImageRecord:
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return ImageRecord(engine="vllm", release="0.33.0", versions=named, patches=frozenset(), slim=())


@pytest.mark.parametrize(
    ("command", "hosts", "found"),
    [
        ("serve", 1, None),
        ("serve", 2, "2 nodes"),
        ("serve -tp 1", 1, None),
        ("serve -tp 2", 1, "-tp 2"),
        ("serve --tensor-parallel-size=4", 1, "--tensor-parallel-size=4"),
        ("serve --nnodes 2", 3, "3 nodes"),
        ("serve --nnodes 1", 1, None),
    ],
)
def test_several_nodes(command: str, hosts: int, found: str | None) -> None:
    assert seen("several-nodes", command=command, hosts=hosts) == found


@pytest.mark.parametrize(("gib", "found"), [(24, None), (25, "25 GiB"), (0, None)])
def test_a_large_page_cache(gib: int, found: str | None) -> None:
    machine = machine_of(look=[("cache", "Cached", str(gib * GIB_IN_KIB))])
    assert seen("page-cache-is-large", machine=machine) == found
    assert seen("page-cache-is-large") is None


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, False),
        ({"privileged": True}, True),
        ({"devices": ("/dev/infiniband/uverbs0",)}, True),
        ({"devices": ("/dev/nvidia0",)}, False),
        ({"privileged": True, "memlock": -1}, False),
        ({"privileged": True, "memlock": 65536}, True),
    ],
)
def test_locked_memory_of_what_has_rdma(fields: dict[str, Any], found: bool) -> None:
    assert (seen("memlock-is-limited", **fields) is not None) is found


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"runtime": "nvidia"}, "c"),
        ({"runtime": "runc"}, None),
        ({"runtime": "nvidia", "gpus": True}, None),
        ({"runtime": "nvidia", "privileged": True}, None),
        ({"runtime": "nvidia", "devices": ("/dev/nvidia0",)}, None),
        ({"runtime": "nvidia", "devices": ("/dev/fuse",)}, "c"),
    ],
)
def test_a_runtime_that_nobody_asks_for_a_gpu(fields: dict[str, Any], found: str | None) -> None:
    assert seen("no-gpu-requested", **fields) == found


@pytest.mark.parametrize(
    ("image", "driver", "found"),
    [
        ("13.1", "13.0", "CUDA 13.1 in the image, 13.0 in the driver"),
        ("13.0", "13.0", None),
        ("12.8", "13.0", None),
        ("13.10", "13.9", "CUDA 13.10 in the image, 13.9 in the driver"),
    ],
)
def test_an_image_above_the_driver(image: str, driver: str, found: str | None) -> None:
    machine = machine_of(look=[("smi", "-", f"CUDA Version : {driver}")])
    of_image = record(nvidia_cuda_runtime=f"{image}.5")
    assert seen("cuda-above-driver", machine=machine, record=of_image) == found
    assert seen("cuda-above-driver", machine=machine) is seen("cuda-above-driver", record=of_image) is None


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"torch": "2.9.1+cpu"}, "torch 2.9.1+cpu"),
        ({"torch": "2.9.1+cu130"}, None),
        ({"flashinfer_python": "0.6.1", "flashinfer_cubin": "0.6.1"}, None),
        ({"flashinfer_python": "0.6.1", "flashinfer_jit_cache": "0.6.1+cu130"}, None),
        (
            {"flashinfer_python": "0.6.1", "flashinfer_cubin": "0.6.0"},
            "flashinfer-python 0.6.1, flashinfer-cubin 0.6.0",
        ),
        ({}, None),
    ],
)
def test_wheels_of_two_kinds(versions: dict[str, str], found: str | None) -> None:
    assert seen("wheels-of-two-kinds", record=record(**versions)) == found
    assert seen("wheels-of-two-kinds") is None


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "no /dev/infiniband in the container"),
        ({"devices": ("/dev/infiniband/uverbs0",)}, None),
        ({"privileged": True}, None),
        ({"privileged": True, "environment": {"NCCL_IB_DISABLE": "1"}}, "NCCL_IB_DISABLE=1"),
        ({"privileged": True, "environment": {"NCCL_IB_DISABLE": "0"}}, None),
        ({"hosts": 1}, None),
    ],
)
def test_nodes_that_speak_tcp(fields: dict[str, Any], found: str | None) -> None:
    machine = machine_of(spark=CABLE)
    assert seen("nodes-without-rdma", **{"hosts": 2, "machine": machine, **fields}) == found
    assert seen("nodes-without-rdma", hosts=2) is None
    assert seen("nodes-without-rdma", hosts=2, machine=machine_of(spark={"cables": {}})) is None


@pytest.mark.parametrize(
    ("index", "found"),
    [("3", False), ("1", True), ("9", True), ("", False), ("x", False), ("00003", False), ("٣", False)],
)
def test_an_index_without_an_address(index: str, found: bool) -> None:
    machine = machine_of(spark=CABLE)
    value = seen("gid-index-is-empty", machine=machine, environment={"NCCL_IB_GID_INDEX": index})
    assert (value is not None) is found
    assert seen("gid-index-is-empty", environment={"NCCL_IB_GID_INDEX": "1"}) is None


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("rocep1s0f0", "NCCL_IB_HCA names rocep1s0f0 alone"),
        ("=rocep1s0f0:1", "NCCL_IB_HCA names rocep1s0f0 alone"),
        ("rocep1s0f0,roceP2p1s0f0", None),
        ("other", None),
        ("", None),
    ],
)
def test_one_half_of_a_port(names: str, found: str | None) -> None:
    machine = machine_of(spark=CABLE)
    assert seen("one-half-named", machine=machine, environment={"NCCL_IB_HCA": names}) == found
    assert seen("one-half-named", environment={"NCCL_IB_HCA": "rocep1s0f0"}) is None
    alone = machine_of(spark={**CABLE, "down": frozenset({"enP2p1s0f0np0"})})
    assert seen("one-half-named", machine=alone, environment={"NCCL_IB_HCA": "rocep1s0f0"}) is None


@pytest.mark.parametrize("variable", ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"])
@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("enp1s0f0np0", True),
        ("enp1", True),
        ("=enp1", False),
        ("=enp1s0f0np0", True),
        ("eth0", False),
        ("enp1,eth0", False),
        ("^eth0", True),
        ("", True),
    ],
)
def test_an_interface_that_is_not_there(variable: str, value: str, known: bool) -> None:
    found = seen("interface-unknown", machine=machine_of(spark=CABLE), environment={variable: value})
    assert (found is None) is known
    assert found is None or found.startswith(f"{variable}=")
    assert seen("interface-unknown", environment={variable: "eth0"}) is None


@pytest.mark.parametrize(
    ("name", "unread"),
    [
        ("TRTLLM_MOE_BACKEND", True),
        ("VLLM_USE_FLASHINFER_MOE_OF_NOBODY", True),
        ("VLLM_LOGGING_LEVEL", False),
        ("VLLM_OF_A_FORK", False),
    ],
)
def test_variables_that_no_engine_of_today_reads(name: str, unread: bool) -> None:
    assert seen("variable-nobody-reads", record=record(), environment={name: "1"}) == (name if unread else None)
    assert seen("variable-nobody-reads", environment={name: "1"}) is None
    assert seen("variable-nobody-reads", record=replace(record(), release=None), environment={name: "1"}) is None


@pytest.mark.parametrize(
    ("sign", "found"),
    [
        ({"command": r"--enforce-\w+"}, "--enforce-eager"),
        ({"command": "--other"}, None),
        ({"env": "NCCL_*"}, "NCCL_DEBUG"),
        ({"env": "NCCL_*", "value": "^INFO$"}, "NCCL_DEBUG"),
        ({"env": "NCCL_*", "value": "^WARN$"}, None),
        ({"env": "NCCL_X", "absent": True}, "NCCL_X is not set"),
        ({"env": "NCCL_DEBUG", "absent": True}, None),
        ({"check": "several-nodes"}, None),
    ],
)
def test_a_sign_of_a_rule(sign: dict[str, Any], found: str | None) -> None:
    container = shown(command="vllm serve m --enforce-eager", environment={"A": "1", "NCCL_DEBUG": "INFO"})
    assert sign_of(ContainerSign.model_validate(sign), container) == found
