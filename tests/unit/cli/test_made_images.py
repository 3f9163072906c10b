"""`run` starts the image that `image --recipe` made for the same need, and says so."""

import json
import os
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.errors import UsageError
from gb10.image.request.from_model_recipe import with_recipe
from gb10.image.request.planning import Request
from gb10.image.request.recipe_mods import load_file
from gb10.models.needs.image_need import image_need, key_of
from gb10.models.registries.recipe_file import find_recipe
from gb10.serving.run.notes import made_image, note_image

MADE = "gb10/vllm:0.33.0-cu130-sm121f-c23ea962f915"
PLAIN = "gb10/vllm:0.33.0-cu130-sm121f"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def started(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """The image of a dry run, and what is said."""
    assert main(("run", "qwen3-0.6b", *arguments, "--dry-run", "--json")) == 0
    out, said = capsys.readouterr()
    return json.loads(out)["image"], said


def key(name: str) -> str:
    return key_of(image_need(load_file(find_recipe(name))))


def test_run_finds_the_image_that_was_made_for_its_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert started(capsys)[0] == PLAIN
    note_image(os.environ, key("qwen3-0.6b"), MADE)
    image, said = started(capsys)
    assert image == MADE
    assert f"it runs {MADE}, which image --recipe made; --image {PLAIN} runs the one that it names" in said
    assert started(capsys, "--image", PLAIN)[0] == PLAIN


def test_a_request_of_a_recipe_knows_its_need_and_others_have_none() -> None:
    asked = Request(engine="vllm", arch="12.1f")
    assert asked.serves is None
    assert with_recipe(asked, "qwen3-0.6b", print, trust=False).serves == key("qwen3-0.6b")


def test_a_recipe_that_needs_another_image_does_not_find_it(tmp_path: Path) -> None:
    note_image(os.environ, key("qwen3-0.6b"), MADE)
    assert made_image(os.environ, key("qwen3-0.6b")) == MADE
    assert made_image(os.environ, key("gpt-oss-120b")) is None
    text = find_recipe("qwen3-0.6b").path.read_text(encoding="utf-8")
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace("model:", "mods: [fixed-memory]\nmodel:", 1), encoding="utf-8")
    assert key(str(changed)) != key("qwen3-0.6b")


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "gb10/made-image/v1", "image": "evil/x:1; rm"}', "[1]"])
def test_a_broken_note_is_an_error_that_names_its_file(text: str, tmp_path: Path) -> None:
    note_image(os.environ, "0" * 64, MADE)
    (note,) = (tmp_path / "gb10/images").iterdir()
    note.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="is broken") as error:
        made_image(os.environ, "0" * 64)
    assert str(note) in error.value.message
