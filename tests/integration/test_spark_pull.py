"""The steps of spark.yml: Docker's own client pulls from a registry that asks who one is; selftest, and its gate."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image
from gb10.containers.packages import unpack
from gb10.containers.reach import connect_or_start
from gb10.core.store import open_store
from tests.integration.nodes import PASSWORD, USERS, random_image, registry
from tests.unit.project.test_workflows import run_step

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PULL, SELFTEST, GATE = (("spark", "selftest", name) for name in ("Pull", "Selftest", "Gate"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return connect_or_start(os.environ, open_store(os.environ))


@pytest.fixture(scope="module")
def pushed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image in the registry and not in the engine, as `publish` prints it."""
    with registry(open_store(os.environ), tmp_path_factory.mktemp("registry"), USERS) as place:
        name, tag = f"{place.host}/gb10/small", "1-cu130-sm121f-0123456789ab"
        random_image(engine, f"{name}:{tag}", 1000, seed=1)
        with closing(client(engine)) as sdk:
            said = sdk.images.push(name, tag, auth_config={"username": "me", "password": PASSWORD})
            assert "errorDetail" not in said, said
            (found,) = sdk.images.get(f"{name}:{tag}").attrs["RepoDigests"]
            sdk.images.remove(f"{name}:{tag}", force=True)
        yield f"{name}:{tag}@{found.partition('@')[2]}"
        if find_image(engine, found):
            with closing(client(engine)) as sdk:
                sdk.images.remove(found, force=True)


def runner(engine: Engine, folder: Path, pushed: str, token: str) -> dict[str, str]:
    """What the runner of a Spark gives the steps, with what the job of the images left."""
    (folder / "image-vllm").mkdir()
    (folder / "image-vllm/pushed").write_text(f"{pushed}\n", encoding="utf-8")
    programs = unpack(open_store(os.environ), os.environ)
    return {
        **{"ENGINE": "vllm", "GITHUB_ACTOR": "me", "TOKEN": token, "DOCKER_CONFIG": str(folder / "docker")},
        **{"PATH": f"{programs.bin}:{os.environ['PATH']}", "DOCKER_HOST": engine.endpoint.host, "MODEL": ""},
        "LEFT_OUT": "nodes rank-death against moe-files switches",
    }


def parts(pushed: str) -> tuple[str, str]:
    """The reference by digest alone, and the digest."""
    name, _, digest = pushed.partition("@")
    return f"{name.rpartition(':')[0]}@{digest}", digest


NO_DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("token", "other", "says"),
    [("no-such-token", "", "401 Unauthorized"), (PASSWORD, NO_DIGEST, "not found"), (PASSWORD, "", "")],
)
def test_an_image_is_pulled_by_its_digest_and_no_token_stays(  # noqa: PLR0917 - a row
    token: str, other: str, says: str, engine: Engine, pushed: str, tmp_path: Path
) -> None:
    wanted = pushed.replace(parts(pushed)[1], other) if other else pushed
    ran = run_step(PULL, tmp_path, **runner(engine, tmp_path, wanted, token))
    assert (ran.returncode == 0, says in ran.stderr) == (not says, True), ran.stdout + ran.stderr
    reference, _ = parts(wanted)
    assert (tmp_path / "env").read_text(encoding="utf-8") == ("" if says else f"REFERENCE={reference}\n")
    assert (find_image(engine, reference) is None) is bool(says)
    kept = tmp_path / "docker/config.json"
    assert not kept.exists() or not json.loads(kept.read_text(encoding="utf-8")).get("auths")


def test_what_was_pulled_is_tested_and_judged(engine: Engine, pushed: str, tmp_path: Path) -> None:
    """No GB10, and an image that is none of ours: it is tested, and the gate takes no report of another machine."""
    given = runner(engine, tmp_path, pushed, PASSWORD)
    assert run_step(PULL, tmp_path, **given).returncode == 0
    exported = dict(line.split("=", 1) for line in (tmp_path / "env").read_text(encoding="utf-8").splitlines())
    assert exported == {"REFERENCE": parts(pushed)[0]}
    tested = run_step(SELFTEST, tmp_path, **given, **exported)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    report = json.loads((tmp_path / "selftest-vllm/report.json").read_text(encoding="utf-8"))
    assert report["image"]["digest"] == parts(pushed)[1]
    assert {one["result"] for one in report["steps"] if one["id"] in ("image", "limits")} == {"not checked"}
    judged = run_step(GATE, tmp_path, **given, **exported)
    assert (judged.returncode, "claims are about a GB10" in judged.stderr) == (2, True), judged.stdout + judged.stderr
    gone = {**given, "REFERENCE": parts(pushed)[0].replace(parts(pushed)[1], NO_DIGEST)}
    assert run_step(SELFTEST, tmp_path, **gone).returncode == 7
