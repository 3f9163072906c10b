"""How a container runs: the words of ``docker run``, and the request that Docker's own SDK makes."""

from dataclasses import replace
from typing import Any

import pytest
from docker.models.containers import _create_container_args  # type: ignore[attr-defined] # not in its types

from gb10.containers.container_options import (
    ContainerOptions,
    HostAccess,
    HostMount,
    command_words,
    docker_call,
    run_words,
)
from gb10.containers.docker_containers import ContainerState, _arguments

PLAIN = ContainerOptions(
    image="registry.example/me/vllm:1",
    name="gb10-x-0",
    command=("/bin/sh", "-c", "serve"),
    environment={"A": "b"},
    labels={"l": "1"},
    gpus=False,
)
WHOLE = ContainerOptions(
    image="me/vllm:1",
    name="gb10-x-0",
    command=("serve",),
    environment={},
    labels={},
    volumes={"cache": "/cache"},
    mounts={"/models": "/m"},
    memory=1 << 30,
    oom_score_adj=500,
    devices=("/dev/infiniband/uverbs0",),
    memlock=True,
    restart=True,
    platform="linux/arm64",
)


def request(options: ContainerOptions) -> dict[str, Any]:
    """The body of the SDK's request to the engine."""
    made: dict[str, Any] = _create_container_args({"image": options.image, "version": "1.45", **_arguments(options)})
    return made


def test_a_plain_container() -> None:
    assert run_words(PLAIN) == (
        *("--name", "gb10-x-0", "--pull", "missing", "--ipc", "host", "--network", "host"),
        *("--oom-score-adj", "0", "--env", "A=b", "--label", "l=1", "--entrypoint", "/bin/sh"),
    )
    assert command_words(PLAIN) == ("registry.example/me/vllm:1", "-c", "serve")
    assert docker_call(PLAIN) == ("docker", "run", "--detach", *run_words(PLAIN), *command_words(PLAIN))
    host = request(PLAIN)["host_config"]
    for absent in ("DeviceRequests", "Devices", "Ulimits", "Memory", "MemorySwap", "RestartPolicy", "Mounts"):
        assert not host.get(absent), absent


def test_every_option_has_its_word_and_its_field() -> None:
    words = " ".join(run_words(WHOLE))
    for part in (
        "--pull never --platform linux/arm64 --gpus all",
        "--memory 1073741824 --memory-swap 1073741824 --oom-score-adj 500",
        "--ulimit memlock=-1:-1 --restart unless-stopped",
        "--device /dev/infiniband/uverbs0:/dev/infiniband/uverbs0:rwm",
        "--volume cache:/cache --mount type=bind,source=/models,target=/m,readonly",
    ):
        assert part in words
    made = request(WHOLE)
    host = made["host_config"]
    assert made["platform"] == "linux/arm64"
    assert (host["Memory"], host["MemorySwap"], host["OomScoreAdj"]) == (1 << 30, 1 << 30, 500)
    assert host["DeviceRequests"] == [
        {"Driver": "", "Count": -1, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}
    ]
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert host["RestartPolicy"] == {"Name": "unless-stopped"}
    assert host["Binds"] == ["cache:/cache:rw"]
    assert host["Mounts"] == [{"Target": "/m", "Source": "/models", "Type": "bind", "ReadOnly": True}]
    device = {"PathOnHost": "/dev/infiniband/uverbs0", "PathInContainer": "/dev/infiniband/uverbs0"}
    assert host["Devices"] == [{**device, "CgroupPermissions": "rwm"}]
    assert (host["IpcMode"], host["NetworkMode"]) == ("host", "host")


ASKED = HostAccess(
    mounts=(
        HostMount(source="/data", target="/d"),
        HostMount(source="/weights", target="/w", read_only=True),
        HostMount(source="kv", target="/kv"),
        HostMount(source="shared", target="/s", read_only=True),
    ),
    devices=("/dev/dri:/dev/dri:rwm", "/dev/infiniband/uverbs0:/dev/infiniband/uverbs0:rwm"),
    cap_add=("SYS_NICE",),
    security_opt=("no-new-privileges",),
    privileged=True,
    user="1000:1000",
    ulimits={"memlock": (1, 2), "nofile": (65535, 65535)},
    ipc="private",
    shm_size=1 << 30,
    cpuset="0-9",
    hostname="spark",
    extra_hosts={"hub.local": "10.0.0.2"},
    labels={"l": "theirs", "team": "a"},
)


def test_what_a_recipe_asks_of_the_host_has_its_word_and_its_field() -> None:
    """The recipe's limit wins over ours, our label over the recipe's, and a device of both is given once."""
    options = replace(WHOLE, host=ASKED, labels={"l": "ours"})
    words = " ".join(run_words(options))
    for part in (
        "--ipc private --shm-size 1073741824 --network host",
        "--ulimit memlock=1:2 --ulimit nofile=65535:65535",
        "--privileged --user 1000:1000 --cpuset-cpus 0-9 --hostname spark --cap-add SYS_NICE",
        "--security-opt no-new-privileges --add-host hub.local:10.0.0.2",
        "--device /dev/infiniband/uverbs0:/dev/infiniband/uverbs0:rwm --device /dev/dri:/dev/dri:rwm --volume",
        "--volume cache:/cache --volume kv:/kv --volume shared:/s:ro",
        "--mount type=bind,source=/models,target=/m,readonly --mount type=bind,source=/data,target=/d --mount",
        "--mount type=bind,source=/weights,target=/w,readonly",
        "--label l=ours --label team=a",
    ):
        assert part in words, part
    made = request(options)
    host = made["host_config"]
    assert host["Binds"] == ["cache:/cache:rw", "kv:/kv:rw", "shared:/s:ro"]
    assert [(one["Source"], one["ReadOnly"]) for one in host["Mounts"]] == [
        ("/models", True),
        ("/data", False),
        ("/weights", True),
    ]
    assert [one["PathOnHost"] for one in host["Devices"]] == ["/dev/infiniband/uverbs0", "/dev/dri"]
    assert [(one["Name"], one["Soft"], one["Hard"]) for one in host["Ulimits"]] == [
        ("memlock", 1, 2),
        ("nofile", 65535, 65535),
    ]
    assert (host["IpcMode"], host["ShmSize"], host["Privileged"]) == ("private", 1 << 30, True)
    assert (host["CpusetCpus"], host["CapAdd"], host["SecurityOpt"]) == ("0-9", ["SYS_NICE"], ["no-new-privileges"])
    assert host["ExtraHosts"] == ["hub.local:10.0.0.2"]
    assert (made["user"], made["hostname"]) == ("1000:1000", "spark")
    assert made["labels"] == {"l": "ours", "team": "a"}


@pytest.mark.parametrize(
    ("image", "pull"),
    [
        ("vllm:1", "never"),
        ("me/vllm:1", "never"),
        ("ghcr.io/me/vllm:1", "missing"),
        (f"me/vllm@sha256:{'0' * 64}", "missing"),
    ],
)
def test_a_name_without_a_registry_is_not_pulled(image: str, pull: str) -> None:
    options = ContainerOptions(image=image, name="x", command=("serve",), environment={}, labels={})
    assert options.pull == pull


@pytest.mark.parametrize(("status", "runs"), [("running", True), ("exited", False), ("dead", False), ("created", True)])
def test_a_container_runs_or_not(status: str, runs: bool) -> None:
    assert ContainerState(id="1", name="x", image="", status=status, labels={}).runs is runs
