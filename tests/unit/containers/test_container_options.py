"""How a container runs: the words of ``docker run``, and the request that Docker's own SDK makes."""

from typing import Any

import pytest
from docker.models.containers import _create_container_args  # type: ignore[attr-defined] # not in its types

from gb10.containers.container_options import ContainerOptions, command_words, docker_call, run_words
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
