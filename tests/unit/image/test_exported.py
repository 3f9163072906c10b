"""What a compile stage exports: a link, or a file that nobody expects, never reaches the store."""

from pathlib import Path

import pytest

from gb10.core.store import seal
from gb10.errors import BuildError
from gb10.image.build.stage import check_exported

WHEEL = ("*.whl", "manifest.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good export."""
    found = tmp_path / "work"
    found.mkdir()
    (found / "a-1.whl").write_bytes(b"wheel")
    (found / "manifest.json").write_text("{}", encoding="ascii")
    return found


def test_the_expected_files_are_accepted(folder: Path) -> None:
    check_exported(folder, *WHEEL)


@pytest.mark.parametrize("name", ["sha256", "manifest.json", "b-1.whl"])
def test_a_link_is_refused_and_its_target_unchanged(folder: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="ascii")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    with pytest.raises(BuildError, match=name):
        check_exported(folder, *WHEEL)
    assert victim.read_text(encoding="ascii") == "mine"


def test_a_folder_and_an_unknown_name_are_refused(folder: Path) -> None:
    (folder / "c.whl").mkdir()
    with pytest.raises(BuildError, match=r"c\.whl"):
        check_exported(folder, *WHEEL)
    (folder / "c.whl").rmdir()
    (folder / "more\n").write_text("", encoding="ascii")
    with pytest.raises(BuildError, match=r"more\\n"):
        check_exported(folder, *WHEEL)


def test_sealing_follows_no_link_and_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (folder / "sha256").symlink_to(victim)
    with pytest.raises(FileExistsError):
        seal(folder / "a-1.whl")
    assert not victim.exists()
    (folder / "sha256").unlink()
    seal(folder / "a-1.whl")
    with pytest.raises(FileExistsError):
        seal(folder / "a-1.whl")
