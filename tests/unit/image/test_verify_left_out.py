"""What ``verify`` left out of a file, a wheel or a folder is a row; a folder of packages is read as an image."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.core.checked import NotChecked
from gb10.image.proof.check import Subject, Target
from gb10.image.proof.left_out import PARTS, left_out
from gb10.image.proof.reading import scan_path
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.scan import Scan

DRIVES = ("gb10.image.proof.checks.requirements",)  # through others: see tests/mutations.py

SITE = "lib/python3.12/site-packages"


def rows(path: Path) -> list[NotChecked]:
    found = list(left_out(path, Subject(scan=scan_path(path), target=Target())))
    assert {row.what for row in found} <= set(PARTS)
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A virtual environment's folder of packages with one package."""
    folder = tmp_path / "venv" / SITE
    (folder / "x-1.dist-info").mkdir(parents=True)
    (folder / "x").mkdir()
    (folder / "x-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1\n", encoding="utf-8")
    shutil.copy(Path(os.path.realpath(sys.executable)), folder / "x/a.so")
    return folder


def test_a_whole_folder_has_no_row(site: Path) -> None:
    assert rows(site) == []


def test_a_file_that_cannot_be_opened_was_not_checked() -> None:
    shut = Binary(path="a.so", kind="unreadable", size=0, error="Permission denied")
    subject = Subject(scan=Scan(root="x", binaries=(shut,)), target=Target())
    (row,) = left_out(Path("/nowhere"), subject)
    assert (row.what, "Permission denied" in row.reason) == ("files", True)


def test_an_elf_of_32_bits_was_not_checked(site: Path) -> None:
    (site / "x/old.so").write_bytes(b"\x7fELF\x01\x01" + bytes(64))
    assert [row.what for row in rows(site)] == ["machine"]


@pytest.mark.parametrize("name", ["more.zip", "more.tar.gz", "more.tar.xz", "more.tgz"])
def test_an_archive_in_a_folder_was_not_unpacked(site: Path, name: str) -> None:
    (site / "x" / name).write_bytes(b"x")
    (row,) = rows(site)
    assert (row.what, name in row.reason) == ("files", True)


def test_an_archive_in_a_wheel_was_not_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x/inner.whl", b"x")
    assert "x/inner.whl" in rows(wheel)[0].reason
    assert "x-1-py3-none-any.whl/x/inner.whl" in rows(tmp_path)[0].reason


def test_a_link_out_of_the_folder_was_not_followed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (site / "y").symlink_to(tmp_path / "elsewhere")
    (site / "z").symlink_to(site / "x")
    (row,) = rows(site)
    assert (row.what, row.reason.endswith(": y")) == ("files", True)


@pytest.mark.parametrize("text", ["/home/me/x\n", "import __editable___x_finder\n"])
def test_an_editable_package_was_not_followed(site: Path, text: str) -> None:
    (site / "x.pth").write_text(text, encoding="utf-8")
    (site / "plain.pth").write_text("import sys\n", encoding="utf-8")
    (row,) = rows(site)
    assert (row.what, row.reason.endswith(": x.pth")) == ("packages", True)


def test_a_module_of_which_no_python_is_known(tmp_path: Path) -> None:
    shutil.copy(Path(os.path.realpath(sys.executable)), tmp_path / "a.cpython-312-x86_64-linux-gnu.so")
    assert [row.what for row in rows(tmp_path)] == ["python"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    code = main(["verify", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_folder_of_packages_is_read_as_an_images(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = site / "x-1.dist-info/METADATA"
    metadata.write_text(f"{metadata.read_text()}Requires-Dist: y>=2\n", encoding="utf-8")
    for folder in (site, site.parents[2]):
        code, document = run(capsys, str(folder))
        assert code == 9
        assert {"requirements"} == {one["check"] for one in document["problems"]} - {"wheel_machine"}


def test_a_torch_for_cpus_is_a_problem(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "torch-2.13.0+cpu.dist-info").mkdir()
    (site / "torch-2.13.0+cpu.dist-info/METADATA").write_text("Name: torch\nVersion: 2.13.0+cpu\n", encoding="utf-8")
    code, document = run(capsys, str(site))
    assert (code, [one["found"] for one in document["problems"] if one["check"] == "torch"]) == (
        9,
        ["torch 2.13.0+cpu without CUDA"],
    )


def test_a_row_is_exit_13_and_may_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x/inner.tar.gz", b"x")
        archive.writestr("x/k.cubin", (b"\x7fELF\x01\x01" + bytes(64)))
    code, document = run(capsys, str(wheel))
    assert (code, sorted(row["what"] for row in document["unchecked"])) == (13, ["files", "machine"])
    assert any("compressed cubins" in one for one in document["limits"])
    assert run(capsys, str(wheel), "--allow-unchecked")[0] == 0


@pytest.mark.parametrize("words", [("--python", "3"), ("--glibc", "new"), ("--python", "3.13.1.1")])
def test_a_version_that_is_none_is_refused(words: tuple[str, str], tmp_path: Path) -> None:
    assert main(["verify", str(tmp_path), *words]) == 2
