"""``--ref`` and its earlier spellings: what of a recipe becomes another release, and what is refused."""

from dataclasses import replace

import pytest

from gb10.cli.app import respelled
from gb10.cli.build.image_options import of_wheels
from gb10.errors import UsageError
from gb10.image.lock.lockfile import input_digest, load_recipe
from gb10.image.lock.resolver import Platform, explained
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import image_tag, plan_image
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.request.planning import asking_less
from gb10.image.request.refs import _demands, _way_out, require_release, with_refs
from gb10.sources.index.page import Link
from tests.unit.image.test_mods_plan import inputs, plan

RECIPE = ROOT / "recipes/images/vllm.yaml"


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


def test_a_layer_that_stands_in_the_way_is_named_when_it_is_optional() -> None:
    recipe = load_recipe(ROOT / "recipes/images/vllm.yaml")
    found = UsageError(
        "b12x>=1.5.1 depends on torch>=2.12.0 and you require torch==2.10.0; and you require b12x==1.5.1"
    )
    assert _way_out(recipe, found, {}, found).startswith("leave out b12x, which is optional: --without b12x\n")
    assert "--without" not in _way_out(asking_less(recipe, ["b12x"]), found, {}, found)
    other = UsageError("vllm==0.17.1 depends on flashinfer-python==0.6.4; no-b12x-here is none")
    assert "--without" not in _way_out(recipe, other, {}, other)
