"""The effects of the packages' maintainer scripts on first install, as data: the scripts are never run.

Not done: byte-compiling Python's library (the stage that compiles wheels does it), systemd timers (no init runs in a
container), /etc/hosts (the container engine's), hashed names in /etc/ssl/certs (OpenSSL's cert.pem is the bundle),
Debian's diversions for upgrades from before the merged /usr.
"""

import re
from dataclasses import dataclass

from gb10.image.rootfs.linker import write_linker_cache
from gb10.image.rootfs.root_tar import Tree

MAIL_GID, UTMP_GID = 8, 43

COPIES = {
    "etc/profile": "usr/share/base-files/profile",
    "root/.profile": "usr/share/base-files/dot.profile",
    "root/.bashrc": "usr/share/base-files/dot.bashrc",
    "etc/motd": "usr/share/base-files/motd",
    "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
    "etc/inputrc": "usr/share/readline/inputrc",
}
"""base-files, libc-bin, readline-common; one whose source is not installed does not apply."""

DIRECTORIES = {
    "mnt": (0o755, 0),
    "srv": (0o755, 0),
    "opt": (0o755, 0),
    "media": (0o755, 0),
    "etc/opt": (0o755, 0),
    "var/opt": (0o755, 0),
    "var/mail": (0o2775, MAIL_GID),
    "run/lock": (0o1777, 0),
    **{f"usr/local/{name}": (0o755, 0) for name in ("bin", "etc", "games", "include", "lib", "libexec", "sbin", "src")},
    "usr/local/share/man": (0o755, 0),
}
"""base-files: mode and group."""

LINKS = {
    "etc/dpkg/origins/default": "debian",
    "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
    "usr/local/man": "share/man",
    "var/lock": "/run/lock",
    "var/run": "/run",
    "var/spool/mail": "../mail",
}
"""base-files, tzdata."""

EMPTY = {
    "etc/environment": (0o644, 0),
    "etc/machine-id": (0o444, 0),
    "etc/security/opasswd": (0o600, 0),
    "var/log/btmp": (0o660, UTMP_GID),
    "var/log/lastlog": (0o664, UTMP_GID),
    "var/log/wtmp": (0o664, UTMP_GID),
}
"""libpam-modules, base-files (mode and group); machine-id is empty so that each container may have its own."""

TEXTS = {
    "etc/networks": "default\t\t0.0.0.0\nloopback\t127.0.0.0\nlink-local\t169.254.0.0\n\n",
    "etc/python3/debian_config": "[DEFAULT]\n# standard, optimize\nbyte-compile = standard\n",
}
"""netbase, python3."""

PAM = {
    "common-account": {"account_primary": "account\t[success=1 new_authtok_reqd=done default=ignore]\tpam_unix.so \n"},
    "common-auth": {"auth_primary": "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n"},
    "common-password": {"password_primary": "password\t[success=1 default=ignore]\tpam_unix.so obscure yescrypt\n"},
    "common-session": {
        "session_primary": "session\t[default=1]\t\t\tpam_permit.so\n",
        "session_additional": "session\trequired\tpam_unix.so \n",
    },
    "common-session-noninteractive": {
        "session_nonint_primary": "session\t[default=1]\t\t\tpam_permit.so\n",
        "session_nonint_additional": "session\trequired\tpam_unix.so \n",
    },
}
"""libpam-runtime: what pam-auth-update fills into its templates when only the profile ``unix`` is there."""

SHELLS = "usr/share/debianutils/shells"
CERTIFICATES = "usr/share/ca-certificates/"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
DIVERTED = ("lib32", "lib64", "libo32", "libx32")

USERS = "usr/share/base-passwd/passwd.master"
GROUPS = "usr/share/base-passwd/group.master"
SHADOW_GID = 42
SYSTEM_GROUPS = {"rdma": 101}
"""Groups that a postinst (libibverbs1) adds; 101 is the first id that Debian gives away."""
DAY = 86400

ADMIN = "var/lib/dpkg/alternatives"


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
        if _in_merged_usr(one.target) not in tree.entries:
            continue
        for name, link, target in [(one.name, one.link, one.target), *one.slaves]:
            tree.link(f"etc/alternatives/{name}", target)
            tree.link(_in_merged_usr(link), f"/etc/alternatives/{name}")
        tree.file(f"{ADMIN}/{one.name}", _record(one).encode())


def _in_merged_usr(path: str) -> str:
    """An absolute path as the merged /usr has it in the tree."""
    return path.lstrip("/") if path.startswith("/usr/") else f"usr{path}"


def _record(one: Alternative) -> str:
    head = ["auto", one.link, *(line for name, link, _ in one.slaves for line in (name, link)), ""]
    choice = [one.target, str(one.priority), *(target for _, _, target in one.slaves), ""]
    return "".join(f"{line}\n" for line in head + choice)


def configure(tree: Tree, user: User | None) -> None:
    """Add to the unpacked packages what makes them a system."""
    for path, (mode, gid) in DIRECTORIES.items():
        tree.directory(path, mode=mode, gid=gid)
    for path, source in COPIES.items():
        if source in tree.entries:
            tree.file(path, tree.read(source))
    for path, target in LINKS.items():
        tree.link(path, target)
    for path, (mode, gid) in EMPTY.items():
        tree.file(path, b"", mode=mode, gid=gid)
    for path, text in TEXTS.items():
        tree.file(path, text.encode())
    write_accounts(tree, user)
    write_alternatives(tree)
    _pam(tree)
    _shells(tree)
    _site_packages(tree)
    _certificates(tree)
    write_linker_cache(tree)
    _diversions(tree)


def _pam(tree: Tree) -> None:
    for name, blocks in PAM.items():
        template = f"usr/share/pam/{name}"
        if template in tree.entries:
            lines = tree.read(template).decode().splitlines(keepends=True)
            filled = (blocks.get(line.strip().lstrip("$"), "") if line.startswith("$") else line for line in lines)
            tree.file(f"etc/pam.d/{name}", "".join(filled).encode())


def _shells(tree: Tree) -> None:
    """debianutils' list and what other packages announce, each also below /usr, as update-shells does."""
    lines: list[str] = []
    for source in [SHELLS, *tree.below(f"{SHELLS}.d/")]:
        for line in tree.read(source).decode().splitlines():
            both = [line, f"/usr{line}"] if line.startswith("/bin/") else [line]
            lines += [path for path in both if path not in lines]
    tree.file("etc/shells", "".join(f"{line}\n" for line in lines).encode())


def _site_packages(tree: Tree) -> None:
    """python3.N-minimal: where the administrator's own modules go."""
    for path in tree.below("usr/bin/python3."):
        if re.fullmatch(r"usr/bin/python3\.\d+", path):
            tree.directory(f"usr/local/lib/{path.rpartition('/')[2]}/dist-packages")


def _certificates(tree: Tree) -> None:
    """The bundle and its list, as update-ca-certificates writes them when every certificate is trusted."""
    certificates = [path for path in tree.below(CERTIFICATES) if path.endswith(".crt")]
    if certificates:
        tree.directory("usr/local/share/ca-certificates")
        tree.file(BUNDLE, b"".join(tree.read(path).rstrip(b"\n") + b"\n" for path in certificates))
        listed = "".join(f"{path.removeprefix(CERTIFICATES)}\n" for path in certificates)
        tree.file("etc/ca-certificates.conf", listed.encode())


def _diversions(tree: Tree) -> None:
    """base-files keeps the names of library directories that this architecture lacks free of other packages."""
    names = [name for name in DIVERTED if name not in tree.entries]
    tree.file("var/lib/dpkg/diversions", "".join(f"/{n}\n/.{n}.usr-is-merged\nbase-files\n" for n in names).encode())
