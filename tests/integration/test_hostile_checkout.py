"""``--source`` and ``--patch`` of a stranger: nothing of theirs runs, and no file outside is read."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.errors import PatchError, UsageError
from gb10.image.patches.foreign import find_foreign
from gb10.image.request.checkout_files import Files, Worktree, ignored, open_worktree
from tests.integration.debian_git import put_on_path

Git = Callable[..., str]
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "protocol.file.allow=always")


pytestmark = pytest.mark.integration


@pytest.fixture
def place(git_root: Path) -> Path:
    """A folder that Debian's git sees, too, by another path: see inside()."""
    return Path(tempfile.mkdtemp(prefix="place", dir=git_root))


@pytest.fixture
def env(git_root: Path, tmp_path: Path) -> dict[str, str]:
    """A user's environment, without settings of git; git's own paths come back as they are here."""
    path = put_on_path(git_root, tmp_path)
    script = tmp_path / "git"
    lines = script.read_text(encoding="utf-8").replace("exec ", "set -o pipefail\n").rstrip()
    script.write_text(f"{lines} | sed 's|^/place|{git_root}/place|'\n", encoding="utf-8")
    return {"PATH": path, "HOME": "/none", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def git(env: dict[str, str]) -> Git:
    def run(folder: Path, *arguments: str) -> str:
        return capture(["git", "-C", str(folder), *IDENTITY, *arguments], env=env)

    return run


def inside(path: Path) -> str:
    """The path by which Debian's git knows a file of ``place``."""
    return f"/{path.parts[-2]}/{path.name}"


@pytest.fixture
def checkout(place: Path, git: Git) -> Path:
    """A repository of one file, with content that git has to look at again."""
    folder = place / "checkout"
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm/a.py").write_text("a = 1\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    (folder / "vllm/a.py").write_text("a = 2\n", encoding="utf-8")
    return folder


@pytest.fixture
def program(place: Path) -> Path:
    """A program that leaves a mark beside itself when it runs."""
    path = place / "program"
    path.write_text(f"#!/bin/sh\n: >{inside(place / 'ran')}\nexec cat\n", encoding="utf-8")
    path.chmod(0o755)
    return path


Settings = Callable[[Git, Path, Path], None]


def fsmonitor(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "core.fsmonitor", str(program))


def clean(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "filter.x.clean", str(program))
    (folder / ".gitattributes").write_text("*.py filter=x\n", encoding="utf-8")


def process(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "filter.x.process", str(program))
    git(folder, "config", "filter.x.required", "true")
    (folder / ".git/info/attributes").write_text("*.py filter=x\n", encoding="utf-8")


def included(git: Git, folder: Path, program: Path) -> None:
    (folder / ".git/more").write_text(f"[core]\n\tfsmonitor = {inside(program)}\n", encoding="utf-8")
    git(folder, "config", "include.path", "more")


def included_if(git: Git, folder: Path, program: Path) -> None:
    included(git, folder, program)
    git(folder, "config", "--unset", "include.path")
    git(folder, "config", "includeIf.gitdir:/.path", "more")


def of_worktree(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "extensions.worktreeConfig", "true")
    git(folder, "config", "--worktree", "core.fsmonitor", str(program))


def ssh(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "core.sshCommand", str(program))


def elsewhere(git: Git, folder: Path, program: Path) -> None:
    git(folder, "config", "core.worktree", str(program.parent))


HOSTILE: dict[str, Settings] = {
    "core.fsmonitor": fsmonitor,
    "filter.x.clean": clean,
    "filter.x.process": process,
    "include.path": included,
    "includeif.gitdir:/.path": included_if,
    "core.fsmonitor of a worktree": of_worktree,
    "core.sshcommand": ssh,
    "core.worktree": elsewhere,
}


@pytest.mark.parametrize("setting", HOSTILE)
def test_settings_that_run_a_program_are_refused_and_it_does_not_run(
    setting: str, checkout: Path, program: Path, git: Git, env: dict[str, str]
) -> None:
    HOSTILE[setting](git, checkout, program)
    ran = program.with_name("ran")
    ran.unlink(missing_ok=True)
    with pytest.raises(UsageError, match="can run programs or read files elsewhere") as caught:
        open_worktree(checkout, env)
    assert setting.split(maxsplit=1)[0] in str(caught.value.where)
    ignored(Worktree(root=checkout, files=(), git=True), env, ["vllm/b.py"])
    assert not ran.exists()


def test_a_plain_git_does_run_such_a_program(checkout: Path, program: Path, git: Git) -> None:
    fsmonitor(git, checkout, program)
    git(checkout, "status")
    assert program.with_name("ran").exists()


def test_hooks_remotes_and_submodules_of_a_checkout_do_not_run(
    checkout: Path, program: Path, git: Git, env: dict[str, str]
) -> None:
    git(checkout, "submodule", "--quiet", "add", str(checkout), "part")
    fsmonitor(git, checkout / "part", program)
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc"):
        (checkout / ".git/hooks" / hook).symlink_to(f"../../../{program.name}")
    git(checkout, "config", "core.repositoryFormatVersion", "1")
    git(checkout, "config", "extensions.partialClone", "origin")
    git(checkout, "config", "remote.origin.url", f"ext::{program}")
    tree = git(checkout, "rev-parse", "HEAD^{tree}").strip()
    (checkout / ".git/objects" / tree[:2] / tree[2:]).unlink()  # git would fetch it
    program.with_name("ran").unlink(missing_ok=True)
    with pytest.raises(UsageError, match="git cannot read the checkout"):
        open_worktree(checkout, env)
    assert not program.with_name("ran").exists()


def test_settings_that_run_nothing_are_no_hindrance(checkout: Path, git: Git, env: dict[str, str]) -> None:
    git(checkout, "config", "core.fsmonitor", "true")
    git(checkout, "config", "core.hooksPath", ".husky")
    git(checkout, "config", "filter-notes.x", "1")
    assert open_worktree(checkout, env).files == ("vllm/a.py",)
    git(checkout.parent, "clone", "--quiet", str(checkout), "around")
    around = checkout.parent / "around"
    git(around, "submodule", "--quiet", "add", str(checkout), "part")
    assert git(around / "part", "config", "core.worktree").strip() == "../../../part"
    assert open_worktree(around / "part", env).files == ("vllm/a.py",)
    assert open_worktree(around, env).modules == ("part",)


def test_a_folder_that_is_a_link_leads_nowhere_outside(tmp_path: Path) -> None:
    host, root = tmp_path / "host", tmp_path / "root"
    (host / "deep").mkdir(parents=True)
    (host / "deep/passwd").write_bytes(b"secret\n")
    (root / "vllm/real").mkdir(parents=True)
    (root / "vllm/real/a.py").write_bytes(b"a\n")
    (root / "vllm/leak").symlink_to(host)
    (root / "vllm/kin").symlink_to("real")
    files = Files(root)
    for path in ("vllm/leak/deep/passwd", "../host/deep/passwd", "vllm/../../host/deep/passwd", f"/{host}/deep/passwd"):
        with pytest.raises(PatchError, match="leads out of the tree"):
            files.read(path)
    assert files.read("vllm/kin/a.py") == files.read("vllm/real/a.py") == b"a\n"
    assert files.read("vllm/real") is files.read("vllm/none/a.py") is files.read("vllm/real/a.py/b") is None


def test_a_pipe_is_no_file_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    (tmp_path / "link.py").symlink_to("a.py")
    files = Files(tmp_path)
    assert files.read("a.py") is files.read("link.py") is None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_but_is_named_as_a_diff_is_an_error(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x.patch")
    with pytest.raises(UsageError, match=r"x\.patch is not a plain file"):
        find_foreign(tmp_path)
