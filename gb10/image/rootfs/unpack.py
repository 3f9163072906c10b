"""Packages to one root file system, natively on any machine: nothing of them is executed, no root is needed."""

import os
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from gb10.errors import BuildError
from gb10.image.rootfs.configure import User, configure
from gb10.image.rootfs.database import Installed, register
from gb10.image.rootfs.package import Package, read_package, unpack_data
from gb10.image.rootfs.root_tar import Tree

MERGED = ("bin", "sbin", "lib", "lib64")
DROPPED = (
    "usr/share/doc/*",
    "usr/share/man/*",
    "usr/share/info/*",
    "usr/share/groff/*",
    "usr/share/lintian/*",
    "usr/share/locale/*",
    "usr/bin/*lto-dump-*",
    "usr/lib/python3.*/config-*/libpython3.*.a",
)
KEPT = ("usr/share/doc/*/copyright", "usr/share/locale/locale.alias")
"""dpkg's path-exclude and path-include: documents (every licence stays), a debugging tool of gcc, a static Python."""
BECOME_LINKS = ("var/run", "var/lock")
"""Directories of base-files that its postinst replaces by links into /run."""


def write_rootfs(debs: Sequence[Path], out: Path, *, epoch: int, user: User | None = None) -> None:
    """Write the installed packages as the tar ``out``: the same bytes for the same packages, epoch and user.

    ``epoch`` (seconds) bounds every mtime. Needs as much temporary disk beside ``out`` as the packages take
    unpacked. Raises FetchError (a file is no .deb) and BuildError (two packages hold the same file).
    """
    packages = sorted((read_package(path) for path in debs), key=_order)
    with (
        TemporaryDirectory(dir=out.parent, prefix=".data-") as scratch,
        ThreadPoolExecutor(os.cpu_count()) as pool,
        Tree(out, epoch=epoch) as tree,
    ):
        spaces = (Path(scratch, f"{number}.tar") for number in range(len(packages)))
        tars = pool.map(unpack_data, [package.path for package in packages], spaces)
        installed = [_merge(tree, package, data) for package, data in zip(packages, tars, strict=True)]
        configure(tree, user)
        register(tree, installed, dropped=DROPPED, kept=KEPT)


def _order(package: Package) -> tuple[bool, str, str]:
    """base-files first: it brings the links of the merged /usr that all others stand on."""
    return package.name != "base-files", package.name, package.fields["Architecture"]


def _merge(tree: Tree, package: Package, data: Path) -> Installed:
    """Add the package's files to the tree; the decompressed ``data`` is removed."""
    paths: list[str] = []
    digests: dict[str, str] = {}
    waiting: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(data) as tar:
        for info in tar:
            shipped = info.name.removeprefix("./").rstrip("/")
            paths.append(shipped)
            if shipped in ("", ".") or shipped in BECOME_LINKS:
                continue
            if shipped in MERGED and info.isdir():  # up to bookworm they are made links before base-files is unpacked
                _link_merged(tree, shipped)
                continue
            info.name = merged(shipped)
            if info.islnk():
                info.linkname = merged(info.linkname.removeprefix("./"))
            if is_dropped(shipped):
                if info.isdir():
                    waiting[info.name] = info
                continue
            _add_waiting(tree, waiting, info.name)
            digest = _add(tree, package, tar, info)
            if digest:
                digests[shipped] = digest
    data.unlink()
    return Installed(package=package, paths=tuple(paths), digests=digests)


def _add(tree: Tree, package: Package, tar: tarfile.TarFile, info: tarfile.TarInfo) -> str | None:
    """One member into the tree; the MD5 of a regular file, as dpkg's database wants it."""
    if info.name in tree.entries:
        if info.isdir():
            return None
        raise BuildError(
            f"{package.name} and another package of the base both hold /{info.name}",
            hint="take one of the two out of base.packages in the recipe",
        )
    return tree.add(info, tar.extractfile(info) if info.isreg() else None)


def _link_merged(tree: Tree, name: str) -> None:
    """The link of a merged /usr, as debootstrap makes it where a package ships a directory."""
    if name not in tree.entries:
        tree.link(name, f"usr/{name}")


def _add_waiting(tree: Tree, waiting: dict[str, tarfile.TarInfo], path: str) -> None:
    """The dropped directories above a file that is kept."""
    for parent in sorted(name for name in waiting if path.startswith(f"{name}/")):
        info = waiting.pop(parent)
        if parent not in tree.entries:
            tree.add(info)


def merged(path: str) -> str:
    """Where a path lies in a merged /usr."""
    head, slash, _ = path.partition("/")
    return f"usr/{path}" if slash and head in MERGED else path


def is_dropped(path: str) -> bool:
    """Whether the image goes without this file."""
    return any(fnmatchcase(path, rule) for rule in DROPPED) and not any(fnmatchcase(path, rule) for rule in KEPT)
