"""Wheels and directories that nobody should trust: each is read, or refused in one sentence, and costs little."""

import json
import os
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gb10.errors import UsageError, VerifyError
from gb10.image.build.contexts import write_tree
from gb10.image.build.inspect import check_platform
from gb10.image.proof.reading import read_markers, read_scan, scan_path
from gb10.image.proof.wheel_files import RATIO, SMALL, declares, read_manifest
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.scan import Scan

MADE = Path(__file__).parents[1] / "unit/data/scan"
LIBRARY = (MADE / "libk.so").read_bytes()


def wheel_of(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A wheel of these files."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def manifest(**modules: Mapping[str, object]) -> bytes:
    """A manifest of these modules."""
    return json.dumps({"arch": "12.1f", "modules": modules}).encode()


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (6, struct.pack("<H", 1)),
        (8, struct.pack("<H", 99)),
        (4, struct.pack("<H", 99)),
        (6, struct.pack("<H", 0x20)),
        (6, struct.pack("<H", 0x40)),
    ],
    ids=["encrypted", "unknown compression", "later zip", "patched data", "strongly encrypted"],
)
def test_a_zip_that_python_cannot_unpack_is_refused(offset: int, value: bytes, tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path / "k.whl", {"k.so": LIBRARY})
    content = bytearray(wheel.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[offset : offset + 2] = value
    content[central + offset + 2 : central + offset + 4] = value
    wheel.write_bytes(content)
    with pytest.raises(VerifyError, match=r"damaged or cannot be unpacked|is encrypted"):
        scan_path(wheel)


def test_a_wheel_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path / "k.whl", {"k.so": LIBRARY + bytes(SMALL)})
    assert wheel.stat().st_size * RATIO < SMALL + len(LIBRARY)
    with pytest.raises(VerifyError, match="unpacks to more than 100 times its size"):
        scan_path(wheel)


def test_a_large_library_of_a_wheel_is_not_held_in_memory(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path / "k.whl", {"k.so": LIBRARY + bytes(80 << 20)}, zipfile.ZIP_STORED)
    code = f"from pathlib import Path; from gb10.image.proof.reading import scan_path; scan_path(Path({str(wheel)!r}))"
    limit = 110 << 20  # bytes; Python and its modules take 60 MiB
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )


@pytest.mark.parametrize("suffix", [".whl", ".so", ""])
def test_a_pipe_is_refused_at_once(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        scan_path(tmp_path / f"pipe{suffix}")


def test_a_directory_of_odd_things_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.whl")
    os.mkfifo(tmp_path / ".pipe-arch")
    (tmp_path / "folder.whl").mkdir()
    (tmp_path / "gone.whl").symlink_to("nowhere")
    (tmp_path / ".k-arch").write_bytes(b"\xff12.1f\n" + bytes(1 << 20))
    (tmp_path / "link.whl").symlink_to(wheel_of(tmp_path / "k.whl", {"k.so": LIBRARY}))
    assert [found.path for found in scan_path(tmp_path).binaries] == ["k.whl/k.so", "link.whl/k.so"]
    assert read_markers(tmp_path) == {".k-arch": "\N{REPLACEMENT CHARACTER}12.1f"}


@pytest.mark.parametrize(
    "name", ["../ESCAPED.so", "vllm/../../../../ESCAPED.so", "/etc/ESCAPED.so", "", ".", "a//b.so", "./k.so", "a\0b"]
)
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path / "k.whl", {"k/manifest.json": manifest(k={"file": name, "cubins": ["12.1f"]})})
    assert declares(wheel)
    with pytest.raises(VerifyError, match="malformed"):
        read_manifest(wheel)
    with pytest.raises(UsageError, match="leads out of its folder"):
        write_tree(tmp_path / "tree" / "below", {name: b"x"})
    assert not list(tmp_path.rglob("ESCAPED.so"))


@pytest.mark.parametrize("platform", ["linux/arm64\nRUN evil", "linux/arm64 AS x", "linux/$(x)", "linux", "/arm64", ""])
def test_a_platform_that_holds_more_than_a_name_is_refused(platform: str) -> None:
    with pytest.raises(UsageError, match="cannot be one"):
        check_platform("some:image", platform)
    check_platform("some:image", "linux/arm/v7")


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"modules": 1}', b'{"modules": {"k": {}}}', b"[" * 100_000, b"\xff", b"1" * 5000]
)
def test_a_malformed_manifest_is_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match="malformed"):
        read_manifest(wheel_of(tmp_path / "k.whl", {"k/manifest.json": text}))


def test_a_manifest_of_gigabytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match="more than"):
        read_manifest(wheel_of(tmp_path / "k.whl", {"k/manifest.json": bytes(20 << 20)}))


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "1", "[" * 9999, '{"schema": "gb10/scan/v1"}', '{"schema": "gb10/scan/v2"}'),
        '{"schema": "gb10/scan/v2", "root": "", "binaries": [{}]}',
        '{"schema": "gb10/scan/v2", "root": "", "contents": {"a": [1]}}',
        '{"schema": "gb10/scan/v2", "root": "", "hazards": [{"path": 1, "kind": "secret"}]}',
    ],
)
def test_an_emptied_scan_is_no_scan(text: str) -> None:
    with pytest.raises(VerifyError, match=r"cut short|not a"):
        read_scan(text, "layer 3")


@pytest.mark.parametrize("code", ["sm_²", "sm_" + "1" * 5000, "\x1b[31m", ""])
def test_a_scan_with_code_that_cannot_be_is_refused(code: str) -> None:
    binary = Binary(path="a.so", kind="elf", size=1, units=(Unit(codes={code: 1}, count=1),))
    with pytest.raises(VerifyError, match="cannot be"):
        read_scan(Scan(root="", binaries=(binary,)).to_json(), "layer 3")
