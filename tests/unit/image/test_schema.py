"""The models: strict, frozen, with the references between their parts."""

import pytest
from pydantic import ValidationError

from gb10.core.fields import requirement_name
from gb10.image.recipe.image_recipe import Layer, Override, Recipe
from gb10.sources.debian.mirror import LockedDeb


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Torch==2.14.0", "torch"),
        ("flashinfer_python>=0.7", "flashinfer-python"),
        ("a.b[extra]; python_version>'3'", "a-b"),
    ],
)
def test_requirement_name_is_canonical(text: str, name: str) -> None:
    assert requirement_name(text) == name


def test_nothing_is_converted() -> None:
    with pytest.raises(ValidationError, match="valid boolean"):
        Layer.model_validate({"name": "a", "rest": "true"})


def test_values_do_not_change() -> None:
    layer = Layer(name="a", rest=True)
    with pytest.raises(ValidationError, match="frozen"):
        layer.rest = False


def test_an_override_tells_why() -> None:
    with pytest.raises(ValidationError, match="why"):
        Override.model_validate({"requirement": "a>=1", "why": ""})


@pytest.mark.parametrize("path", ["/pool/a.deb", "scheme://host/pool/a.deb", "pool/a b.deb"])
def test_a_locked_deb_names_no_host(path: str) -> None:
    with pytest.raises(ValidationError, match="path"):
        LockedDeb(name="a", version="1", architecture="all", path=path, sha256="0" * 64, size=1)


def test_a_requirement_may_come_twice_under_two_markers() -> None:
    markers = ("a==1; platform_machine == 'x86_64'", "a==2; platform_machine == 'aarch64'")
    fields = Recipe.model_fields["requirements"]
    assert fields.is_required()
    assert len({requirement_name(text) for text in markers}) == 1
    recipe = Recipe.model_validate(
        {
            "engine": "e",
            "version": "1",
            "repository": "r",
            "python": "3.13",
            "cuda": "13.0",
            "workdir": "/w",
            "base": {"suite": "trixie", "packages": {"image": ()}},
            "requirements": markers,
            "layers": ({"name": "all", "rest": True},),
        }
    )
    assert recipe.requirements == markers
