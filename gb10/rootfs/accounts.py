"""Users and groups of a fresh Debian system, from base-passwd's masters, with one user of ours."""

from dataclasses import dataclass

from gb10.rootfs.root_tar import Tree

USERS = "usr/share/base-passwd/passwd.master"
GROUPS = "usr/share/base-passwd/group.master"
SHADOW_GID = 42
SYSTEM_GROUPS = {"rdma": 101}
"""Groups that a postinst (libibverbs1) adds; 101 is the first id that Debian gives away."""
DAY = 86400


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """The account a container runs as; its group has the same name and number."""

    name: str
    uid: int
    home: str


def write_accounts(tree: Tree, user: User | None) -> None:
    """passwd, group, their shadows (no password works), subordinate ids and the user's home."""
    users = [line.split(":") for line in tree.read(USERS).decode().splitlines()]
    groups = [line.split(":") for line in tree.read(GROUPS).decode().splitlines()]
    groups += [[name, "x", str(gid), ""] for name, gid in SYSTEM_GROUPS.items()]
    if user:
        users.append([user.name, "x", str(user.uid), str(user.uid), "", user.home, "/bin/bash"])
        groups.append([user.name, "x", str(user.uid), ""])
        tree.directory(user.home.lstrip("/"), uid=user.uid, gid=user.uid)
    changed = tree.epoch // DAY
    tree.file("etc/passwd", _table([[name, "x", *rest] for name, _, *rest in users]))
    tree.file("etc/group", _table([[name, "x", *rest] for name, _, *rest in groups]))
    shadow = _table([[name, "*", str(changed), "0", "99999", "7", "", "", ""] for name, *_ in users])
    tree.file("etc/shadow", shadow, mode=0o640, gid=SHADOW_GID)
    tree.file("etc/gshadow", _table([[name, "*", "", ""] for name, *_ in groups]), mode=0o640, gid=SHADOW_GID)
    tree.file("etc/subuid", b"")
    tree.file("etc/subgid", b"")


def _table(rows: list[list[str]]) -> bytes:
    return "".join(f"{':'.join(row)}\n" for row in rows).encode()
