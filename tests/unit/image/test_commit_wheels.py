"""Which of a commit's wheels fit an image, and a recipe on one of them."""

from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import COMMIT_WHEELS, Recipe, Source
from gb10.image.request.commit_wheels import CommitWheel, newest_version, with_commit_wheel, without_commit_wheel
from gb10.image.request.refs import with_refs
from gb10.image.request.saved_recipe import recipe_text
from gb10.sources.index.page import Link

COMMIT = "c" * 40
BOTH = ("aarch64", "x86_64")


def links(version: str, *machines: str, yanked: bool = False) -> list[Link]:
    names = [f"vllm-{version}-cp38-abi3-manylinux_2_28_{machine}.whl" for machine in machines]
    return [Link(filename=name, url=f"https://index.invalid/{name}", yanked=yanked) for name in names]


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe(ROOT / "recipes/images/vllm.yaml")


@pytest.mark.parametrize(
    ("page", "version"),
    [
        (links("0.34.0.dev2+gabc", *BOTH), "0.34.0.dev2+gabc"),
        (links("0.34.0.dev2+gabc.cu130", *BOTH), "0.34.0.dev2+gabc.cu130"),
        (links("0.34.0.dev2+gabc.cu129", *BOTH), None),  # built for another CUDA
        (links("0.34.0.dev2+gabc", "aarch64"), None),
        (links("0.34.0.dev2+gabc", "x86_64"), None),
        (links("0.34.0.dev2+gabc", *BOTH, yanked=True), None),
        ([*links("0.34.0.dev2", *BOTH), *links("0.34.0.dev10", *BOTH)], "0.34.0.dev10"),
        ([Link(filename="vllm-0.34.0.tar.gz", url=""), Link(filename="x.txt", url="")], None),
        ([], None),
    ],
)
def test_the_version_of_a_page_that_fits(recipe: Recipe, page: list[Link], version: str | None) -> None:
    assert newest_version(recipe, page) == version


def test_a_recipe_on_the_wheel_of_a_commit_is_saved_and_goes_back_to_a_release(recipe: Recipe, tmp_path: Path) -> None:
    version = "0.34.0.dev2+gabc"
    wheel = CommitWheel(commit=COMMIT, version=version, index="https://index.invalid/c", git="https://git.invalid/vllm")
    own = with_commit_wheel(with_refs(recipe, {"vllm": version}), wheel)
    assert own.index_of == {"vllm": "https://index.invalid/c"}
    assert own.sources["vllm"] == Source(git="https://git.invalid/vllm", commit=COMMIT)
    path = tmp_path / "mine.yaml"
    assert parse_document(recipe_text(own, path), Recipe, where=str(path), what="image recipe") == own
    back = with_refs(without_commit_wheel(own), {"vllm": recipe.version})
    assert COMMIT_WHEELS not in back.indexes
    assert back == recipe
