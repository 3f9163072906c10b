"""``cache`` as a user calls it: what damage is, what is removed, what a script gets."""

import json
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
