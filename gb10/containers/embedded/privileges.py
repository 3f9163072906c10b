"""What a machine must allow before the embedded engine can run on it."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gb10.containers.failure import explained
from gb10.core.proc import capture
from gb10.errors import EngineError

ENTER = """\
run=$1 data=$2 cgroup=$3
shift 3
mount --bind "$data" "$run/data"
probe=$run/data/probe
rm -rf "$probe"
mkdir -p "$probe/lower" "$probe/upper" "$probe/work" "$probe/merged"
if ! mount -t overlay gb10 -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" "$probe/merged"; then
  echo "overlayfs cannot work on the file system of $data: set GB10_CACHE_DIR to a directory on a disk (ext4, xfs)"
  exit 1
fi
umount "$probe/merged"
rm -rf "$probe"
if ! [ -w /sys/fs/cgroup ] || ! grep -q ' /sys/fs/cgroup' /proc/self/mounts; then
  mount -t cgroup2 gb10 /sys/fs/cgroup
fi
if [ -e /run/containerd/containerd.sock ]; then
  mount -t tmpfs gb10 /run/containerd
fi
most=$(cat /proc/sys/kernel/pid_max)
most=$((most < 65536 ? most / 4 : 16384))
pids=/sys/fs/cgroup/pids
[ -d "$pids" ] || pids=/sys/fs/cgroup
[ "$pids" != /sys/fs/cgroup ] || echo +pids >"$pids/cgroup.subtree_control" || echo "no pids controller here"
if ! mkdir -p "$pids/$cgroup" || ! echo "$most" >"$pids/$cgroup/pids.max"; then
  echo "what runs in containers and build steps is not bounded in number: a fork bomb can fill the process table"
fi
exec "$@"
"""
"""dockerd takes a containerd that it finds at its usual place: the system's is not ours to use, so it is covered.

What containers and build steps run together is at most a quarter of the process table, 16,384 processes and threads.
"""
NEW_ROOT = """\
run=$1
mount --bind "$run" "$run"
mount --make-private "$run"
mkdir -p "$run/root"
mount --rbind / "$run/root"
mount --make-rslave "$run/root"
shift
exec chroot "$run/root" "$@"
"""
"""In a plain chroot ``/`` is no mount point, and runc cannot set its propagation: bind it to one, and enter that."""
TOOLS = ("unshare", "mount", "umount", "sh", "grep", "chroot")


def entering(run: Path, data: Path, cgroup: str, argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` in a namespace of its own, where ``data`` lies at ``run``/data.

    ``cgroup`` is the parent of its containers and build steps, whose processes are bounded.
    """
    inner = ["sh", "-euc", ENTER, "sh", str(run), str(data), cgroup, *argv]
    if "/" in mount_points():
        return ["unshare", "--mount", "--propagation=slave", *inner]
    return ["unshare", "--mount", "--propagation=unchanged", "sh", "-euc", NEW_ROOT, "sh", str(run), *inner]


def most_processes(cgroup: str) -> int | None:
    """How many processes and threads an engine's containers and build steps may be; None without a bound."""
    for root in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
        with suppress(OSError, ValueError):  # no such hierarchy, or "max"
            return int((root / cgroup / "pids.max").read_text(encoding="ascii"))
    return None


def leave(run: Path) -> None:
    """Undo what a chroot's shared mounts may have brought out of the namespace."""
    if str(run) in mount_points():
        with explained(f"cannot unmount {run}", hint="see what still uses it: fuser -vm"):
            capture(["umount", "--recursive", str(run)])


def mount_points() -> set[str]:
    """The mount points that this process sees."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return {os.fsdecode(line.split(b" ")[4]) for line in lines}


CAP_SYS_ADMIN = 21
"""linux/capability.h"""
WAYS_OUT = (
    "either start Docker (23.0 or newer) and point to it by DOCKER_HOST,\n"
    "or run as root with CAP_SYS_ADMIN on Linux (in a container: --privileged), for the embedded engine"
)


def require_privileges(env: Mapping[str, str]) -> None:
    """Raises EngineError that names what is lacking and the two ways out."""
    lacking = missing_privilege(env)
    if lacking:
        raise EngineError("no container engine can be used here", where=lacking, hint=WAYS_OUT)


def missing_privilege(env: Mapping[str, str]) -> str | None:
    """The first thing that the embedded engine needs and this process has not."""
    if sys.platform != "linux":
        return f"the embedded engine needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "the embedded engine needs root"
    if not _effective_capabilities() >> CAP_SYS_ADMIN & 1:
        return "the embedded engine needs CAP_SYS_ADMIN, and this root lacks it"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=env.get("PATH")) is None]
    return (
        f"the embedded engine needs {' and '.join(missing)} (Debian packages util-linux, mount, coreutils)"
        if missing
        else None
    )


def missing_capability() -> str | None:
    """Why this process may not mount and register things with the kernel, None when it may."""
    if os.geteuid() != 0:
        return "this process is not root"
    return None if _effective_capabilities() >> CAP_SYS_ADMIN & 1 else "this root lacks CAP_SYS_ADMIN"


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0
