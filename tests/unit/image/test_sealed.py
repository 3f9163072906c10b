"""A sealed folder: sha256sum's own list; and each way in which a file may differ is damage for the scan."""

import subprocess
from pathlib import Path

import pytest

from gb10.errors import VerifyError
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import prove
from gb10.inside.scan.scan import scan_tree
from gb10.inside.scan.sealed import FOLDERS, seal

PLACE = f"{FOLDERS}/triton"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / PLACE
    (folder / "KEY").mkdir(parents=True)
    (folder / "KEY/kernel.json").write_text("{}")
    (folder / "KEY/kernel.source").write_text("module")
    seal(folder)
    return tmp_path


def damage(root: Path) -> dict[str, str]:
    return {binary.path.removeprefix(f"{PLACE}/"): binary.error for binary in scan_tree(root).binaries}


def test_a_folder_as_it_was_sealed_is_whole(root: Path) -> None:
    assert damage(root) == {}
    prove(Subject(scan=scan_tree(root)))


def test_sha256sum_reads_the_list(root: Path) -> None:
    argv = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(argv, cwd=root / PLACE, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["KEY/kernel.json: OK", "KEY/kernel.source: OK"]


def test_changed_removed_and_added_files_are_damage(root: Path) -> None:
    (root / PLACE / "KEY/kernel.json").write_text("{ }")
    (root / PLACE / "KEY/kernel.source").unlink()
    (root / PLACE / "KEY/more.cubin").write_bytes(b"x")
    found = damage(root)
    assert found["KEY/kernel.json"].startswith("its sha256 is ")
    assert found["KEY/kernel.source"] == "no such file, and SHA256SUMS names it"
    assert found["KEY/more.cubin"] == "SHA256SUMS does not name it"
    with pytest.raises(VerifyError, match="3 problems"):
        prove(Subject(scan=scan_tree(root)))


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / PLACE / "KEY/kernel.json").unlink()
    (root / PLACE / "KEY/kernel.json").symlink_to(tmp_path / "elsewhere")
    assert damage(root) == {"KEY/kernel.json": "no such file, and SHA256SUMS names it"}
