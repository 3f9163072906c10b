"""The lock as a file: what makes it stale, what does not, and what is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gb10.errors import LockStaleError, UsageError
from gb10.image.lock.lockfile import (
    base_digest,
    check_lock,
    input_digest,
    load_lock,
    load_recipe,
    lock_path,
    lock_text,
    write_lock,
)
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock

RECIPE = ROOT / "recipes/images/vllm.yaml"


def edited(folder: Path, old: str, new: str) -> Recipe:
    text = RECIPE.read_text(encoding="utf-8")
    assert old in text
    path = folder / "recipe with spaces.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return load_recipe(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# vLLM for", "# vllm for"),
        ("  - torch==2.14.0", "  -   torch==2.14.0 # another word"),
        ("      - ccache\n      - g++\n", "      - g++\n      - ccache\n"),
        ("repository: gb10/vllm", "repository: gb10/other"),
        ("HF_HOME: /var/cache/gb10/huggingface", "HF_HOME: /hf"),
        ("why: vLLM", "why: The engine vLLM"),
    ],
)
def test_what_decides_no_file_leaves_the_lock_fresh(tmp_path: Path, recipe: Recipe, old: str, new: str) -> None:
    assert input_digest(edited(tmp_path, old, new)) == input_digest(recipe)


@pytest.mark.parametrize(
    ("edit", "base"),
    [
        (("torch==2.14.0", "torch==2.14.1"), False),
        (("nvidia-nvvm==13.0.88", "nvidia-nvvm==13.0.89"), False),
        (("certifi>=2026.1", "certifi>=2026.2"), False),
        (("  - ninja\n", ""), False),
        (("{sdist: flashinfer-python==0.7.2.post1}", "{sdist: flashinfer-python==0.7.3}"), False),
        (('python: "3.13"', 'python: "3.14"'), False),
        (("requirements:", "exclude-newer: 2026-11-20\nrequirements:"), False),
        (("      - ccache\n", ""), True),
        (("requirements:", "indexes: {own: {url: https://a.invalid/whl, packages: [torch]}}\nrequirements:"), False),
        (("suite: trixie", "suite: bookworm"), True),
        (("amd64: [g++-aarch64", "amd64: [g++-14-aarch64"), True),
    ],
)
def test_what_decides_a_file_makes_the_lock_stale(
    tmp_path: Path, recipe: Recipe, lock: Lock, edit: tuple[str, str], base: bool
) -> None:
    changed = edited(tmp_path, *edit)
    with pytest.raises(LockStaleError, match="changed since it was locked"):
        check_lock(changed, lock, RECIPE)
    assert (base_digest(changed) != base_digest(recipe)) == base


@pytest.mark.parametrize("path", sorted(RECIPE.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_committed_lock_is_fresh_as_we_write_it_and_names_no_host(path: Path) -> None:
    lock = load_lock(lock_path(path))
    check_lock(load_recipe(path), lock, path)
    assert lock_path(path).read_text(encoding="utf-8") == lock_text(lock)
    assert "://" not in lock_text(lock)


def test_one_project_has_one_version_everywhere(lock: Lock) -> None:
    sets = [*lock.wheels.image.values(), *lock.wheels.tools.values()]
    versions: dict[str, set[str]] = {}
    for wheel in (wheel for wheels in sets for wheel in wheels):
        versions.setdefault(wheel.name, set()).add(wheel.version)
    assert not {name: found for name, found in versions.items() if len(found) > 1}


def test_written_and_read_again_is_the_same(tmp_path: Path, lock: Lock) -> None:
    path = tmp_path / "a b" / "vllm.lock.json"
    path.parent.mkdir()
    write_lock(path, lock)
    assert load_lock(path) == lock
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert json.loads(text) == json.loads(json.dumps(json.loads(text), sort_keys=True))


def test_no_lock_yet(tmp_path: Path) -> None:
    with pytest.raises(LockStaleError, match="never locked") as caught:
        load_lock(tmp_path / "x-1.2.lock.json")
    assert caught.value.hint == f"./build.py lock --engine {tmp_path / 'x-1.2.yaml'}"


@pytest.mark.parametrize(
    "text", ["", "{", "<<<<<<< ours", "{}", '{"version": 2}'], ids=["empty", "cut", "merge", "nothing", "newer"]
)
def test_a_damaged_lock_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.lock.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LockStaleError, match="not a lock"):
        load_lock(path)


def test_a_place_that_cannot_be_written(tmp_path: Path, lock: Lock) -> None:
    with pytest.raises(UsageError, match="cannot write the lock"):
        write_lock(tmp_path / "absent" / "x.lock.json", lock)


def changed(path: Path, old: str, new: str) -> Path:
    text = lock_path(RECIPE).read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('-none-any.whl"', '.whl"', "filename"),
        ('"filename": "', '"filename": "../', "filename"),
        ('"filename": "', '"filename": "\\u0000', "filename"),
        ('"version": "2.14.0', '"version": "x.y-2.14.0', "version"),
        ('"path": "pool/', '"path": "pool/../', "path"),
        ('  "arm64": [', '  "arm65": [', "arm65"),
    ],
)
def test_a_lock_that_names_no_file_is_refused(tmp_path: Path, old: str, new: str, place: str) -> None:
    with pytest.raises(LockStaleError, match="not a lock") as caught:
        load_lock(changed(tmp_path / "x.lock.json", old, new))
    assert place in str(caught.value)


def test_a_lock_holds_both_architectures(tmp_path: Path) -> None:
    document = json.loads(lock_path(RECIPE).read_text(encoding="utf-8"))
    del document["wheels"]["tools"]["arm64"]
    (tmp_path / "x.lock.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(LockStaleError) as caught:
        load_lock(tmp_path / "x.lock.json")
    assert "it holds nothing for arm64" in str(caught.value)


def test_writers_at_the_same_time_leave_a_whole_lock(tmp_path: Path, lock: Lock) -> None:
    other = lock.model_copy(update={"created": lock.created.replace(year=2031)})
    path = tmp_path / "x.lock.json"
    with ThreadPoolExecutor(4) as pool:
        for turn in [pool.submit(write_lock, path, one) for one in [lock, other] * 20]:
            turn.result()
    assert load_lock(path) in (lock, other)
    assert list(tmp_path.iterdir()) == [path]
