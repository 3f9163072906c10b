"""Another release than the recipe's, for real on a small recipe: resolved once, then from the store alone."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, load_recipe
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.refs import fit_release, with_refs
from tests.recipes import empty_lock, small_recipe

pytestmark = pytest.mark.integration

RECIPE = small_recipe(
    """\
overrides: # FlashInfer alone, without torch and CUDA
  - {requirement: "torch ; python_version < '3'", why: "a small test needs no torch"}
sources: {flashinfer: {sdist: flashinfer-python==0.7.2.post1}}
""",
    requirements="[flashinfer-python==0.7.2.post1]",
)
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    env = dict(os.environ)
    return Context(
        env=env,
        store=Store(tmp_path_factory.mktemp("store")),
        reporter=Reporter(env, verbosity=0),
        catalog=Catalog(ROOT),
    )


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recipe, Lock]:
    """The recipe, and a lock of an earlier day that holds nothing yet: no Debian package is looked up."""
    path = tmp_path_factory.mktemp("recipe") / "small.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    recipe = load_recipe(path)
    return path, recipe, empty_lock(recipe)


@pytest.mark.slow
def test_another_release_is_resolved_once_and_then_needs_no_network(
    ctx: Context, locked: tuple[Path, Recipe, Lock], capfd: pytest.CaptureFixture[str]
) -> None:
    path, recipe, lock = locked
    refs = {"flashinfer": "0.7.2"}
    other = with_refs(recipe, refs)
    offline = replace(ctx, env={**ctx.env, **NOWHERE})
    with pytest.raises(FetchError):
        fit_release(offline, recipe, lock, refs, ())
    fitted = fit_release(ctx, recipe, lock, refs, ())
    made = fitted.lock
    assert (fitted.recipe, fitted.left_out) == (other, {})
    check_lock(other, made, path)
    versions = {wheel.name: wheel.version for wheel in made.wheels.image["arm64"]}
    assert (versions["flashinfer-python"], made.sdists["flashinfer-python"].version) == ("0.7.2", "0.7.2")
    assert (made.created, made.debs) == (lock.created, lock.debs)
    assert fit_release(offline, recipe, lock, refs, ()) == fitted
    said = capfd.readouterr().err
    count = len(versions)
    assert f"locked now: flashinfer 0.7.2, {count} wheels in the store; the recipe and" in said
    assert f"locked before: flashinfer 0.7.2, {count} wheels" in said
    assert path.read_text(encoding="utf-8") == RECIPE
    assert [entry.name for entry in path.parent.iterdir()] == ["small.yaml"]


def test_a_release_that_the_index_does_not_have(ctx: Context, locked: tuple[Path, Recipe, Lock]) -> None:
    _, recipe, lock = locked
    refs = {"flashinfer": "0.7.99"}
    with pytest.raises(UsageError, match=r"^error: the package index has no flashinfer 0\.7\.99") as caught:
        fit_release(ctx, recipe, lock, refs, ())
    assert caught.value.where
    assert "0.7.2.post1" in caught.value.where


def test_an_error_names_all_releases_that_fit_together(ctx: Context, tmp_path: Path) -> None:
    """pydantic 2.10.0 demands pydantic-core 2.27.0, and 2.11.0 demands 2.33.0."""
    path = tmp_path / "pair.yaml"
    path.write_text(small_recipe("", requirements="[pydantic==2.10.0, pydantic-core==2.27.0]"), encoding="utf-8")
    recipe, refs = load_recipe(path), {"pydantic": "2.11.0"}
    with pytest.raises(UsageError, match=r"pydantic 2\.11\.0: the requirements do not fit together") as caught:
        fit_release(ctx, recipe, empty_lock(recipe), refs, ())
    assert caught.value.hint == "these releases fit together: --ref pydantic=2.11.0 --ref pydantic-core=2.33.0"
    both = refs | {"pydantic-core": "2.26.0"}
    with pytest.raises(UsageError, match="do not fit together") as caught:
        fit_release(ctx, recipe, empty_lock(recipe), both, ())
    assert "choose other releases" in (caught.value.hint or "")


ENGINE = """\
engine: pydantic
version: 2.10.0
repository: gb10/pydantic
python: "3.13"
cuda: "13.0"
base: {suite: trixie, packages: {image: []}}
requirements: [pydantic==2.10.0, pydantic-core==2.27.0, annotated-types==0.6.0, email-validator==2.0.0]
layers: [{name: mail, packages: [email-validator], optional: true}, {name: all, rest: true}]
workdir: /
"""


def engine(tmp_path: Path, text: str = ENGINE) -> tuple[Recipe, Lock]:
    """A small project as an engine, with an extra that requires an optional layer."""
    (tmp_path / "engine.yaml").write_text(text, encoding="utf-8")
    recipe = load_recipe(tmp_path / "engine.yaml")
    return recipe, empty_lock(recipe)


def test_what_the_engine_requires_moves_with_it(
    ctx: Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its metadata is read from the wheel by ranges; of the recipe's other pins those that fit stay."""
    recipe, lock = engine(tmp_path)
    fitted = fit_release(ctx, recipe, lock, {"pydantic": "2.11.0"}, ())
    assert fitted.recipe.requirements == (
        "pydantic==2.11.0",
        "pydantic-core==2.33.0",
        "annotated-types==0.6.0",
        "email-validator==2.0.0",
    )
    said = capfd.readouterr().err
    assert "pydantic 2.11.0 requires pydantic-core 2.33.0: taken with it" in said
    offline = replace(ctx, env={**ctx.env, **NOWHERE})
    assert fit_release(offline, recipe, lock, {"pydantic": "2.11.0"}, ()) == fitted
    assert "requires pydantic-core 2.33.0: taken with it" in capfd.readouterr().err


def test_an_optional_layer_that_does_not_fit_is_left_out(
    ctx: Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """dnspython 2.0 is older than what email-validator takes."""
    recipe, lock = engine(tmp_path, ENGINE.replace("annotated-types==0.6.0", "dnspython==2.3.0"))
    fitted = fit_release(ctx, recipe, lock, {"dnspython": "1.16.0"}, ())
    assert set(fitted.left_out) == {"mail"}
    assert "email-validator" not in {wheel.name for wheel in fitted.lock.wheels.image["arm64"]}
    assert "mail is left out: the requirements do not fit together" in capfd.readouterr().err


def test_a_release_without_a_wheel_for_this_python_is_refused(ctx: Context, tmp_path: Path) -> None:
    text = ENGINE.replace("2.10.0, pydantic-core==2.27.0", "2.10.0").replace("pydantic", "pydantic-core")
    recipe, lock = engine(tmp_path, text.replace("2.10.0", "2.27.0"))
    with pytest.raises(UsageError, match=r"pydantic-core 2\.0\.0 has no wheel for aarch64 and Python 3\.13"):
        fit_release(ctx, recipe, lock, {"pydantic-core": "2.0.0"}, ())
