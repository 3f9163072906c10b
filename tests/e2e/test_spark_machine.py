"""The tool on a booted aarch64 machine with Docker, as a user without root, and its answers compared with this one's.

The machine is made anew, unless GB10_SPARK_MACHINE names the folder of one. Hours beside other work on all cores.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gb10.containers.connection import Engine, client
from gb10.containers.images import require_image
from gb10.containers.registry.transfer import Moves, push
from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT
from tests.integration.nodes import build_py, random_image, registry

pytestmark = pytest.mark.e2e

SCRIPT = str(ROOT / "scripts/spark-machine")
PLAN = ("plan", "--engine", "vllm", "--arch", "12.1f", "--json")
Spark = Callable[..., str]


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    """Runs words in the checkout there; ``ssh`` are options of ssh before them."""
    given = os.environ.get("GB10_SPARK_MACHINE")
    folder = Path(given) if given else Path(tempfile.mkdtemp(prefix="spark-machine-", dir="/var/tmp"))
    at = (SCRIPT, "--at", str(folder))
    try:
        if not (folder / "disk").exists():
            capture([*at, "make"])
        capture([*at, "start"])
        yield lambda *words, ssh=(): capture([*at, "ssh", *ssh, "cd gb10 && " + " ".join(words)])
    finally:
        capture([*at, "stop"])
        if not given:
            capture([*at, "delete"])


def test_it_is_an_aarch64_machine_with_docker_and_the_user_is_not_root(spark: Spark) -> None:
    assert spark("uname", "-m").strip() == "aarch64"
    assert spark("id", "-un").strip() == "me"
    assert spark("docker", "version", "--format", "'{{.Server.Arch}}'").strip() == "arm64"
    with pytest.raises(CommandFailedError):
        spark("cat", "/etc/shadow")


def test_the_keys_of_all_steps_are_those_of_this_machine_but_of_what_runs_there(spark: Spark) -> None:
    here, there = (json.loads(text) for text in (build_py(*PLAN, env=dict(os.environ)), spark("./build.py", *PLAN)))
    assert there["key"] == here["key"]
    pairs = list(zip(here["steps"], there["steps"], strict=True))
    assert all(one["name"] == other["name"] for one, other in pairs)
    own = {"base-build", "tools"} if os.uname().machine != "aarch64" else set()
    assert {one["name"] for one, other in pairs if one["key"] != other["key"]} == own


def test_the_lock_holds_there(spark: Spark) -> None:
    spark("./build.py", "lock", "--check")


def test_patches_apply_there_as_here(spark: Spark) -> None:
    words = ("patches", "status", "--source", "cutlass", "--json")
    assert json.loads(spark("./build.py", *words)) == json.loads(build_py(*words, env=dict(os.environ)))


def test_gpu_code_is_read_there_as_here(spark: Spark) -> None:
    words = ("verify", "tests/unit/data/scan/cuda13.sm_121.cubin", "--claim", "--arch", "12.1", "--json")
    assert json.loads(spark("./build.py", *words)) == json.loads(build_py(*words, env=dict(os.environ)))


def test_its_docker_is_found_and_needs_no_root(spark: Spark) -> None:
    found = json.loads(spark("./build.py", "engine", "status", "--json"))
    assert (found["used"]["host"], found["embedded"]["pid"]) == ("unix:///var/run/docker.sock", None)


def test_it_pulls_from_a_registry(spark: Spark, store: Store, engine: Engine, tmp_path: Path) -> None:
    """Of this machine, reached through ssh as 127.0.0.1, where Docker takes a registry without TLS."""
    with registry(store, tmp_path) as place:
        reference = f"{place.host}/gb10/random:1"
        random_image(engine, reference, 1_000_000, 2_000_000)
        try:
            push(engine, reference, Moves())
            config = require_image(engine, reference).id
        finally:
            with closing(client(engine)) as sdk:
                sdk.images.remove(reference)
        words = ("./build.py", "pull", reference, "--platform", "linux/arm64", "--json")
        pulled = json.loads(spark(*words, ssh=("-R", f"{place.host}:{place.host}")))
        assert [node["id"] for node in pulled["nodes"]] == [config]
        spark("docker", "image", "rm", reference)
