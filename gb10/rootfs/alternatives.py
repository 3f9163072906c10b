"""update-alternatives for a tree that runs nothing: the links, and its database, so that later calls agree."""

from dataclasses import dataclass

from gb10.rootfs.root_tar import Tree

ADMIN = "var/lib/dpkg/alternatives"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One name, one choice; ``slaves`` follow it: (name, link, target)."""

    link: str
    name: str
    target: str
    priority: int
    slaves: tuple[tuple[str, str, str], ...] = ()


ALTERNATIVES = (
    Alternative("/usr/bin/awk", "awk", "/usr/bin/mawk", 5, (("nawk", "/usr/bin/nawk", "/usr/bin/mawk"),)),
    Alternative("/usr/bin/which", "which", "/usr/bin/which.debianutils", 0),
    Alternative("/usr/bin/pager", "pager", "/bin/more", 50),
    Alternative("/usr/sbin/rmt", "rmt", "/usr/sbin/rmt-tar", 50),
    Alternative("/usr/bin/cc", "cc", "/usr/bin/gcc", 20),
    Alternative("/usr/bin/c89", "c89", "/usr/bin/c89-gcc", 20),
    Alternative("/usr/bin/c99", "c99", "/usr/bin/c99-gcc", 20),
    Alternative("/usr/bin/c++", "c++", "/usr/bin/g++", 20),
    Alternative("/lib/cpp", "cpp", "/usr/bin/cpp", 10),
)
"""postinst of mawk, debianutils, util-linux, tar, gcc, g++ and cpp; their manual pages are not in the tree."""


def write_alternatives(tree: Tree) -> None:
    """Every alternative whose target is installed."""
    for one in ALTERNATIVES:
        if _inside(one.target) not in tree.entries:
            continue
        for name, link, target in [(one.name, one.link, one.target), *one.slaves]:
            tree.link(f"etc/alternatives/{name}", target)
            tree.link(_inside(link), f"/etc/alternatives/{name}")
        tree.file(f"{ADMIN}/{one.name}", _record(one).encode())


def _inside(path: str) -> str:
    """An absolute path as the merged /usr has it in the tree."""
    return path.lstrip("/") if path.startswith("/usr/") else f"usr{path}"


def _record(one: Alternative) -> str:
    head = ["auto", one.link, *(line for name, link, _ in one.slaves for line in (name, link)), ""]
    choice = [one.target, str(one.priority), *(target for _, _, target in one.slaves), ""]
    return "".join(f"{line}\n" for line in head + choice)
