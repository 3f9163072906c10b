"""``lock --upgrade engine`` for real on a small recipe: pydantic 2.10.0 demands pydantic-core 2.27.0, 2.11.0 2.33.0."""

import json
import os
from pathlib import Path

import pytest

from gb10.cli.build.lock import print_upgrade
from gb10.errors import UsageError
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import check_lock, load_lock, load_recipe, lock_path, write_lock
from gb10.image.upgrade.proposal import propose, write
from tests.recipes import empty_lock, small_recipe

pytestmark = pytest.mark.integration

RECIPE = (
    small_recipe(
        "sources: {pydantic: {sdist: pydantic==2.10.0}} # its own archive\n",
        requirements="\n  - pydantic==2.10.0 # the engine\n  -   pydantic-core==2.27.0   # what 2.10.0 asks for\n"
        "  - typing-extensions==4.12.2",
    )
    .replace("engine: small", "engine: pydantic")
    .replace('version: "1"', "version: 2.10.0")
)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return open_context({**os.environ, "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)


def recipe(folder: Path, text: str) -> Path:
    """A locked recipe, with a lock that holds nothing yet: no Debian package is looked up."""
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    write_lock(lock_path(path), empty_lock(load_recipe(path)))
    return path


def test_the_pins_move_and_the_text_stays(ctx: Context, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(tmp_path, RECIPE)
    found = propose(ctx, path, "2.11.0")
    assert path.read_text(encoding="utf-8") == RECIPE
    write(found)
    new = RECIPE.replace("version: 2.10.0", "version: 2.11.0").replace("pydantic==2.10.0", "pydantic==2.11.0")
    assert path.read_text(encoding="utf-8") == new.replace("pydantic-core==2.27.0", "pydantic-core==2.33.0")
    lock = load_lock(lock_path(path))
    check_lock(load_recipe(path), lock, path)
    versions = {wheel.name: wheel.version for wheel in lock.wheels.image["arm64"]}
    assert (versions["pydantic"], versions["pydantic-core"], versions["typing-extensions"]) == (
        "2.11.0",
        "2.33.0",
        "4.12.2",
    )
    print_upgrade(ctx, found, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert {(move["what"], move["from"], move["to"]) for move in document["moved"]} == {
        ("version", "2.10.0", "2.11.0"),
        ("pydantic", "2.10.0", "2.11.0"),
        ("pydantic-core", "2.27.0", "2.33.0"),
    }
    assert [row["text"] for row in document["still_named"]] == ["-   pydantic-core==2.33.0   # what 2.10.0 asks for"]
    assert propose(ctx, path, "2.11.0").moves == ()


def test_a_release_that_does_not_fit_is_one_sentence_and_no_file(ctx: Context, tmp_path: Path) -> None:
    path = recipe(tmp_path, f"{RECIPE}constraints: [pydantic-core<2.30]\n")
    before = {file: file.read_bytes() for file in (path, lock_path(path))}
    with pytest.raises(UsageError) as caught:
        propose(ctx, path, "2.11.0")
    assert caught.value.message.startswith("pydantic 2.11.0 is not proposed: the requirements do not fit together on ")
    assert caught.value.hint
    assert {file: file.read_bytes() for file in (path, lock_path(path))} == before
