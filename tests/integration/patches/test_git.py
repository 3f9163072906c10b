"""Our strict application against ``git apply`` itself: Debian's git, in a root of its own, on the real releases."""

import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.debian.pool import fetch_debs
from gb10.debian.resolve import resolve_set
from gb10.debian.rootfs import write_rootfs
from gb10.fetch import open_session
from gb10.patches.series import Patch, load_series
from gb10.patches.tree import Changed
from gb10.patches.verdict import Verdict, changes_of, judge_series
from gb10.pipeline.patching import series_root, status
from gb10.proc import CommandFailedError, capture
from tests.integration.patches.releases import opened, shop
from tests.integration.patches.test_matrix import SOURCES

pytestmark = pytest.mark.integration

HOST = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's git with all it needs, unpacked; a chroot, so that it does not matter what this machine has."""
    assert os.geteuid() == 0, "this test calls chroot: run it as root"
    folder = tmp_path_factory.mktemp("git")
    locked = resolve_set(shop().store, os.environ, suite="trixie", architecture=HOST, packages=("git",))
    with open_session(os.environ) as session:
        debs = fetch_debs(session, shop().store, os.environ, locked)
    write_rootfs(debs, folder / "root.tar", epoch=0)
    (folder / "root").mkdir()
    capture(["tar", "-xf", str(folder / "root.tar"), "-C", str(folder / "root")])
    os.mknod(folder / "root/dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # git opens it
    return folder / "root"


def git_apply(root: Path, patch: Patch, files: dict[str, bytes]) -> dict[str, bytes | None]:
    """The files after ``git apply``; raises CommandFailedError when git refuses."""
    tree = root / "tree"
    capture(["rm", "-rf", str(tree)])
    tree.mkdir()
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)
    place = series_root(shop()) / patch.source / patch.name
    (root / "it.patch").write_bytes((place if place.is_file() else place / "wiring.patch").read_bytes())
    capture(
        ["chroot", str(root), "git", "-C", "/tree", "apply", "/it.patch"],
        env={"PATH": "/usr/sbin:/usr/bin", "HOME": "/"},
    )
    paths = [diff.path for diff in patch.diffs]
    return {path: (tree / path).read_bytes() if (tree / path).exists() else None for path in paths}


def cells() -> Iterator[tuple[str, Verdict]]:
    """Every cell of the matrix in which a patch is alone on its release."""
    for source in SOURCES:
        for row in status(shop(), source, []):
            yield from ((str(row.version), verdict) for verdict in row.verdicts)


def test_git_makes_the_same_bytes_wherever_a_patch_applies(root: Path) -> None:
    compared = 0
    for version, verdict in cells():
        if verdict.outcome != "applies":
            continue
        patch, before = verdict.patch, before_of(verdict, version)
        expected = {path: content for path, content in verdict.changes.items() if path not in patch.files}
        assert git_apply(root, patch, before) == expected, (patch.place, version)
        compared += 1
    assert compared > 30


def before_of(verdict: Verdict, version: str) -> dict[str, bytes]:
    """The files that a patch touches, with the earlier patches of its series in them."""
    release = opened(verdict.patch.source, version)
    series = load_series(series_root(shop()), verdict.patch.source)
    earlier = [patch for patch in series if patch.id < verdict.patch.id]
    tree = Changed(release.tree, changes_of(judge_series(earlier, release.version, release.tree)))
    return {diff.path: content for diff in verdict.patch.diffs if (content := tree.read(diff.path)) is not None}


def test_git_refuses_what_we_refuse(root: Path) -> None:
    (patch,) = [patch for patch in load_series(series_root(shop()), "cutlass-dsl") if patch.id.startswith("0001")]
    path = patch.diffs[0].path
    content = opened("cutlass-dsl", "4.4.2").tree.read(path)
    assert content is not None
    for bent in (content.replace(b"# Verify arch", b"# Check arch"), content.replace(b"\n", b"\r\n")):
        with pytest.raises(CommandFailedError):
            git_apply(root, patch, {path: bent})
