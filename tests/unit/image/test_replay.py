"""The record in an image is enough to plan it again: the same keys, the same record; what is not itself is refused."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gb10.errors import Gb10Error, UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.mods.read import load_mod
from gb10.image.patches.selection import plan_patches
from gb10.image.plan.catalog import ROOT, tree_digest
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options, Overlay, Taken
from gb10.image.plan.plan_record import labels, record
from gb10.image.plan.values import Plan, wheel_inputs
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.request.optional_layers import drop_optional_layers
from gb10.image.request.plan_replay import LARGEST, ReplayInputs, plan_again, read_record, require_same, with_servers
from gb10.image.request.planning import with_targets
from tests.recipes import SHIPPED, small_recipe

DRIVES = ("gb10.image.patches.added",)  # through others: see tests/mutations.py

DIFF = b"""diff --git a/vllm/env_override.py b/vllm/env_override.py
--- a/vllm/env_override.py
+++ b/vllm/env_override.py
@@ -1 +1,2 @@
 # SPDX
+# caf\xe9
"""


def planned(folder: Path, engine: str = "vllm", targets: tuple[str, ...] = (), *, changed: bool = False) -> Plan:
    """A plan with each kind of input, when ``changed``, by the command line."""
    path = ROOT / f"recipes/images/{engine}.yaml"
    recipe, lock = with_targets(load_recipe(path), targets), load_lock(lock_path(path))
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", targets=targets)
    by_hand = []
    if changed:
        recipe, lock = drop_optional_layers(recipe, lock, ("b12x",))
        (folder / "my.diff").write_bytes(DIFF)
        by_hand = [str(folder / "my.diff")]
        options = replace(options, **given_again(folder), slim="all", without=("b12x",), kernels="core", refs=("vllm",))
    uses = plan_patches(SHIPPED.patches, recipe, lock, "arm64", by_hand)
    taken = Taken(path="/of/the/builder", commit="a" * 40, dirty=True)
    uses = tuple(replace(use, taken=taken, url="https://host/a.diff") if use.path else use for use in uses)
    return plan_image(recipe, lock, SHIPPED.toolkit, replace(options, patches=uses))


def given_again(folder: Path) -> dict[str, Any]:
    """An overlay and a mod, made once."""
    over, mod = folder / "over", folder / "mods/mine"
    if not over.exists():
        over.mkdir()
        (over / "file").write_text("of the overlay")
        mod.mkdir(parents=True)
        (mod / "run.sh").write_text("#!/bin/bash\nset -e\ntrue\n")
    found = load_mod(mod)
    return {
        "overlay": Overlay(path=str(over), digest=tree_digest(over)),
        "mods": (Mod(name="mine", path=str(mod), digest=found.digest, network=True),),
    }


def text_of(plan: Plan) -> bytes:
    diffs = {use.sha256: DIFF for use in plan.options.patches if use.path}
    return json.dumps(record(plan, diffs), indent=1).encode()


def again(text: bytes, folder: Path, given: ReplayInputs) -> Plan:
    found = read_record(text, "plan.json")
    (folder / "replay").mkdir()
    plan = plan_again(SHIPPED, found, given, folder / "replay")
    require_same(plan, found)
    return plan


@pytest.mark.parametrize(
    ("engine", "targets", "changed"),
    [
        ("vllm", (), False),
        ("vllm", (), True),
        ("vllm", ("spinloop", "_qutlass_C"), False),
        ("sglang", (), False),
        ("sglang-0.5.10", (), False),
    ],
    ids=["plain", "with all options", "with targets", "sglang", "sglang-0.5.10"],
)
def test_the_record_of_an_image_is_enough_to_plan_it_again(
    tmp_path: Path, engine: str, targets: tuple[str, ...], changed: bool
) -> None:
    plan = planned(tmp_path, engine, targets, changed=changed)
    mine = (
        ReplayInputs(mods=(f"{tmp_path}/mods/mine",), mod_network=True, overlay=tmp_path / "over")
        if changed
        else ReplayInputs()
    )
    replay = again(text_of(plan), tmp_path, mine)
    assert (replay.key, replay.tags, labels(replay)) == (plan.key, plan.tags, labels(plan))
    assert text_of(replay) == text_of(plan)
    by_hand = [Path(use.path).read_bytes() for use in replay.options.patches if use.path]
    assert by_hand == ([DIFF] if changed else [])
    assert all(wheel_inputs(replay, step.name).by_hand for step in replay.of_kind("wheel"))  # into no reviewed cache


def test_a_record_names_no_path_of_the_builder_and_its_inputs_no_server(tmp_path: Path) -> None:
    text = text_of(planned(tmp_path, targets=("_qutlass_C",), changed=False)).decode()
    text += text_of(planned(tmp_path, changed=True)).decode()
    assert str(tmp_path) not in text
    assert "/of/the/builder" not in text
    inputs = json.loads(text_of(planned(tmp_path, targets=("_qutlass_C",))))["inputs"]
    assert "github" not in json.dumps(inputs)


def test_no_server_that_an_image_names_is_asked(tmp_path: Path) -> None:
    document = json.loads(text_of(planned(tmp_path, targets=("_qutlass_C",))))
    recipe, hostile = document["inputs"]["recipe"], "file:///etc"
    recipe["sources"]["qutlass"]["git"] = hostile
    recipe["requirements"] = ["torch==2.9.1"]
    recipe["indexes"] = {"hostile": {"url": "https://hostile.invalid/simple", "packages": ["torch"]}}
    other = {"sources": recipe["sources"] | {"qutlass": {"git": hostile, "commit": "e" * 40}}}
    for change in ({}, {"engine": "unknown"}, {"engine": "vllm", **other}):
        recipe.update(change)
        read = read_record(json.dumps(document).encode(), "plan.json").inputs.recipe
        assert isinstance(read, Recipe)
        found = with_servers(SHIPPED, read)
        assert found.indexes == {}
        assert (found.sources["qutlass"].git or "").startswith("https://recipe.invalid" if change else "https://github")


def test_what_an_image_does_not_hold_must_be_given_again(tmp_path: Path) -> None:
    text = text_of(planned(tmp_path, changed=True))
    other = tmp_path / "other/mine"
    other.mkdir(parents=True)
    (other / "run.sh").write_text("#!/bin/bash\nset -e\nfalse\n")
    mods = (f"{tmp_path}/mods/mine",)
    for given, words in (
        (ReplayInputs(mods=mods, mod_network=True), "the image has an overlay"),
        (ReplayInputs(mods=mods, mod_network=True, overlay=other), "is not the overlay of the image"),
        (ReplayInputs(overlay=tmp_path / "over"), "the image has a mod mine that is not here"),
        (ReplayInputs(mods=(str(other),), overlay=tmp_path / "over"), "the image has a mod mine that is not here"),
        (ReplayInputs(mods=mods, overlay=tmp_path / "over"), "the mod mine ran with the network"),
    ):
        with pytest.raises(UsageError, match=words):
            plan_again(SHIPPED, read_record(text, "plan.json"), given, Path(tempfile.mkdtemp(dir=tmp_path)))


def test_other_code_is_named_by_the_steps_that_it_makes_otherwise(tmp_path: Path) -> None:
    text = text_of(planned(tmp_path))
    toolkit = replace(SHIPPED.toolkit, digests={**SHIPPED.toolkit.digests, "inside/slim/slim.py": "0" * 64})
    found = read_record(text, "plan.json")
    recipe = found.inputs.recipe
    assert isinstance(recipe, Recipe)
    options = planned(tmp_path).options
    plan = plan_image(recipe, found.inputs.lock, toolkit, options)
    with pytest.raises(UsageError, match=r"other keys: layer-cuda, [\w, -]*, graft-vllm, image\n"):
        require_same(plan, found)


def cut(document: dict[str, Any], *path: str | int) -> None:
    for part in path[:-1]:
        document = document[part]  # type: ignore[index]
    del document[path[-1]]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The record of a plan without changes."""
    return text_of(planned(tmp_path_factory.mktemp("plan")))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: cut(it, "inputs"), "this plan has no inputs"),
        (lambda it: it.update(schema="gb10/plan/v2"), "this is no gb10/plan/v1"),
        (lambda it: it.update(key="short"), "key"),
        (lambda it: cut(it, "inputs", "lock", "wheels"), "lock.wheels"),
        (lambda it: it["inputs"]["recipe"].update(surprise=1), "recipe.surprise"),
        (lambda it: it["inputs"]["recipe"].update(workdir="not/a/root"), "recipe.workdir"),
        (lambda it: it["inputs"]["lock"]["debs"]["image"]["arm64"][0].update(path="../../etc/passwd"), "lock.debs"),
        (lambda it: it["patches"][0].update(name="../../../root/.ssh/authorized_keys"), r"patches.0.name"),
        (lambda it: it["patches"].pop(), "lists its patches twice, and differently"),
        (lambda it: it["inputs"]["kernels"]["flashinfer-jit-cache"].update(surprise=1), "surprise"),
        (lambda it: it["inputs"]["options"].update(slim="everything"), "options.slim"),
    ],
)
def test_a_record_that_gb10_did_not_write_is_refused(
    written: bytes, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    document = json.loads(written)
    change(document)
    with pytest.raises(UsageError, match=words):
        read_record(json.dumps(document).encode(), "plan.json")


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"[" * 100_000, b" " * (LARGEST + 1)])
def test_what_is_no_record_is_refused(text: bytes) -> None:
    with pytest.raises(Gb10Error):
        read_record(text, "plan.json")


@pytest.mark.parametrize("own", ['env: {"A=1\\nRUN evil\\nENV B": x}\n', "env: {1A: x}\n"])
def test_a_variable_that_is_no_name_is_refused(own: str) -> None:
    """Templates write it as it is: a record of somebody else must not bring instructions of its own."""
    with pytest.raises(ValidationError, match="env"):
        Recipe.model_validate_json(json.dumps(yaml.safe_load(small_recipe(own))))


def test_a_version_holds_no_instruction() -> None:
    text = small_recipe("").replace('version: "1"', r'version: "1\nRUN evil"')
    with pytest.raises(ValidationError, match="version"):
        Recipe.model_validate_json(json.dumps(yaml.safe_load(text)))
    assert Recipe.model_validate_json(json.dumps(yaml.safe_load(small_recipe("env: {A_1: x}\n")))).env == {"A_1": "x"}
