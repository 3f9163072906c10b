"""What the installer leaves: nothing that tells when it ran."""

from pathlib import Path

from gb10.inside.install.install import compile_batch, remove_uv_notes


def test_nothing_of_the_moment_stays(tmp_path: Path) -> None:
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    (tmp_path / ".lock").touch()
    (info / "uv_cache.json").write_text('{"timestamp": 1}', encoding="utf-8")
    kept = "demo/a.py,sha256=x,1\r\ndemo-1.0.dist-info/RECORD,,\r\n"
    own = "demo-1.0.dist-info/uv_cache.json,sha256=y,16\r\n"
    (info / "RECORD").write_bytes((own + kept).encode())
    remove_uv_notes(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["RECORD", "demo-1.0.dist-info"]
    assert (info / "RECORD").read_bytes() == kept.encode()


def test_what_does_not_parse_is_named_and_kept_as_source(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("x = 1\n", encoding="utf-8")
    bad.write_text("x = (\n", encoding="utf-8")
    assert compile_batch([good, bad], tmp_path) == [bad]
    [made] = tmp_path.rglob("*.pyc")
    data = made.read_bytes()
    assert made.name.startswith("good.")
    assert data[4:8] == b"\x03\0\0\0"  # held against the hash of its source: no time stamp
    assert str(tmp_path).encode() not in data
