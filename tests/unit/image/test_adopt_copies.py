"""What COPY means: the files with their places, owners and modes, as Docker's reference says."""

import subprocess
from pathlib import Path

import pytest

from gb10.image.adopt.run_lines import first_folders
from tests.unit.image.test_adopt import adopted, line_of

FILES = ("one.txt", "d/top.txt", "d/top.md", "d/sub/a.txt", "d/sub/b.md", "d/sub/deep/c.txt", "d/sub2/a.txt")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("copy", "paths"),
    [
        ("--exclude=*.txt d /x", "sub/a.txt sub/b.md sub/deep/c.txt sub2/a.txt top.md"),
        ("--exclude=**/*.txt --exclude=top.md d /x/", "sub/b.md"),
        ("--exclude=sub d /x", "sub2/a.txt top.md top.txt"),
        ("--exclude=sub --exclude=!sub/a.txt d /x", "sub/a.txt sub2/a.txt top.md top.txt"),
        ("--exclude=d/sub/a.txt d/sub /x", "a.txt b.md deep/c.txt"),
        ("--exclude=sub/a.txt d/sub /x", "a.txt b.md deep/c.txt"),
        ("--exclude=a.txt d/sub d/sub2 /x/", "b.md deep/c.txt"),
        ("--exclude=deep d/s* /x/", "a.txt b.md"),
        ("--exclude=/sub d /x", "sub/a.txt sub/b.md sub/deep/c.txt sub2/a.txt top.md top.txt"),
        ("--exclude=./sub/ d /x", "sub2/a.txt top.md top.txt"),
        ("--parents d/sub/a.txt one.txt /x", "d/sub/a.txt one.txt"),
        ("--parents d/sub /x/", "d/sub/a.txt d/sub/b.md d/sub/deep/c.txt"),
        ("--parents ./d/./sub/a.txt /x/", "sub/a.txt"),
        ("--parents d/**/a.txt /x", "d/sub/a.txt d/sub2/a.txt"),
        ("--parents d/./*/a.txt d/./top.md /x/", "sub/a.txt sub2/a.txt top.md"),
        ("--parents d/s* /x", "d/sub/a.txt d/sub/b.md d/sub/deep/c.txt d/sub2/a.txt"),
        ("--parents d*/./sub/*.txt /x", "sub/a.txt"),
        ("--parents d/./**/c.txt one.* no* /x", "one.txt sub/deep/c.txt"),
        ("--parents **/**/**/c.txt /x", "d/sub/deep/c.txt"),
        ("--parents --exclude=*.txt d/sub one.txt /x", "d/sub/a.txt d/sub/b.md d/sub/deep/c.txt"),
        ("--parents --exclude=**/*.txt d/sub /x", "d/sub/b.md"),
        ("--parents --exclude=sub/deep --exclude=sub2 d/./** /x", "sub/a.txt sub/b.md top.md top.txt"),
        ("one.txt two* /x/", "one.txt"),
        ("--parents=false d/sub/a.txt /x/", "a.txt"),
    ],
)
def test_what_is_left_out_and_which_folders_stay(context: Path, copy: str, paths: str) -> None:
    """The rows with --exclude alone are what Docker 28.5.2 copied, those with --parents follow Docker's reference."""
    found = adopted(context, f"COPY {copy}")
    assert [path.removeprefix("/x/") for path in sorted(found.overlay)] == paths.split()


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        ("--exclude=*.txt one.txt d /x/", "builders do not agree"),
        ("--exclude=[ d /x", "no pattern"),
        ("--exclude=! d /x", "names no path"),
        ("--exclude=$NO d /x", "--build-arg"),
        ("--parents d/[ /x", "no pattern"),
        ("--parents two.txt one.txt /x", "two.txt is not in the build context"),
        ("--parents d/*/two.txt /x", "d/*/two.txt is not in the build context"),
        ("two* /x/", "two* is not in the build context"),
    ],
)
def test_what_cannot_be_said_is_not_checked(context: Path, copy: str, why: str) -> None:
    line = line_of(adopted(context, f"COPY {copy}"), "COPY")
    assert line.verdict == "unchecked"
    assert why in line.why


def test_folders_that_are_copied_or_made_have_the_owner(context: Path) -> None:
    (mod,) = adopted(context, "COPY --chown=7:8 --chmod=640 d/sub /new/made/").mods
    made = "for folder in '/new' '/new/made'; do [ -e \"$folder\" ] ||"
    rows = mod.script.splitlines()
    assert rows[-4].startswith(made)
    assert "cp -a" in rows[-3]
    assert rows[-2].startswith("chown '7:8' '/new/made/deep' '/new/made/a.txt'")
    assert rows[-1].startswith("chmod '640' '/new/made/deep' '/new/made/a.txt'")


def test_links_of_a_folder_are_copied_as_links(context: Path) -> None:
    (context / "d/in").symlink_to("sub/a.txt")
    (context / "d/sub/out").symlink_to("/etc/passwd")
    found = adopted(context, "COPY d /x\nRUN pip install -r /x/in")
    assert sorted(found.overlay) == [
        "/x/sub/a.txt",
        "/x/sub/b.md",
        "/x/sub/deep/c.txt",
        "/x/sub2/a.txt",
        "/x/top.md",
        "/x/top.txt",
    ]
    (mod,) = found.mods
    assert mod.script.splitlines()[-2:] == [
        "mkdir -p '/x' && ln -sfT 'sub/a.txt' '/x/in'",
        "mkdir -p '/x/sub' && ln -sfT '/etc/passwd' '/x/sub/out'",
    ]
    assert line_of(found, "pip").verdict == "not-taken"  # a link is not read


def test_the_mod_makes_the_links_also_where_one_is(context: Path) -> None:
    (context / "d/in").symlink_to("sub/a.txt")
    place = context / "made/x"
    (mod,) = adopted(context, f"COPY d {place}").mods
    for _ in range(2):
        subprocess.run(["bash", "-s"], input=mod.script, check=True, text=True)
    assert str((place / "in").readlink()) == "sub/a.txt"


def test_a_link_with_a_name_that_no_script_shows(context: Path) -> None:
    (context / "d/in").symlink_to("a\nb")
    assert line_of(adopted(context, "COPY d /x"), "COPY").verdict == "unchecked"


def test_a_path_and_the_folders_above_it_down_to_a_depth() -> None:
    assert [*first_folders(["/a/b/../c", "/a"])] == ["/a", "/a/c"]
    deep = "/1/2/3/4/5/6/7/8"
    assert [*first_folders([deep])] == ["/1", "/1/2", "/1/2/3", "/1/2/3/4", "/1/2/3/4/5", "/1/2/3/4/5/6"]
