"""Debian's git in a root of its own: it does not matter what this machine has."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from gb10.core.store import Store
from tests.integration.debian_roots import unpacked_root


def unpack_git(store: Store, folder: Path) -> Path:
    """A root with git and all it needs, for chroot."""
    root = unpacked_root(store, folder, "git")
    for name, minor in (("null", 3), ("urandom", 9)):  # git opens them
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
    return root


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
