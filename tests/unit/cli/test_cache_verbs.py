"""``cache`` as a user calls it: what damage is, what is removed, what a script gets."""

import json
import os
import time
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.core.store import Store, seal

DAMAGED = 9


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """One wheel, as it was sealed."""
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    found = Store(tmp_path / "store")
    found.entry("wheels", "k").mkdir(parents=True)
    (found.entry("wheels", "k") / "it").write_text("content", encoding="ascii")
    seal(found.entry("wheels", "k") / "it")
    return found


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_verify_removes_what_is_damaged(
    store: Store, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "verify", *words]) == 0
    said = capsys.readouterr().out
    if words:
        whole = {"schema": "gb10/cache-verify/v1", "whole": 1, "without_hash": 0, "damaged": []}
        assert json.loads(said) == whole
    else:
        assert said == "1 entries are intact, 0 have no hash\n"
    (store.entry("wheels", "k") / "it").write_text("Content", encoding="ascii")
    assert main(["cache", "verify", *words]) == DAMAGED
    assert "1 entries were damaged; 1 of them were removed" in capsys.readouterr().err
    assert not store.entry("wheels", "k").exists()


def answer(store: Store) -> Path:
    (place,) = (store.root / "needed").iterdir()
    return place


def test_why_an_entry_is_needed_is_kept_until_a_setting_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def why() -> str | None:
        assert main(["cache", "ls", "--json"]) == 0
        entries = json.loads(capsys.readouterr().out)["entries"]
        reason: str | None = next(entry["why"] for entry in entries if entry["room"] == "wheels")
        return reason

    assert why() is None
    kept = json.loads(answer(store).read_text(encoding="utf-8"))
    planned = [row for row in kept["needed"] if row[0] == "wheels"]
    assert planned, "the images of this checkout compile wheels"
    answer(store).write_text(
        json.dumps({**kept, "needed": [*kept["needed"], ["wheels", "k", "a kept reason"]]}), encoding="utf-8"
    )
    assert why() == "a kept reason"
    monkeypatch.setenv("GB10_JOBS", "3")
    assert why() is None


def test_each_checkout_has_an_answer_and_old_ones_go(store: Store) -> None:
    for age in (29, 31):
        (store.root / "needed").mkdir(exist_ok=True)
        (store.root / f"needed/{age}").touch()
        os.utime(store.root / f"needed/{age}", (0, time.time() - age * 86_400))
    assert main(["cache", "ls"]) == 0
    assert sorted(path.name for path in (store.root / "needed").iterdir() if len(path.name) == 2) == ["29"]


@pytest.mark.parametrize("damage", ["", "[]", "{}", "not json", '{"inputs": 1, "needed": 2}', '"\\ud800'])
def test_a_damaged_answer_is_made_again(store: Store, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls"]) == 0
    before, place = capsys.readouterr().out, answer(store)
    whole = place.read_bytes()
    place.write_text(damage, encoding="utf-8")
    assert main(["cache", "ls"]) == 0
    assert (capsys.readouterr().out, place.read_bytes()) == (before, whole)


def test_an_answer_that_others_may_write_is_made_again(store: Store) -> None:
    assert main(["cache", "ls"]) == 0
    place = answer(store)
    answer(store).write_text(
        json.dumps({**json.loads(place.read_bytes()), "needed": [["wheels", "k", "a false reason"]]}), encoding="utf-8"
    )
    place.chmod(0o666)
    assert main(["cache", "ls"]) == 0
    assert "a false reason" not in place.read_text(encoding="utf-8")


def test_gc_removes_the_answer_of_earlier_versions(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    former = store.root / "needed.json"
    former.touch()
    assert main(["cache", "gc", "--keep", "1GB", "--dry-run"]) == 0
    assert former.exists()
    assert main(["cache", "gc", "--keep", "1GB"]) == 0
    assert not former.exists()
    assert f"removed {former}: an earlier version of gb10 kept it" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("call", ["is_file", "unlink"])
def test_what_another_gc_removes_at_the_same_moment_is_gone(
    store: Store, call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one removes the answer before this one does, or a log between two looks at it."""
    former, log, real = store.root / "needed.json", store.entry("logs", "a.log"), getattr(Path, call)
    log.parent.mkdir(exist_ok=True)
    former.touch()
    log.touch()

    def beside(path: Path, *more: object, **named: object) -> object:
        if call == "is_file":
            found = real(path, *more, **named)
            if path == log and found:
                path.unlink()
            return found
        if path == former:
            real(path)
        return real(path, *more, **named)

    monkeypatch.setattr(Path, call, beside)
    assert main(["cache", "gc", "--keep", "1GB"]) == 0
    assert "freed 0 bytes" in capsys.readouterr().out
    assert not former.exists()


def test_an_answer_of_earlier_versions_that_cannot_go_is_told(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (store.root / "needed.json").mkdir()
    assert main(["cache", "gc", "--keep", "1GB"]) == 0
    assert "needed.json stays: " in " ".join(capsys.readouterr().err.split())
