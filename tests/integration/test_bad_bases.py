"""Bases that nothing can be built on, served by a real registry: one error each, with what to do. Nothing is built."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import requests

from gb10.image.context import Context
from tests.integration.bases import Place, push_image, push_layer
from tests.integration.nodes import Registry, registry
from tests.integration.services import called, ran
from tests.unit.made_up_bases import File, package, packed, python

pytestmark = pytest.mark.integration

SITES = ("opt/a/lib/python3.12/site-packages", "opt/b/lib/python3.12/site-packages")
TWO = [*python("opt/a"), *python("opt/b"), *(row for site in SITES for row in package(site, "vllm", "0.33.0"))]
NONE: list[File] = [("etc/hello", "", "f")]


@pytest.fixture(scope="module")
def served(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(ctx.store, tmp_path_factory.mktemp("registry"), delete=True) as found:
        yield found


@pytest.fixture
def place(ctx: Context, served: Registry, tmp_path: Path) -> Place:
    return Place(host=served.host, store=ctx.store, folder=tmp_path)


@pytest.fixture
def over(tmp_path: Path) -> tuple[str, ...]:
    """A change that fits any image."""
    (tmp_path / "over/etc").mkdir(parents=True)
    (tmp_path / "over/etc/mine").write_text("mine", encoding="utf-8")
    return ("--overlay", str(tmp_path / "over"), "--dry-run")


def pushed(place: Place, files: Iterable[File], tag: str = "1", **settings: object) -> str:
    layer = push_layer(place, "bad/base", lambda out: out.write(packed(*files)))
    return push_image(place, "bad/base", [layer], {"Env": ["PATH=/opt/a/bin:/opt/b/bin"], **settings}, tag=tag)


def test_no_python(place: Place, over: tuple[str, ...]) -> None:
    base = pushed(place, NONE)
    for more in (over, ("--kernels", "core"), ("--kernels", "gb10-moe")):
        code, out, said = called("image", "--from", base, *more)
        assert (code, out) == (2, "")
        assert f"error: {base} holds no Python\nhint: build on an image that holds vLLM or SGLang" in said


def test_two_pythons_with_an_engine_and_the_one_that_is_named(place: Place, tmp_path: Path) -> None:
    base, path = pushed(place, TWO), tmp_path / "mine.yaml"
    code, _, said = called("plan", "--from", base)
    assert code == 2
    assert f"{base} has several Pythons with an engine" in said
    assert f"/opt/a/bin/python3: vllm 0.33.0 in /{SITES[0]}" in said
    assert f"/opt/b/bin/python3: vllm 0.33.0 in /{SITES[1]}" in said
    assert "`python: PATH`" in said
    path.write_text(f"base: {{image: '{base}', python: /opt/c/bin/python3}}\n", encoding="utf-8")
    code, _, said = called("lock", "--engine", str(path))
    assert (code, "has no Python /opt/c/bin/python3" in said, "hint: name one of these" in said) == (2, True, True)
    path.write_text(f"base: {{image: '{base}', python: /opt/b/bin/python3.12}}\n", encoding="utf-8")
    ran("lock", "--engine", str(path))
    assert '"interpreter": "/opt/b/bin/python3.12"' in path.with_suffix(".lock.json").read_text(encoding="utf-8")


def test_another_platform(place: Place, over: tuple[str, ...]) -> None:
    base = pushed(place, [*python("opt/a"), *package(SITES[0], "vllm", "0.33.0")])
    code, _, said = called("image", "--from", base, "--platform", "linux/amd64", *over)
    assert code == 10
    assert f"error: {base} is not for linux/amd64\n  it is for linux/arm64\nhint: name an image for linux/amd64" in said
    assert "--platform linux/arm64" in said


def test_a_tag_that_moved_keeps_its_digest_until_the_registry_deletes_that(
    place: Place, over: tuple[str, ...], tmp_path: Path, ctx: Context
) -> None:
    files = [*python("opt/a"), *package(SITES[0], "vllm", "0.33.0")]
    first = pushed(place, files, "moving")
    path = tmp_path / "mine.yaml"
    path.write_text(f"base: {{image: '{place.host}/bad/base:moving'}}\n", encoding="utf-8")
    ran("lock", "--engine", str(path))
    second = pushed(place, files, "moving", Labels={"later": "yes"})
    assert first != second
    assert ran("lock", "--check", "--engine", str(path)) == ""
    ran("lock", "--engine", str(path))
    assert first in path.with_suffix(".lock.json").read_text(encoding="utf-8")
    digest = first.rpartition("@")[2]
    assert requests.delete(f"http://{place.host}/v2/bad/base/manifests/{digest}", timeout=60).status_code == 202
    assert called("image", "--from", first, *over)[0] == 0  # it was read before
    never = f"{place.host}/bad/base@sha256:{'0' * 64}"
    code, _, said = called("image", "--from", never, *over)
    assert code == 10
    assert "a registry may delete what no tag names any more: name the tag again, or `lock --upgrade base`" in said
    code, _, said = called("image", "--from", f"{place.host}/bad/base:never", *over)
    assert (code, "check the name, the tag and the login" in said) == (10, True)


def test_what_would_run_when_it_is_built_on(place: Place, over: tuple[str, ...]) -> None:
    code, _, said = called("image", "--from", pushed(place, NONE, OnBuild=["RUN evil"]), *over)
    assert (code, "has ONBUILD instructions" in said, "hint: build on an image that has none" in said) == (
        2,
        True,
        True,
    )


def test_commands_of_a_dockerfile_are_not_checked_on_them(place: Place, tmp_path: Path) -> None:
    """``adopt --trust`` says why, and writes the recipe without the commands; ``lock`` of it is the same one error."""
    good = [*python("opt/a"), *package(SITES[0], "vllm", "0.33.0")]
    cases = (
        (pushed(place, NONE), "", "holds no Python"),
        (pushed(place, TWO), "", "has several Pythons with an engine"),
        (pushed(place, good), "--platform=linux/amd64 ", "is not for linux/amd64"),
        (f"{place.host}/bad/base@sha256:{'0' * 64}", "", f"has no sha256:{'0' * 64}"),
    )
    for number, (base, platform, why) in enumerate(cases):
        (tmp_path / "Dockerfile").write_text(f"FROM {platform}{base}\nRUN touch /a\n", encoding="utf-8")
        recipe = tmp_path / f"mine{number}.yaml"
        code, _, said = called("adopt", str(tmp_path), "--trust", "-o", str(recipe))
        assert code == 13, said
        assert why in said
        assert "the commands did not run: " in said
        assert "mods:" not in recipe.read_text(encoding="utf-8")
        code, _, said = called("lock", "--engine", str(recipe))
        assert (code != 0, why in said, "hint: " in said) == (True, True, True), said
