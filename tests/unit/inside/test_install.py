"""What the installer leaves: nothing that tells when it ran."""

from pathlib import Path

from gb10.inside.install.install import remove_uv_notes


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
