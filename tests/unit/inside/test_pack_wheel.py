"""pack_wheel: names, tags, reproducibility, and what it reads out of real ELF files."""

import json
import platform
import struct
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from gb10.inside.compile import pack_wheel

MACHINE = platform.machine()
LIBRARY = Path(sys.executable).resolve()
EPOCH = 1_763_683_200

pytestmark = pytest.mark.skipif(MACHINE not in pack_wheel.MACHINES, reason="no manylinux policy for this machine")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    module = tmp_path / "built" / "norm"
    module.mkdir(parents=True)
    (module / "norm.so").write_bytes(LIBRARY.read_bytes())
    manifest = {"flashinfer": "0.7.2.post1", "modules": {"norm": {"cubins": ["12.1f"]}}}
    (module.parent / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return module.parent


def run(monkeypatch: pytest.MonkeyPatch, built: Path, out: Path, key: str = "0123abcd") -> Path:
    argv = ["pack_wheel.py", "--built", built, "--key", key, "--machine", MACHINE, "--epoch", EPOCH, "--out", out]
    monkeypatch.setattr(sys, "argv", [str(word) for word in argv])
    pack_wheel.main()
    return next(out.glob("*.whl"))


def test_name_is_what_installers_parse(monkeypatch: pytest.MonkeyPatch, built: Path, tmp_path: Path) -> None:
    name, version, _, tags = parse_wheel_filename(run(monkeypatch, built, tmp_path / "out").name)
    assert (name, str(version)) == ("flashinfer-jit-cache", "0.7.2.post1+gb10.0123abcd")
    assert [tag.platform.endswith(MACHINE) for tag in tags] == [True]


def test_same_input_same_bytes(monkeypatch: pytest.MonkeyPatch, built: Path, tmp_path: Path) -> None:
    first, second = (run(monkeypatch, built, tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_record_covers_every_file(monkeypatch: pytest.MonkeyPatch, built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(run(monkeypatch, built, tmp_path / "out")) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
        rows = [line.rsplit(",", 2) for line in wheel.read(record).decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(wheel.namelist())
        for name, sha256, size in rows[:-1]:
            assert (f"sha256={pack_wheel.digest(wheel.read(name))}", len(wheel.read(name))) == (sha256, int(size))


@pytest.mark.parametrize("key", ["0123abcd", "01234567", "00000000", "12345678", "deadbeef"])
def test_local_version_is_already_normal(key: str) -> None:
    version = pack_wheel.local_version("0.7.2.post1", key)
    assert str(Version(version)) == version


def test_tag_asks_no_more_than_this_machine_runs() -> None:
    """The interpreter runs here, so what it needs is at most the C library that is here."""
    here = int(platform.libc_ver()[1].split(".")[1])
    assert 17 <= pack_wheel.glibc_minor(LIBRARY.read_bytes(), MACHINE) <= here


@pytest.mark.parametrize(("patch", "minor"), [(11, 17), (22, 24), (29, 34), (32, 39), (33, 39)])
def test_libstdcxx_floor(patch: int, minor: int) -> None:
    assert pack_wheel.libstdcxx_floor(patch) == minor


def test_unknown_libstdcxx_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"GLIBCXX_3\.4\.99"):
        pack_wheel.libstdcxx_floor(99)


def test_library_of_another_machine_is_refused() -> None:
    elf = bytearray(LIBRARY.read_bytes())
    struct.pack_into("<H", elf, 18, 8)
    with pytest.raises(SystemExit, match="ELF machine 8"):
        pack_wheel.glibc_minor(bytes(elf), MACHINE)
