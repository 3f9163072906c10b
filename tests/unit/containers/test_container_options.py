"""How a container runs: the words of ``docker run``, and the request that Docker's own SDK makes."""

import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.containers import _create_container_args  # type: ignore[attr-defined] # not in its types

from gb10.containers import docker_containers, images
from gb10.containers.buildx import build_cache
from gb10.containers.connection import Engine
from gb10.containers.container_options import (
    ContainerOptions,
    HostAccess,
    HostMount,
    command_words,
    docker_call,
    run_words,
)
from gb10.containers.docker_containers import (
    LONGEST_LINE,
    MOST,
    ContainerState,
    _arguments,
    container_state,
    end_container,
    file_in,
    follow,
    name_is_taken,
    serving_containers,
)
from gb10.errors import EngineError

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


ENGINE = cast("Engine", None)
"""Its answers are those of ``sdk``."""


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the engine the attributes of Docker's client."""

    def answer(**parts: object) -> None:
        @contextmanager
        def asking(_: Engine, **__: int) -> Iterator[object]:
            yield SimpleNamespace(**parts)

        for module in (docker_containers, images, build_cache):
            monkeypatch.setattr(module, "asking", asking)

    return answer


def archive(name: str = "f", content: bytes = b"text", kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.type = len(content) if kind == tarfile.REGTYPE else 0, kind
        tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("blocks", "size", "content"),
    [
        ([archive()], 4, b"text"),
        ([archive()[:300], archive()[300:]], 4, b"text"),
        ([archive(content=b"12345678")], 8, b"12345678"),
        ([archive(content=b"123456789")], 9, None),
        ([archive(content=b"123456789")], 4, None),  # its size is not what was said
        ([archive(kind=tarfile.DIRTYPE)], 4, None),
        ([archive(kind=tarfile.SYMTYPE)], 4, None),
        ([b"no archive"], 4, None),
        ([], 0, None),
        (None, 0, None),
    ],
)
def test_a_plain_file_of_a_container_is_read_up_to_a_bound(
    blocks: list[bytes] | None, size: int, content: bytes | None, sdk: Callable[..., None]
) -> None:
    def get_archive(_: str) -> tuple[Iterator[bytes], dict[str, int]]:
        if blocks is None:
            raise NotFound("no such file")
        return iter(blocks), {"size": size}

    sdk(containers=SimpleNamespace(get=lambda _: SimpleNamespace(get_archive=get_archive)))
    assert file_in(ENGINE, "c", "/f", 8) == content


def test_an_endless_archive_is_not_read_for_ever(sdk: Callable[..., None]) -> None:
    read: list[int] = []

    def blocks() -> Iterator[bytes]:
        while True:
            read.append(1)
            yield b"x" * (1 << 16)

    found = SimpleNamespace(get_archive=lambda _: (blocks(), {"size": 1}))
    sdk(containers=SimpleNamespace(get=lambda _: found))
    assert file_in(ENGINE, "c", "/f", 8) is None
    assert len(read) == 2


def inspected(identity: str, command: str, *, labels: dict[str, str] | None = None, **host: object) -> dict[str, Any]:
    return {
        "Id": identity,
        "Name": f"/{identity}",
        "Image": "sha256:1",
        "Created": "2026-11-29T00:00:00Z",
        "State": {"Status": "running", "ExitCode": 0},
        "Config": {"Image": "me/vllm:1", "Cmd": command.split(), "Env": ["A=b=c", "D"], "Labels": labels or {}},
        "HostConfig": host,
    }


def test_containers_that_serve_a_model_are_found_by_command_or_label(sdk: Callable[..., None]) -> None:
    known = {
        "a": inspected("a", "vllm serve m"),
        "b": inspected("b", "sleep 1"),
        "c": inspected("c", "sleep 1", labels={"io.github.gb10.service": "x"}),
        "d": inspected("d", "python -m sglang.launch_server", DeviceRequests=[{"Capabilities": [["gpu"]]}]),
        "f": inspected("f", "llama-server", Ulimits=[{"Name": "core", "Soft": 1}, {"Name": "memlock", "Soft": -1}]),
    }

    def inspect(identity: str) -> dict[str, Any]:
        if identity not in known:
            raise NotFound("gone meanwhile")
        return known[identity]

    listed = [{"Id": name, "Created": number} for number, name in enumerate("abcdef")]
    sdk(api=SimpleNamespace(containers=lambda **_: listed, inspect_container=inspect))
    found = {one.id: one for one in serving_containers(ENGINE)}
    assert list(found) == ["f", "d", "c", "a"]
    assert [name for name, one in found.items() if one.gpus] == ["d"]
    assert {name: one.memlock for name, one in found.items()} == {"f": -1, "d": None, "c": None, "a": None}
    assert (found["a"].name, found["a"].environment, found["a"].runs) == ("a", {"A": "b=c", "D": ""}, True)
    assert container_state(ENGINE, "e") is None
    many = [{"Id": "a", "Created": number} for number in range(5 * MOST)]
    for name, count, looks in (("a", MOST, MOST), ("b", 0, 4 * MOST)):
        answers = iter([known[name]] * len(many))
        sdk(api=SimpleNamespace(containers=lambda **_: many, inspect_container=lambda _, left=answers: next(left)))
        assert len(serving_containers(ENGINE)) == count
        assert len(list(answers)) == len(many) - looks, "no more are looked at"


def test_a_log_is_followed_line_by_line_and_a_line_without_end_is_cut(sdk: Callable[..., None]) -> None:
    def told(*blocks: bytes) -> list[str]:
        found = SimpleNamespace(logs=lambda **_: iter(blocks))
        sdk(containers=SimpleNamespace(get=lambda _: found))
        return list(follow(ENGINE, "c", 5))

    assert told(b"one\ntw", b"o\n", b"\nrest") == ["one", "two", "", "rest"]
    assert told(b"one\n") == ["one"]
    assert told(b"x" * LONGEST_LINE, b"\n") == ["x" * LONGEST_LINE]
    assert told(b"x" * (LONGEST_LINE + 1), b"y\n") == ["x" * (LONGEST_LINE + 1), "y"]


def refusal(status: int) -> APIError:
    return APIError("refused", response=SimpleNamespace(status_code=status))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keep", "refused", "calls"),
    [
        (True, None, ["stop 7"]),
        (False, None, ["stop 7", "remove"]),
        (False, 409, ["stop 7", "remove", "wait removed"]),
        (False, 404, ["stop 7", "remove"]),
        (False, 500, ["stop 7", "remove"]),
    ],
)
def test_a_container_that_somebody_else_removes_is_waited_for(
    keep: bool, refused: int | None, calls: list[str], sdk: Callable[..., None]
) -> None:
    done: list[str] = []

    def remove(**_: object) -> None:
        done.append("remove")
        if refused == 404:
            raise NotFound("gone", response=SimpleNamespace(status_code=404))  # type: ignore[arg-type]
        if refused:
            raise refusal(refused)

    found = SimpleNamespace(
        stop=lambda timeout: done.append(f"stop {timeout}"),
        remove=remove,
        wait=lambda timeout, condition: done.append(f"wait {condition}"),
    )
    sdk(containers=SimpleNamespace(get=lambda _: found))
    with pytest.raises(APIError) if refused == 500 else nullcontext():
        end_container(ENGINE, "c", patience=7, keep=keep)
    assert done == calls


def test_a_name_is_taken_where_the_engine_says_so() -> None:
    for cause, taken in ((refusal(409), True), (refusal(500), False), (OSError(), False), (None, False)):
        error = EngineError("not made")
        error.__cause__ = cause
        assert name_is_taken(error) is taken


def test_names_of_a_passing_registry_go_and_no_image_loses_its_last(sdk: Callable[..., None]) -> None:
    removed: list[str] = []

    def remove(name: str) -> None:
        removed.append(name)
        if "@" in name:
            raise ImageNotFound("gone with its tag")

    def image(*tags: str, digests: tuple[str, ...] | None = ()) -> SimpleNamespace:
        return SimpleNamespace(tags=list(tags), attrs={"RepoDigests": digests})

    listed = [
        image("a:1", "127.0.0.1:7/passing:image", digests=("127.0.0.1:7/passing@sha256:1", "a@sha256:1")),
        image("127.0.0.1:8/passing:image"),
        image("b:1", digests=None),
        image(),
    ]
    sdk(images=SimpleNamespace(list=lambda: listed, remove=remove))
    images.drop_names(ENGINE, "/passing")
    assert removed == ["127.0.0.1:7/passing:image", "127.0.0.1:7/passing@sha256:1"]


def test_the_build_cache_is_counted_pruned_and_forgotten(sdk: Callable[..., None]) -> None:
    def record(name: str, kind: str = "regular", **more: object) -> dict[str, object]:
        return {"ID": name, "Type": kind, "Size": 10, "Description": name, "InUse": False, "Shared": False, **more}

    records = [
        record("one"),
        record("two"),
        record("shared", Shared=True),
        record("used", InUse=True),
        record("folder", build_cache.FOLDER),
    ]
    asked: list[dict[str, object]] = []

    def prune(**words: object) -> dict[str, int]:
        asked.append(words)
        return {"SpaceReclaimed": 10}

    sdk(api=SimpleNamespace(df=lambda: {"BuildCache": records}, prune_builds=prune))
    assert build_cache.build_cache(ENGINE) == 40
    assert build_cache.forget(ENGINE, lambda name: name != "two") == 10
    assert asked == [{"filters": {"id": "one"}, "all": True}]
    asked.clear()
    for age in (None, 0.0, 7199.0, 7200.0):
        assert build_cache.prune(ENGINE, keep=5, age=age) == 10
    assert [one["filters"] for one in asked] == [{}, {"until": "1h"}, {"until": "1h"}, {"until": "2h"}]
    assert {one["keep_storage"] for one in asked} == {5}
