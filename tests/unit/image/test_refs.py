"""``--ref`` and its earlier spellings: what of a recipe becomes another release, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gb10.cli.app import respelled
from gb10.cli.build.image_options import of_wheels
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import input_digest, load_recipe
from gb10.image.lock.moves import Demand, Next
from gb10.image.lock.offered import full_release, is_short, require_release
from gb10.image.lock.resolver import Platform, explained
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import image_tag, plan_image
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.commit_wheels import CommitWheel, with_commit_wheel
from gb10.image.request.image_request import Request
from gb10.image.request.optional_layers import asking_less
from gb10.image.request.planning import make_plan
from gb10.image.request.refs import (
    Fit,
    _demands,
    _not_known,
    _optional,
    _toolkit,
    _way_out,
    _with_fit,
    are_own,
    recipe_of_release,
    require_cuda,
    with_refs,
    without_idle_kernels,
)
from gb10.sources.index.page import Link
from tests.recipes import SHIPPED
from tests.unit.image.test_mods_plan import inputs, plan

RECIPE = ROOT / "recipes/images/vllm.yaml"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(env={}, store=Store(tmp_path), reporter=Reporter({}, verbosity=0), catalog=SHIPPED)


def test_requirement_source_and_version_move_together() -> None:
    recipe = load_recipe(RECIPE)
    made = with_refs(recipe, {"vllm": "0.34.0", "flashinfer": "0.8"})
    assert made.version == "0.34.0"
    assert made.requirements == ("vllm==0.34.0", "torch==2.14.0", "flashinfer-python==0.8", "b12x==1.5.1", "pip")
    assert {name: source.sdist for name, source in made.sources.items() if source.sdist} == {
        "flashinfer": "flashinfer-python==0.8",
        "vllm": "vllm==0.34.0",
    }
    assert made.sources["qutlass"] == recipe.sources["qutlass"]
    assert Recipe(**dict(made)) == made  # still one that its schema takes
    assert input_digest(made) != input_digest(recipe)
    assert with_refs(recipe, {"flashinfer": "0.7.2"}).version == "0.33.0"
    assert with_refs(recipe, {"vllm": "0.33.0"}) == recipe


@pytest.mark.parametrize(
    ("refs", "said"),
    [
        ({"vllm": "main"}, "--ref vllm=main is not a release on the package index"),
        ({"flashinfer": "1f2e3d4c"}, "--ref flashinfer=1f2e3d4c is not a release on the package index"),
        ({"qutlass": "1"}, "--ref qutlass: the vllm recipe pins it to a git commit"),
        ({"sglang": "0.5.22"}, "--ref sglang: the vllm recipe requires no sglang"),
    ],
)
def test_what_is_no_release_or_not_of_this_image(refs: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_refs(load_recipe(RECIPE), refs)
    assert caught.value.message == said
    assert caught.value.hint


def test_an_image_of_another_release_moves_no_tag() -> None:
    own = plan_image(*inputs(), replace(plan().options, refs=("vllm",)))
    moving = image_tag(own.recipe, own.options)
    assert moving == plan().tags[0]
    assert own.tags == (f"{moving}-{own.key[:12]}",)


@pytest.mark.parametrize("refs", [{"vllm": "0.33.0"}, {"flashinfer": "0.7.2.post1", "torch": "2.14.0"}])
def test_the_recipes_own_releases_are_the_plain_image(context: Context, refs: dict[str, str]) -> None:
    plain = make_plan(context, Request(engine="vllm", arch="12.1f"))
    same = make_plan(context, Request(engine="vllm", arch="12.1f", refs=refs))
    assert (same.key, same.tags) == (plain.key, plain.tags)


@pytest.mark.parametrize("refs", [{"vllm": "0.32.0"}, {"vllm": "0.33.0", "flashinfer": "0.7.1"}])
def test_one_other_release_is_another_image(refs: dict[str, str]) -> None:
    assert not are_own(load_recipe(RECIPE), refs)


def test_the_release_of_a_recipe_with_the_wheel_of_a_commit_is_another_image() -> None:
    recipe = load_recipe(RECIPE)
    wheel = CommitWheel(
        commit="a" * 40, version="0.33.1.dev1+gaaaaaaaaa", index="https://index.invalid/c", git="https://git.invalid/v"
    )
    assert not are_own(with_commit_wheel(recipe, wheel), {recipe.engine: recipe.version})


def test_the_request_has_what_was_named() -> None:
    asked = of_wheels(source=["vllm=../vllm"], ref=["flashinfer=0.7.2"])
    assert (asked.refs, asked.sources) == ({"flashinfer": "0.7.2"}, ("vllm=../vllm",))


def link(filename: str, *, yanked: bool = False) -> Link:
    return Link(filename=filename, url=f"https://index.invalid/{filename}", yanked=yanked)


def test_a_release_that_the_index_has_not_is_told_with_the_newest() -> None:
    links = [link(f"vllm-{version}.tar.gz") for version in ("0.9.2", "0.33.0", "0.32.0", "0.34.0rc1")]
    links += [link("vllm-0.31.0.tar.gz", yanked=True), link("vllm-0.30.0.zip"), link("notes.txt")]
    require_release(links, "vllm", "0.32")
    for text, words in (
        ("9.9.9", "the package index has no vllm 9.9.9"),
        ("0.31.0", "vllm 0.31.0 was yanked by its publishers"),
    ):
        with pytest.raises(UsageError) as caught:
            require_release(links, "vllm", text)
        assert caught.value.message == words
        assert caught.value.where == "newest: 0.33.0, 0.32.0, 0.30.0, 0.9.2"
        assert caught.value.hint == "choose one of its releases: --ref vllm=VERSION"


def test_a_release_with_a_label_of_its_index_is_the_release() -> None:
    """PEP 440: ==1 takes 1+cu130, too."""
    require_release([link("vllm-1+cu130-py3-none-any.whl")], "vllm", "1")


def test_a_release_of_which_one_file_was_yanked_is_there() -> None:
    require_release([link("vllm-1.tar.gz", yanked=True), link("vllm-1-py3-none-any.whl")], "vllm", "1")


@pytest.mark.parametrize("texts", [["vllm"], ["=1"], ["vllm="], ["vllm=1", "vllm=2"]])
def test_a_ref_is_a_name_and_a_release(texts: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^error: --ref"):
        of_wheels(ref=texts)


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        (["plan", "--vllm-ref", "0.34.0"], ["plan", "--ref", "vllm=0.34.0"]),
        (["plan", "--vllm-ref=0.34.0", "--json"], ["plan", "--ref", "vllm=0.34.0", "--json"]),
        (
            ["wheels", "--rebuild-flashinfer", "--rebuild-kernels"],
            ["wheels", "--rebuild", "flashinfer", "--rebuild", "kernels"],
        ),
        (["wheels", "--rebuild-flashinfer-jit-cache"], ["wheels", "--rebuild", "flashinfer-jit-cache"]),
        (["patches", "status", "--ref", "0.33.0"], ["patches", "status", "--ref", "0.33.0"]),
        (["verify", "--", "--vllm-ref", "x"], ["verify", "--", "--vllm-ref", "x"]),
    ],
)
def test_earlier_spellings_mean_the_same(earlier: list[str], now: list[str]) -> None:
    assert respelled(earlier) == now


@pytest.mark.parametrize("words", [["--flashinfer-ref"], ["--flashinfer-ref="], ["--flashinfer-ref", "--json"]])
def test_an_earlier_spelling_without_a_release_is_quoted_as_typed(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--flashinfer-ref needs a release"):
        respelled(["plan", *words])


def test_the_example_of_a_ref_is_a_release_that_exists() -> None:
    with pytest.raises(UsageError) as caught:
        of_wheels(ref=["vllm"])
    version = load_recipe(ROOT / "recipes/images/vllm.yaml").version
    assert (caught.value.hint or "").endswith(f"--ref vllm={version}")


def demands(reason: str) -> list[tuple[str, str]]:
    whole = f"error: No solution found when resolving dependencies\n  cause: {reason}"
    error = explained(
        whole, "\n".join(whole.splitlines()[-30:]), Platform(python="3.13", architecture="arm64", glibc=39)
    )
    assert isinstance(error, UsageError)
    return list(dict.fromkeys(_demands(error)))


def test_demands_in_the_middle_of_a_long_reason_are_read() -> None:
    """Of such a reason only the first and the last step, and the last 30 lines, are shown."""
    many = "\n".join(f"             helper<={number}" for number in range(40))
    only = f"only the following versions of helper are available:\n{many}\n         we can conclude that it fits."
    step = "And because vllm==2 depends on torch==3.1, we can conclude that vllm==2 cannot be used."
    assert demands(f"Because {only}\n{step}\nAnd because {only}") == [("torch", "3.1")]


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("w>=2 depends on x==1 and y[all]==2, we can conclude", [("x", "1"), ("y", "2")]),
        ("w>=2 depends on x==1 and y==2, we can conclude", [("x", "1"), ("y", "2")]),
        ("w>=2 depends on x==1 and y==2 depends on z==3, we can conclude", [("x", "1"), ("z", "3")]),
        ("all versions of w depend on x==1 and you require w==1, we can conclude", [("x", "1")]),
        ("it is so, we can conclude that all versions of w depend on x==1.\nAnd", [("x", "1")]),
    ],
)
def test_demands_in_uvs_words(clause: str, found: list[tuple[str, str]]) -> None:
    assert demands(f"Because {clause} that it fails.") == found


def test_the_way_out_names_what_fits_or_what_was_tried() -> None:
    recipe, first, last = load_recipe(RECIPE), UsageError("the first"), UsageError("the last")
    tried = {"vllm": "0.32.0", "torch": "2.13.0"}
    assert _way_out(recipe, first, tried, None) == "these releases fit together: --ref vllm=0.32.0 --ref torch=2.13.0"
    found = _way_out(recipe, first, tried, last)
    assert "Also tried: --ref vllm=0.32.0 --ref torch=2.13.0\nthe last\n" in found
    assert "cp recipes/images/vllm.yaml" in found
    assert _way_out(recipe, first, tried, first).startswith("choose other releases")


def test_a_layer_that_stands_in_the_way_is_found_when_it_is_optional() -> None:
    recipe = load_recipe(RECIPE)
    found = "b12x>=1.5.1 depends on torch>=2.12.0 and you require torch==2.10.0; and you require b12x==1.5.1"
    assert _optional(recipe, found) == ["b12x"]
    assert _optional(asking_less(recipe, ["b12x"]), found) == []
    assert _optional(recipe, "vllm==0.17.1 depends on flashinfer-python==0.6.4; no-b12x-here is none") == []


def test_a_package_without_a_wheel_has_a_way_out_of_its_own() -> None:
    error = UsageError("the requirements do not fit together: cuda-tile==1.6.0rc5 has no usable wheels and so on")
    hint = _way_out(load_recipe(RECIPE), error, {}, error)
    assert hint.startswith("the package index has no wheel of cuda-tile 1.6.0rc5 for this image")


def test_what_fits_and_what_does_not_is_one_recipe() -> None:
    """Requirements and source archives move with the engine; a layer that is left out binds nothing."""
    recipe = load_recipe(RECIPE)
    asked = with_refs(recipe, {"vllm": "0.30.0"})
    fit = Fit(
        releases={"torch": "2.13.0", "flashinfer-python": "0.6.18.post1", "b12x": "1.3.0"},
        added=("nvidia-nvvm==13.0.88",),
        left_out={"b12x": "it does not fit"},
    )
    made = _with_fit(asked, fit)
    wanted = ("vllm==0.30.0", "torch==2.13.0", "flashinfer-python==0.6.18.post1", "pip", "nvidia-nvvm==13.0.88")
    assert made.requirements == wanted
    assert made.sources["flashinfer"].sdist == "flashinfer-python==0.6.18.post1"
    assert _with_fit(asked, Fit()) == asked
    assert Fit.model_validate_json(fit.model_dump_json(by_alias=True)) == fit


def test_an_extra_that_a_release_does_not_know_leaves_its_layer_out() -> None:
    recipe = load_recipe(RECIPE)
    own = Demand(project="b12x", specifier=SpecifierSet("==1.5.1"), extra="b12x")
    torch = Demand(project="torch", specifier=SpecifierSet("==2.13.0"))
    release = Next(engine="vllm", version=Version("0.27.0"), old=(own, torch), new=(torch,))
    found = dict(_not_known(recipe, release, recipe.requirements))
    assert found == {"b12x": "vllm 0.27.0 has no extra that requires b12x"}
    assert dict(_not_known(recipe, replace(release, new=(own, torch)), recipe.requirements)) == {}
    assert dict(_not_known(recipe, replace(release, old=(torch,)), recipe.requirements)) == {}


def test_the_compiler_is_added_when_no_package_brings_it(recipe: Recipe, lock: Lock) -> None:
    wheels = tuple(one for one in lock.wheels.image["arm64"] if one.name not in ("nvidia-nvvm", "nvidia-cuda-cccl"))
    image = {**lock.wheels.image, "arm64": wheels}
    made = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": image})})
    assert _toolkit(recipe, lock, made) == ("nvidia-nvvm==13.0.88", "nvidia-cuda-cccl==13.0.85")
    assert _toolkit(recipe, lock, lock) == ()


@pytest.mark.parametrize(("cuda", "said"), [("none", "without CUDA"), ("12.8", "with CUDA 12.8")])
def test_torch_without_the_cuda_of_the_recipe_is_refused(recipe: Recipe, lock: Lock, cuda: str, said: str) -> None:
    require_cuda(recipe, lock, RECIPE)
    wheels = tuple(
        one.model_copy(update={"cuda": cuda}) if one.name == "torch" else one for one in lock.wheels.image["arm64"]
    )
    wrong = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": wheels}})})
    with pytest.raises(UsageError, match=f"and the package index has that for aarch64 {said} alone") as caught:
        require_cuda(recipe, wrong, RECIPE)
    assert "url: https://download.pytorch.org/whl/cu130, packages: [torch]" in (caught.value.hint or "")


@pytest.mark.parametrize(("release", "kept"), [("0.33.0", True), ("0.31.0", True), ("0.30.0", False)])
def test_kernels_of_ours_go_with_the_patch_that_calls_them(context: Context, release: str, kept: bool) -> None:
    made = without_idle_kernels(context, with_refs(load_recipe(RECIPE), {"vllm": release}))
    assert ("gb10-kernels" in made.wheels, "cutlass" in made.patches) == (kept, kept)


@pytest.mark.parametrize(
    ("engine", "refs", "taken"),
    [
        ("sglang", {"sglang": "0.5.10"}, "sglang-0.5.10"),
        ("sglang", {"sglang": "0.5.10.post1"}, "sglang-0.5.10"),
        ("sglang", {"sglang": "0.5.11"}, "sglang"),
        ("sglang", {"flashinfer": "0.7.1"}, "sglang"),
        ("sglang", {"sglang": "0.5.23"}, "sglang"),
        ("vllm", {"vllm": "0.30.0"}, "vllm"),
        ("vllm", {"vllm": "main"}, "vllm"),
        ("vllm", {}, "vllm"),
    ],
)
def test_the_recipe_of_a_release_is_taken(context: Context, engine: str, refs: dict[str, str], taken: str) -> None:
    assert recipe_of_release(context, engine, refs) == ROOT / f"recipes/images/{taken}.yaml"


def test_the_release_of_another_engine_hints_at_its_option() -> None:
    with pytest.raises(UsageError, match="requires no sglang") as caught:
        with_refs(load_recipe(RECIPE), {"sglang": "0.5.23"})
    assert "add --engine sglang\n" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="requires no numpy") as caught:
        with_refs(load_recipe(RECIPE), {"numpy": "2"})
    assert "--engine" not in (caught.value.hint or "")


def test_a_short_version_is_the_one_release_that_begins_with_it() -> None:
    names = ("0.27.0", "0.27.1", "0.30.0", "0.30.1rc1", "0.31")
    links = [link(f"vllm-{version}.tar.gz") for version in names] + [link("vllm-0.30.2.tar.gz", yanked=True)]
    assert full_release(links, "vllm", "0.30") == "0.30.0"
    assert full_release(links, "vllm", "0.31") == "0.31"
    assert full_release(links, "vllm", "0.27.0") == "0.27.0"
    assert full_release(links, "vllm", "0.99") == "0.99"
    with pytest.raises(UsageError, match=r"2 releases begin with 0\.27") as caught:
        full_release(links, "vllm", "0.27")
    assert caught.value.where == "0.27.0, 0.27.1"


@pytest.mark.parametrize(
    ("text", "short"), [("0.30", True), ("1", True), ("0.30.0", False), ("main", False), ("0.30rc1", False)]
)
def test_which_versions_are_short(text: str, short: bool) -> None:
    assert is_short(text) is short
