"""README's line to pull an image, made from where images are published and from the recipe; ``--update-golden``."""

import re
from typing import Annotated

import pytest
from pydantic import StringConstraints

from gb10.containers.reference import check_reference
from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import DEFAULT_ENGINE, ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.recipe.arch import parse_arch
from tests.recipes import SHIPPED

README = ROOT / "README.md"
FILE = "recipes/published.yaml"
BLOCK = re.compile(r"(?<=<!-- pull -->\n).*?(?=<!-- /pull -->)", re.DOTALL)


class PublishedImages(Model):
    """recipes/published.yaml."""

    repository: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+$")] | None


def pull_block(repository: str | None, tag: str) -> str:
    """What README says of pulling."""
    if repository is None:
        return "Nobody has published an image yet: build one, or pull from a registry of your own.\n"
    reference = check_reference(f"{repository}/{DEFAULT_ENGINE}:{tag}")
    return f"```console\n$ docker pull {reference}\n```\n"


def moving_tag() -> str:
    """The tag that moves, of the default engine's recipe."""
    path = ROOT / f"recipes/images/{DEFAULT_ENGINE}.yaml"
    arch = parse_arch("12.1f")
    options = Options(arch=arch, platform=arch.platform, build="amd64")
    tags = plan_image(load_recipe(path), load_lock(lock_path(path)), SHIPPED.toolkit, options).tags
    return min((tag.rpartition(":")[2] for tag in tags), key=len)


def test_the_pull_line_is_that_of_the_recipe(request: pytest.FixtureRequest) -> None:
    where = parse_document((ROOT / FILE).read_text(encoding="utf-8"), PublishedImages, where=FILE, what="place")
    text = README.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda _: pull_block(where.repository, moving_tag()), text)
    if request.config.getoption("--update-golden"):
        README.write_text(made, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == made, (
        "stale: python3 -m bootstrap -m pytest tests/golden --update-golden"
    )


def test_readme_names_the_tag_of_the_recipe_wherever_it_names_one() -> None:
    named = {*re.findall(r"gb10/vllm:(\S+?)(?=[\s`]|-[0-9a-f]{12}\b)", README.read_text(encoding="utf-8"))}
    assert named == {moving_tag()}


def test_the_first_screen_tries_pulls_builds_and_runs_in_this_order() -> None:
    text = README.read_text(encoding="utf-8")
    places = [text.index(words) for words in ("./build.py verify IMAGE", "<!-- pull -->", "## Build", "## Run it")]
    assert places == sorted(places)


def test_an_image_that_is_published_has_one_line_to_pull() -> None:
    assert pull_block("host.example/me/gb10", "1-cu130-sm121f").splitlines()[1] == (
        "$ docker pull host.example/me/gb10/vllm:1-cu130-sm121f"
    )
    with pytest.raises(UsageError):
        pull_block("host.example/me/gb10", "a b")
