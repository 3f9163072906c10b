"""Debian's git in a root of its own: it does not matter what this machine has."""

import os
import platform
import shutil
import stat
from pathlib import Path

import pytest

from gb10.host.fetch import open_session
from gb10.host.proc import capture
from gb10.host.store import Store
from gb10.rootfs.unpack import write_rootfs
from gb10.sources.debian.debs import fetch_debs
from gb10.sources.debian.resolve import resolve_set

HOST = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def unpack_git(store: Store, folder: Path) -> Path:
    """A root with git and all it needs, for chroot."""
    assert os.geteuid() == 0, "this test calls chroot: run it as root"
    locked = resolve_set(store, os.environ, suite="trixie", architecture=HOST, packages=("git",))
    with open_session(os.environ) as session:
        debs = fetch_debs(session, store, os.environ, locked)
    write_rootfs(debs, folder / "root.tar", epoch=0)
    (folder / "root").mkdir()
    capture(["tar", "-xf", str(folder / "root.tar"), "-C", str(folder / "root")])
    for name, minor in (("null", 3), ("urandom", 9)):  # git opens them
        os.mknod(folder / "root/dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    return folder / "root"


def put_on_path(root: Path, folder: Path) -> str:
    """A PATH whose git is the one in ``root``; it knows only files below ``root``, by the paths they have here."""
    script = folder / "git"
    script.write_text(
        f'#!/bin/bash\nexec chroot {root} /usr/bin/git "${{@//{str(root).replace("/", chr(92) + "/")}/}}"\n'
    )
    script.chmod(0o755)
    return f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def root(git_root: Path) -> Path:
    return git_root


@pytest.fixture
def store(root: Path) -> Store:
    """Where that git sees it."""
    shutil.rmtree(root / "store", ignore_errors=True)
    return Store(root / "store")


@pytest.fixture
def env(root: Path, tmp_path: Path) -> dict[str, str]:
    return {"PATH": put_on_path(root, tmp_path), "HOME": "/"}
