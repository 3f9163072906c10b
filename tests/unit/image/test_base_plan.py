"""Plans on an image of others: what is in each key, what the image keeps, what the record holds."""

import json
from dataclasses import replace

import jsonschema
import pytest

from gb10.containers.reference import check_reference
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe, lock_text
from gb10.image.plan.base_plan import plan_on_image
from gb10.image.plan.plan_record import as_recorded, labels, record
from gb10.image.plan.render import bake, dockerfile, scanned
from gb10.image.recipe.base_image import Installed
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import ImageBase, OnImage
from gb10.image.request.from_image import release_of
from gb10.image.request.plan_replay import read_record
from tests.recipes import SHIPPED
from tests.unit.image.test_plan_schema import SCHEMA
from tests.unit.made_up_base import MOD, OVERLAY, PATCH, RECIPE, WHEEL, base, plan_on, sha256

WHOLE = plan_on(base(), patches=(PATCH,), mods=(MOD,), overlay=OVERLAY, added=(WHEEL,), env={"A": "b"})


def test_the_base_stays_as_it_is() -> None:
    text = dockerfile(WHOLE, SHIPPED.templates)
    assert f"FROM --platform=linux/arm64 {base().reference} AS base" in text
    assert not any(line.startswith(("ENTRYPOINT", "CMD", "WORKDIR", "SHELL")) for line in text.splitlines())
    assert 'ENV A="b"' in text
    assert "TORCH_CUDA_ARCH_LIST" not in text
    assert text.rstrip().endswith("USER 2000:0")  # after the mods, which root runs
    assert "USER" not in dockerfile(plan_on(base(), patches=(PATCH,)), SHIPPED.templates)


def test_a_mod_is_run_by_the_base_s_own_python_and_a_base_without_a_user_is_root_s() -> None:
    text = dockerfile(plan_on(base(user="", interpreter="/opt/venv/bin/python"), mods=(MOD,)), SHIPPED.templates)
    assert "/opt/venv/bin/python -B /run/gb10/mod.py --name one --workdir /vllm-workspace" in text
    assert text.rstrip().endswith("USER root")


def test_only_what_is_ours_is_scanned_lowest_first() -> None:
    assert scanned(WHOLE) == ["added", "patched", "overlay", "mod-1"]
    assert scanned(plan_on(base(), env={"A": "b"})) == []
    assert "/scans/*.json" not in dockerfile(plan_on(base(), env={"A": "b"}), SHIPPED.templates)


def test_the_one_tag_holds_the_key() -> None:
    plan = plan_on(base(), patches=(PATCH,))
    assert plan.tags == (f"gb10/vllm:0.34.0.dev12-gabc-cu130-sm121f-{plan.key[:12]}",)
    plain = plan_on(base(engine="", cuda="", python="", installed={}), overlay=OVERLAY)
    digest = base().reference.rpartition("sha256:")[2][:12]
    assert plain.tags == (f"gb10/image:{digest}-sm121f-{plain.key[:12]}",)


@pytest.mark.parametrize(
    ("other", "moved"),
    [
        ({"patches": (replace(PATCH, sha256="9" * 64),)}, {"patched", "mod-1", "image", "proof"}),
        ({"mods": (replace(MOD, digest="9" * 64),)}, {"mod-1", "image", "proof"}),
        ({"overlay": replace(OVERLAY, digest="9" * 64)}, {"mod-1", "image", "proof"}),
        ({"added": (WHEEL.model_copy(update={"sha256": "9" * 64}),)}, {"added", "mod-1", "image", "proof"}),
        ({"env": {"A": "c"}}, {"mod-1", "image", "proof"}),
        ({"build": "arm64"}, {"base-build"}),
        ({"patches": (replace(PATCH, url="https://example.org/1.diff"),)}, set()),
    ],
    ids=["patch", "mod", "overlay", "wheel", "variable", "building machine", "where a patch comes from"],
)
def test_each_input_alone_moves_the_keys_of_what_reads_it(other: dict[str, object], moved: set[str]) -> None:
    given = {"patches": (PATCH,), "mods": (MOD,), "overlay": OVERLAY, "added": (WHEEL,), "env": {"A": "b"}}
    after = plan_on(base(), **{**given, **other})  # type: ignore[arg-type]
    assert {step.name for step in WHOLE.steps if after.step(step.name).key != step.key} == moved


def test_another_base_moves_all_but_the_build_stages() -> None:
    given = {"patches": (PATCH,), "mods": (MOD,), "overlay": OVERLAY, "added": (WHEEL,), "env": {"A": "b"}}
    after = plan_on(base("other.example/vllm"), **given)  # type: ignore[arg-type]
    assert {step.name for step in WHOLE.steps if after.step(step.name).key == step.key} == {"base-build"}


def test_the_layers_of_the_base_are_its_files() -> None:
    step = WHOLE.step("base")
    assert (step.download, [file.sha256 for file in step.files]) == (
        3_000_000,
        [sha256(f"{one}z").removeprefix("sha256:") for one in "abc"],
    )


def test_labels_name_the_base() -> None:
    found = labels(WHOLE)
    assert found["org.opencontainers.image.base.name"] == "registry.example/vllm/vllm-openai"
    assert found["org.opencontainers.image.base.digest"] == base().digest
    assert found["io.github.gb10.patches.vllm"] == "fix.diff@111111111111"


def test_document_and_record_follow_the_schema_and_the_record_is_the_plan_again() -> None:
    jsonschema.validate(json.loads(json.dumps(WHOLE.document())), SCHEMA)
    recorded = json.loads(json.dumps(record(WHOLE)))
    jsonschema.validate(recorded, SCHEMA)
    inputs = read_record(json.dumps(recorded).encode(), "plan.json").inputs
    assert isinstance(inputs.recipe, OnImage)
    assert inputs.lock.base == WHOLE.base
    again = plan_on_image(inputs.recipe, load_recipe(RECIPE), inputs.lock, SHIPPED.toolkit, WHOLE.options)
    assert again.key == WHOLE.key
    assert as_recorded(WHOLE).base == WHOLE.base


def test_every_stage_s_context_is_in_the_bake_document() -> None:
    names = {"added-files", "patched-files", "overlay-files", "mod-1-files"}
    assert set(bake(WHOLE)["target"]["image"]["contexts"]) == names  # type: ignore[index]


def test_a_lock_is_read_as_it_was_written() -> None:
    assert Lock.model_validate_json(lock_text(WHOLE.lock)) == WHOLE.lock


def test_a_recipe_of_ours_is_none_on_an_image() -> None:
    assert isinstance(load_recipe(RECIPE), Recipe)
    assert load_recipe(RECIPE).base.suite


@pytest.mark.parametrize(
    "reference",
    ["vllm/vllm-openai:nightly", f"a@sha256:{'0' * 64}\nRUN evil", f"--platform=x a@sha256:{'0' * 64}", ""],
)
def test_a_base_that_no_dockerfile_can_name_is_refused(reference: str) -> None:
    with pytest.raises(UsageError, match="names no image by its digest"):
        plan_on_image(
            OnImage(base=ImageBase(image="a")),
            load_recipe(RECIPE),
            WHOLE.lock.model_copy(update={"base": replace(base(), reference=reference)}),
            SHIPPED.toolkit,
            WHOLE.options,
        )


@pytest.mark.parametrize("version", ["1\nRUN evil", "x" * 500, "1!2.0+a b", "\x1b[31m", ""])
def test_a_version_that_its_author_made_up_is_no_line_of_a_dockerfile_and_no_bad_tag(version: str) -> None:
    installed = {"vllm": Installed(name="vllm", version=version, folder="/x")}
    plan = plan_on(base(installed=installed), patches=(PATCH,))
    assert check_reference(plan.tags[0]) == plan.tags[0]
    assert not any(line.startswith("RUN evil") for line in dockerfile(plan, SHIPPED.templates).splitlines())
    assert release_of(plan.lock.base or base())[0] == "vllm"


def test_a_release_that_is_none_is_older_than_all() -> None:
    assert release_of(base()) == ("vllm", "0.34.0.dev12+gabc")
    assert release_of(base(engine="", installed={})) == ("image", "0")


@pytest.mark.parametrize("path", ["/../../root/own", "/opt/\x1b", "/opt/a\nRUN evil", "opt"])
@pytest.mark.parametrize("field", ["interpreter", "site_packages", "search", "folder", "metadata"])
def test_a_base_with_a_path_that_leads_elsewhere_is_refused(field: str, path: str) -> None:
    row = Installed(name="vllm", version="1", folder="/x")
    there = {"folder": replace(row, folder=path), "metadata": replace(row, metadata=path)}
    made = (
        {"installed": {"vllm": there[field]}}
        if field in there
        else {field: path if field == "interpreter" else (path,)}
    )
    with pytest.raises(UsageError, match="names a path that no Python has"):
        plan_on(base(**made))


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("patches/on_base.py", "patched"),
        ("patches/owners.py", "patched"),
        ("patches/places.py", "patched"),
        ("layouts", "patched"),
        ("inside/install/install.py", "added"),
        ("rootfs/added_wheels.py", "added"),
        ("uv", "added"),
    ],
)
def test_what_decides_the_files_of_a_step_moves_its_key(name: str, moved: str) -> None:
    toolkit = SHIPPED.toolkit
    if name in toolkit.digests:
        toolkit = replace(toolkit, digests={**toolkit.digests, name: "0" * 64})
    else:
        assert getattr(toolkit, name)
        toolkit = replace(toolkit, **{name: "other"})  # type: ignore[arg-type]
    assert WHOLE.on
    after = plan_on_image(WHOLE.on, load_recipe(RECIPE), WHOLE.lock, toolkit, WHOLE.options)
    changed = {step.name for step in WHOLE.steps if after.step(step.name).key != step.key}
    assert changed == {moved, "mod-1", "image", "proof"}
    assert after.step("image").key != WHOLE.key
