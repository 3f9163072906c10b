"""A mount namespace for the engine: its mounts end with it, and its data lies at a short path."""

import os
from collections.abc import Sequence
from pathlib import Path

from gb10.containers.failure import explained
from gb10.core.proc import capture

ENTER = """\
run=$1 data=$2
shift 2
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
exec "$@"
"""
"""dockerd takes a containerd that it finds at its usual place: the system's is not ours to use, so it is covered."""
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


def entering(run: Path, data: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` in a namespace of its own, where ``data`` lies at ``run``/data."""
    inner = ["sh", "-euc", ENTER, "sh", str(run), str(data), *argv]
    if "/" in mount_points():
        return ["unshare", "--mount", "--propagation=slave", *inner]
    return ["unshare", "--mount", "--propagation=unchanged", "sh", "-euc", NEW_ROOT, "sh", str(run), *inner]


def leave(run: Path) -> None:
    """Undo what a chroot's shared mounts may have brought out of the namespace."""
    if str(run) in mount_points():
        with explained(f"cannot unmount {run}", hint="see what still uses it: fuser -vm"):
            capture(["umount", "--recursive", str(run)])


def mount_points() -> set[str]:
    """The mount points that this process sees."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return {os.fsdecode(line.split(b" ")[4]) for line in lines}
