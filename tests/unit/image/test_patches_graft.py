"""A grafted wheel: what changed is new, what did not is the very same bytes."""

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from gb10.errors import PatchError
from gb10.image.patches.graft import check_changes, graft, local_version

KEY = "0123abcd" * 8
FILES = {
    "demo/a.py": b"a = 1\n",
    "demo/b, c.py": b"b = 2\n" * 500,
    "demo/c.so": bytes(range(256)) * 40,
    "demo-1.0.data/scripts/run": b"#!python\n",
    "demo-1.0.dist-info/licenses/MIT, too": b"free\n",
    "demo/tool.sh": b"#!/bin/sh\n",
    "demo-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
    "demo-1.0.dist-info/METADATA": b"Name: demo\nVersion: 1.0\n\nVersion: of the text\n",
}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            entry.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            rows.writerow([name, f"sha256={sha(content)}", len(content)])
        rows.writerow(["demo-1.0.dist-info/RECORD", "", ""])
        last = zipfile.ZipInfo("demo-1.0.dist-info/RECORD")
        last.external_attr = 0o100644 << 16
        archive.writestr(last, record.getvalue())
    return path


def sha(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def test_only_what_changed_changes(wheel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    changes = {"demo/a.py": b"a = 2\n", "demo/new.py": b"", "demo/tool.sh": b"#!/bin/bash\n"}
    grafted = graft(wheel, changes, KEY, out)
    assert parse_wheel_filename(grafted.name)[1] == Version("1.0+gb10.0123abcd")
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(grafted) as after:
        assert after.testzip() is None
        names = {name.replace("demo-1.0.", "demo-1.0+gb10.0123abcd.") for name in before.namelist()} | {"demo/new.py"}
        assert set(after.namelist()) == names
        for name in ("demo/b, c.py", "demo/c.so"):
            assert raw(wheel, before.getinfo(name)) == raw(grafted, after.getinfo(name))
        modes = {entry.filename: oct(entry.external_attr >> 16) for entry in after.infolist()}
        assert [name for name, mode in modes.items() if mode != "0o100644"] == ["demo/tool.sh"]
        assert modes["demo/tool.sh"] == "0o100755"
        assert after.read("demo/a.py") == b"a = 2\n"
        metadata = after.read("demo-1.0+gb10.0123abcd.dist-info/METADATA")
        assert metadata == FILES["demo-1.0.dist-info/METADATA"].replace(b"Version: 1.0", b"Version: 1.0+gb10.0123abcd")
        rows = list(csv.reader(io.StringIO(after.read("demo-1.0+gb10.0123abcd.dist-info/RECORD").decode())))
        assert {row[0] for row in rows} == names
        assert all(row[1:] == [f"sha256={sha(after.read(row[0]))}", str(len(after.read(row[0])))] for row in rows[:-1])
        assert rows[-1] == ["demo-1.0+gb10.0123abcd.dist-info/RECORD", "", ""]
    (again := tmp_path / "again").mkdir()
    second = graft(wheel, dict(reversed(changes.items())), KEY, again)
    assert second.read_bytes() == grafted.read_bytes()


def raw(path: Path, entry: zipfile.ZipInfo) -> bytes:
    """The compressed bytes as they lie in the archive."""
    content = path.read_bytes()
    start = entry.header_offset + 30 + len(entry.filename)
    return content[start : start + entry.compress_size]


REFUSED = [({"csrc/a.cu": b""}, "no place for csrc/a.cu"), ({"demo/a.py": None}, "deletes")]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_what_a_wheel_cannot_take_is_refused(
    wheel: Path, changes: dict[str, bytes | None], why: str, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(PatchError, match=why):
        graft(wheel, changes, KEY, tmp_path / "out")


def test_local_versions() -> None:
    assert local_version(Version("0.33.0"), KEY) == "0.33.0+gb10.0123abcd"
    assert local_version(Version("0.33.0+cu130"), KEY) == "0.33.0+cu130.gb10.0123abcd"
    assert local_version(Version("1.0"), "01234567") == "1.0+gb10.1234567"


@pytest.mark.parametrize("name", ["demo/../../a.py", "demo//a.py", "demo/./a.py", "/demo/a.py", "../demo/a.py", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str, wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="has no place for"):
        check_changes(wheel, {name: b""})
    with pytest.raises(PatchError, match="has no place for"):
        graft(wheel, {name: b""}, KEY, tmp_path)
