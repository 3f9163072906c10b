"""Recipes and locks on an image of others: what is read, what stays, which pair does not fit."""

import zipfile
from pathlib import Path

import pytest

from gb10.errors import LockStaleError, UsageError
from gb10.image.lock.base_lock import check_on_image, locked_base, misfit, on_image_digest, present_in, write_stand_ins
from gb10.image.lock.lockfile import load_any, lock_text
from gb10.image.plan.base_plan import lock_on, requested_base
from gb10.image.plan.plan_record import needed_lock
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import ImageBase, OnImage
from tests.unit.made_up_base import PATCH, RECIPE, base, plan_on

NAMED = base(versions={"numpy": "2.2.6", "markupsafe": "1.1.1"})
HOLDS = f"which {NAMED.reference} holds"


@pytest.mark.parametrize(
    ("said", "message", "where"),
    [
        (
            "Because jinja2>=3.1.6 depends on markupsafe>=2.0 and markupsafe==1.1.1, we can conclude that …",
            f"jinja2 does not fit markupsafe 1.1.1, {HOLDS}",
            "jinja2>=3.1.6 requires markupsafe>=2.0",
        ),
        (
            "Because all versions of Foo_Bar depend on x and foo-bar==2 depends on NumPy<2, we can conclude",
            f"foo-bar does not fit numpy 2.2.6, {HOLDS}",
            "foo-bar==2 requires NumPy<2",
        ),
        (
            "you require numpy==1.26 and numpy==2.2.6",
            f"the requirement numpy<2 does not fit numpy 2.2.6, {HOLDS}",
            None,
        ),
        ("there are no versions of nothing-like-it", "there are no versions of nothing-like-it", None),
    ],
)
def test_the_pair_that_does_not_fit_is_named(said: str, message: str, where: str | None) -> None:
    wanted = ("numpy<2",) if "numpy==1.26" in said else ("jinja2",)
    found = misfit(UsageError(said), NAMED, wanted)
    assert found.message == message
    assert where is None or found.where == where


def test_what_the_image_holds_stands_in_for_files_that_no_index_has(tmp_path: Path) -> None:
    write_stand_ins(tmp_path, {"torch": "2.10.0+cu130", "flashinfer-python": "0.6.7"})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["flashinfer_python-0.6.7-py3-none-any.whl", "torch-2.10.0+cu130-py3-none-any.whl"]
    with zipfile.ZipFile(tmp_path / names[1]) as wheel:
        assert b"Version: 2.10.0+cu130\n" in wheel.read("torch-2.10.0+cu130.dist-info/METADATA")


def test_names_that_no_index_has_reach_no_resolver() -> None:
    hostile = {"../../x": "1", "a @ https://example.org/a.whl": "1", "b": "1 ; evil", "c\nd": "1", "e": "1.0+cu130"}
    assert present_in(base(installed={}, versions={})) == {}
    found = present_in(base(versions=hostile))
    assert set(found) == {"vllm", "torch", "flashinfer-python", "e"}


def test_a_recipe_on_an_image_is_told_from_one_of_ours(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("base: {image: 'vllm/vllm-openai:nightly'}\nrequirements: [einops]\n", encoding="utf-8")
    found = load_any(own)
    assert isinstance(found, OnImage)
    assert (found.base.image, found.requirements, found.platform) == (
        "vllm/vllm-openai:nightly",
        ("einops",),
        "linux/arm64",
    )
    assert isinstance(load_any(RECIPE), Recipe)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: {image: 'a b'}", "mine.yaml:1:15: 'base.image'"),
        ("base: {image: a, suite: trixie}", "mine.yaml:1:18: unknown key"),
        ("base: {image: a}\nversion: 1", "mine.yaml:2:1: unknown key"),
        ("base: {image: a}\nplatform: linux/arm", "mine.yaml:2:11: 'platform'"),
    ],
)
def test_a_mistake_in_it_is_an_error_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        load_any(own)
    assert message in (raised.value.where or "")


def test_a_lock_of_other_requirements_is_stale() -> None:
    given = OnImage(base=ImageBase(image=base().reference))
    lock = plan_on(base(), patches=(PATCH,)).lock
    check_on_image(given, lock, Path("mine.yaml"))
    check_on_image(given.model_copy(update={"patches": ("a.diff",)}), lock, Path("mine.yaml"))  # in no lock
    with pytest.raises(LockStaleError, match="changed since it was locked"):
        check_on_image(given.model_copy(update={"requirements": ("einops",)}), lock, Path("mine.yaml"))
    assert on_image_digest(given) == lock.input_digest


OTHER = {"image": "registry.example/vllm/vllm-openai:2"}


@pytest.mark.parametrize(
    ("changed", "platform", "expected"),
    [
        ({}, "linux/arm64", NAMED),
        (OTHER, "linux/arm64", ""),
        ({"python": "/opt/venv/bin/python3"}, "linux/arm64", NAMED.reference),
        (OTHER | {"python": "/opt/venv/bin/python3"}, "linux/arm64", ""),
        ({}, "linux/amd64", ""),
    ],
    ids=["the same", "another tag", "another Python", "both", "another platform"],
)
def test_a_lock_keeps_its_image_only_for_the_same_question(
    changed: dict[str, str], platform: str, expected: object
) -> None:
    before = OnImage(base=ImageBase(image="registry.example/vllm/vllm-openai:1"))
    lock = lock_on(NAMED, plan_on(NAMED, patches=(PATCH,)).lock, on_image_digest(before), asked=requested_base(before))
    lock = Lock.model_validate_json(lock_text(lock))
    after = before.model_copy(update={"base": before.base.model_copy(update=changed), "platform": platform})
    assert locked_base(after, lock) == expected
    assert locked_base(after.model_copy(update={"requirements": ("einops",)}), lock) == expected
    other_engine = after.model_copy(update={"engine": "sglang"})
    assert locked_base(other_engine, lock) == (NAMED.reference if expected else "")


def test_a_lock_that_keeps_no_question_is_read_anew() -> None:
    lock = plan_on(NAMED, patches=(PATCH,)).lock
    assert locked_base(OnImage(base=ImageBase(image=NAMED.reference)), lock) == ""
    assert "asked" not in lock_text(needed_lock(plan_on(NAMED, patches=(PATCH,))))
