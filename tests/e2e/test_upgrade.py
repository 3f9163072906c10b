"""``lock --upgrade engine`` on the real engines: today's recipe, put back a release and upgraded, is today's again."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path, write_lock
from gb10.image.lock.relock import resolve_lock
from gb10.image.plan.catalog import ROOT

pytestmark = pytest.mark.e2e


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A release before the recipe's, as its metadata pins it: what to write for what."""

    engine: str
    back: dict[str, str]
    own: str = ""
    """Lines that the release before needs."""


VLLM = Pair(
    engine="vllm",
    back={
        "version: 0.33.0": "version: 0.32.0",
        "vllm==0.33.0": "vllm==0.32.0",
        "torch==2.14.0": "torch==2.13.0",
        "flashinfer-python==0.7.2.post1": "flashinfer-python==0.7.0.post1",
    },
)
SGLANG = Pair(
    engine="sglang",
    back={
        "version: 0.5.23": "version: 0.5.22",
        "sglang==0.5.23": "sglang==0.5.22",
        "flashinfer-python==0.7.2": "flashinfer-python==0.7.1",
    },
    own="overrides: [{requirement: cuda-tile>=1.3, why: the index has no wheel of the pre-release that it pins}]\n",
)


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return open_context(os.environ, verbosity=-1)


def put_back(pair: Pair, folder: Path, ctx: Context) -> tuple[Path, str]:
    """The recipe of the release before with its lock, and the text that an upgrade must give."""
    today = ROOT / f"recipes/images/{pair.engine}.yaml"
    text = f"{today.read_text(encoding='utf-8')}{pair.own}"
    old = text
    for new, before in pair.back.items():
        assert new in old, "the pair is of an earlier recipe: write the releases before the current ones here"
        old = old.replace(new, before)
    path = folder / f"{pair.engine}.yaml"
    path.write_text(old, encoding="utf-8")
    lock = resolve_lock(load_recipe(path), load_lock(lock_path(today)), store=ctx.store, env=ctx.env)
    write_lock(lock_path(path), lock)
    return path, text


@pytest.mark.parametrize("pair", [VLLM, SGLANG], ids=lambda pair: pair.engine)
def test_the_release_before_is_upgraded_to_todays_recipe(pair: Pair, tmp_path: Path, ctx: Context) -> None:
    path, text = put_back(pair, tmp_path, ctx)
    version = load_recipe(ROOT / f"recipes/images/{pair.engine}.yaml").version
    argv = [str(ROOT / "build.py"), "lock", "--engine", str(path), "--upgrade", "engine", "--to", version, "--json"]
    document = json.loads(capture(argv, env=ctx.env))
    assert path.read_text(encoding="utf-8") == text
    capture([str(ROOT / "build.py"), "lock", "--engine", str(path), "--check"], env=ctx.env)
    moved = {row["what"]: (row["from"], row["to"]) for row in document["moved"]}
    assert moved.keys() >= {"version", pair.engine, "flashinfer-python"}
    outcomes = {row["patch"]: (row["before"], row["after"]) for row in document["patches"]}
    assert outcomes["0004-no-vector-beyond-16-bytes"] == ("not-applicable", "applies")
    assert not [row for row in document["patches"] if row["stops"]]
    assert any("SM120" in row["first"] for row in document["new_for_12x"]["files"])
    locked = {wheel.name: wheel.version for wheel in load_lock(lock_path(path)).wheels.image["arm64"]}
    today = {
        wheel.name: wheel.version
        for wheel in load_lock(ROOT / f"recipes/images/{pair.engine}.lock.json").wheels.image["arm64"]
    }
    assert {name: locked[name] for name in moved if name in today} == {
        name: today[name] for name in moved if name in today
    }
