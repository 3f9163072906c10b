"""dpkg's database for packages that dpkg did not unpack: `dpkg -l`, scanners and later installs see them all."""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.image.rootfs.package import Package
from gb10.image.rootfs.root_tar import Tree
from gb10.sources.debian.stanza import render

DPKG = "var/lib/dpkg"
EXCLUDES = "etc/dpkg/dpkg.cfg.d/gb10-dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A package in the tree: the paths as it ships them, in its order, and the MD5 of its regular files."""

    package: Package
    paths: tuple[str, ...]
    digests: dict[str, str]


def register(tree: Tree, installed: Sequence[Installed], *, dropped: Sequence[str], kept: Sequence[str]) -> None:
    """Write every package as ``install ok installed``, with its maintainer scripts and triggers, for later upgrades."""
    native = next(one.package.fields["Architecture"] for one in installed if one.package.name == "dpkg")
    stanzas = [_status(one) for one in installed]
    tree.file(f"{DPKG}/status", "\n".join(stanzas).encode())
    tree.file(f"{DPKG}/available", b"")
    tree.file(f"{DPKG}/statoverride", b"")
    tree.file(f"{DPKG}/arch-native", f"{native}\n".encode())
    tree.file(f"{DPKG}/info/format", b"1\n")
    for one in installed:
        _info(tree, one)
    _triggers(tree, installed)
    rules = [f"path-exclude=/{rule}" for rule in dropped] + [f"path-include=/{rule}" for rule in kept]
    tree.file(EXCLUDES, "".join(f"{rule}\n" for rule in rules).encode())


def _status(one: Installed) -> str:
    fields = {"Package": one.package.name, "Status": "install ok installed", **one.package.fields}
    conffiles = _lines(one.package, "conffiles")
    if conffiles:
        known = {path: one.digests[path.lstrip("/")] for path in conffiles if path.lstrip("/") in one.digests}
        fields["Conffiles"] = "".join(f"\n {path} {digest}" for path, digest in known.items())
    return render(fields)


def _info(tree: Tree, one: Installed) -> None:
    stem = f"{DPKG}/info/{one.package.info_name}"
    listed = ["/." if path in ("", ".") else f"/{path}" for path in one.paths]
    tree.file(f"{stem}.list", "".join(f"{path}\n" for path in listed).encode())
    members = dict(one.package.members)
    if "md5sums" not in members and one.digests:
        sums = "".join(f"{digest}  {path}\n" for path, digest in one.digests.items())
        members["md5sums"] = (0o644, sums.encode())
    for name, (mode, content) in sorted(members.items()):
        tree.file(f"{stem}.{name}", content, mode=mode)


def _triggers(tree: Tree, installed: Sequence[Installed]) -> None:
    """Which package is interested in which trigger: a package installed later must find the linker's cache trigger."""
    files: list[str] = []
    named: dict[str, list[str]] = {}
    for one in installed:
        for line in _lines(one.package, "triggers"):
            kind, _, trigger = line.partition(" ")
            if not kind.startswith("interest"):
                continue
            mark = one.package.info_name + ("/noawait" if kind == "interest-noawait" else "")
            if trigger.startswith("/"):
                files.append(f"{trigger} {mark}\n")
            else:
                named.setdefault(trigger, []).append(f"{mark}\n")
    tree.file(f"{DPKG}/triggers/File", "".join(files).encode())
    tree.file(f"{DPKG}/triggers/Unincorp", b"")
    for trigger, marks in sorted(named.items()):
        tree.file(f"{DPKG}/triggers/{trigger}", "".join(marks).encode())


def _lines(package: Package, member: str) -> list[str]:
    text = package.members.get(member, (0, b""))[1].decode()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
