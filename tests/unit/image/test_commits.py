"""``--ref NAME=git:URL@COMMIT``: what names a commit, what is refused, and what a tree's archive holds."""

import io
import tarfile
from pathlib import Path

import pytest

from gb10.cli.app import respelled
from gb10.cli.build.image_options import of_wheels
from gb10.core.files import Checkout
from gb10.errors import FetchError, UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.request.checkout_files import Worktree, change_notes, check_difference
from gb10.image.request.checkouts import GitCommit, _odd, _places_by_source, parse_commit, split_refs
from gb10.sources.git import archive
from tests.unit.image.test_worktrees import found, released

COMMIT = "0a1b2c3d" * 5
URL = "https://h.invalid/o/r.git"


def test_a_commit_among_releases() -> None:
    asked = of_wheels(ref=[f"vllm=git:{URL}@{COMMIT}", "flashinfer=0.7.2"])
    releases, commits = split_refs(asked.refs)
    assert (releases, commits) == ({"flashinfer": "0.7.2"}, (f"vllm=git:{URL}@{COMMIT}",))
    assert respelled(["plan", "--vllm-ref", f"git:{URL}@{COMMIT}"]) == ["plan", "--ref", f"vllm=git:{URL}@{COMMIT}"]
    assert _places_by_source(commits) == {"vllm": GitCommit(url=URL, commit=COMMIT)}


@pytest.mark.parametrize(
    "url", [URL, "ssh://git@h.invalid/r.git", "file:///srv/r", "http://127.0.0.1:1/r", "https://a:b@h/r"]
)
def test_repositories_that_are_read(url: str) -> None:
    assert parse_commit("vllm", f"git:{url}@{COMMIT}") == GitCommit(url=url, commit=COMMIT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"git:{URL}@main", "a commit has 40 digits"),
        (f"git:{URL}@{COMMIT[:12]}", "a commit has 40 digits"),
        (f"git:{URL}@{COMMIT.upper()}", "a commit has 40 digits"),
        (f"git:{URL}@", "a commit has 40 digits"),
        (f"git:{URL}", "names no git repository that is read"),
        (f"git:git@h.invalid:o/r@{COMMIT}", "names no git repository that is read"),
        (f"git:http://h.invalid/r@{COMMIT}", "names no git repository that is read"),
        (f"git:ext::sh -c true@{COMMIT}", "names no git repository that is read"),
        (f"git:--upload-pack=true@{COMMIT}", "names no git repository that is read"),
        (f"git:https://h.invalid/\nx@{COMMIT}", "names no git repository that is read"),
        (f"git:https://[h@{COMMIT}", "cannot be read"),
    ],
)
def test_what_names_no_commit(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse_commit("vllm", text)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_no_password_is_shown() -> None:
    with pytest.raises(UsageError) as caught:
        parse_commit("vllm", "git:https://me:secret@h.invalid/r@main")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(GitCommit(url="https://me:secret@h.invalid/r", commit=COMMIT))


def test_links_and_submodules_of_a_tree(tmp_path: Path) -> None:
    entries = {"x/": b"5", "x/a": b"0", "x/b/": b"5", "x/b/c": b"0", "x/sub/": b"5", "x/3rd/": b"5", "x/3rd/sub/": b"5"}
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, kind in {**entries, "x/link": b"2"}.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a" if kind == b"2" else ""
            tar.addfile(member, io.BytesIO())
    assert _odd(tmp_path / "x.tar") == (frozenset({"link"}), ("3rd/sub", "sub"))


def test_compiled_changes_of_a_commit_need_the_whole_project() -> None:
    theirs = Worktree(root=Path("/x.tar"), files=(), git=True, commit=COMMIT, url=URL)
    with pytest.raises(UsageError) as caught:
        made = found(csrc__a=b"1\n")
        check_difference(load_recipe(ROOT / "recipes/images/vllm.yaml"), released(), theirs, made, ("vllm",))
    assert caught.value.message == (
        f"{URL}@{COMMIT[:12]} changes what vllm compiles, but this build compiles nothing of it"
    )
    assert caught.value.where == "csrc/a.py"
    assert (caught.value.hint or "").startswith("compile the whole project from it: --targets all")


def test_requirements_that_a_commit_changes_are_told() -> None:
    theirs = Worktree(root=Path("/x.tar"), files=(), git=True, commit=COMMIT, url=URL)
    lines = list(change_notes(released(), theirs, found(setup=b"2\n", vllm__a=b"2\n")))
    assert f"vllm 0.33.0: {URL}@{COMMIT[:12]} (commit {COMMIT[:12]}) changes 1 of its files: vllm/a.py" in lines
    assert "vllm 0.33.0: may change requirements (the lock keeps those of the release): 1 (setup.py)" in lines


def test_a_tree_is_bounded() -> None:
    bounds = archive._Bounds(Checkout(URL, COMMIT), archive.SOURCE)
    bounds.count(f"100644 blob {COMMIT}    1024\ta\tname 99999999999")
    bounds.count(f"160000 commit {COMMIT}       -\tsub")
    assert (bounds.files, bounds.bytes) == (2, 1024)
    with pytest.raises(FetchError, match="holds more than 100,000 files or 512 MiB"):
        bounds.count(f"100644 blob {COMMIT} {1 << 30}\tlarge")
    bounds = archive._Bounds(Checkout(URL, COMMIT), archive.Limits(files=1))
    bounds.count(f"100644 blob {COMMIT} 1\tone")
    with pytest.raises(FetchError, match="holds more than 1 files"):
        bounds.count(f"100644 blob {COMMIT} 1\tone more")
