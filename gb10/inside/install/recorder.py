"""Inside a build stage: run somebody's commands without trust, and write down what each block of them changed.

    recorder.py --trial DIR --before ROOT --base ROOT --workdir DIR --out DIR

It is the first process of the stage, by the Python of the build stages: neither the image nor the commands decide what
it does. DIR has ``trial.json`` (``blocks``: names of shell scripts in DIR, ``environment``: variables of the blocks
beside the stage's, ``limits``). A block must end with 0. All of its processes are gone before anything is read. Bounds:
seconds, processes, memory, bytes on the disk, paths that change. A block that breaks one, or fails, is the last one.

``result.json`` has a row for each block that ran: its exit code, why it was ended, the end of its output, and every
path that it changed, as it was and as it is: kind, mode, owner, and the sha256 of a file, whose content lies beside it.
A file that was only written again, bytecode, and what the container brings (/proc, /etc/hosts) are left out.

No process of a block can look into the first one (it cannot be dumped, and nobody has CAP_SYS_PTRACE), nor signal it.
"""

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

Limits = Mapping[str, int]
Identity = tuple[object, ...]
BROUGHT = ("proc", "sys", "dev", "run/gb10", "etc/resolv.conf", "etc/hosts", "etc/hostname", "etc/ld.so.preload")
"""Paths of the root that are the container's."""
QUIET = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_NO_CACHE_DIR": "1",
    "UV_NO_CACHE": "1",
    "PIP_NO_INDEX": "1",
}
LOOK = 0.05
"""Seconds between two looks at what runs."""
LINES, LONGEST, SHOWN = 20, 400, 1 << 20
"""Lines of output that are kept, characters of one, bytes that the log gets."""
CHUNK = 1 << 16
PR_SET_DUMPABLE = 4


def main() -> None:
    """Run the blocks in their order, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("trial", "before", "base", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--workdir", required=True)
    options = parser.parse_args()
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) or os.getpid() != 1:
        sys.exit("recorder.py must be the first process of its stage")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel keeps from the first process what it does not handle
    document = json.loads((options.trial / "trial.json").read_bytes())
    limits = document["limits"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["bytes"], limits["bytes"]))  # the blocks inherit it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    recorder = Recorder(Path("/"), options.before, options.base, limits)
    env = {**os.environ, **document["environment"], **QUIET, "WORKSPACE_DIR": options.workdir}
    end, rows = time.monotonic() + limits["seconds"], []
    for name in document["blocks"]:
        ran = run(options.trial / name, env, end, recorder)
        try:
            changes = [] if ran.code or ran.why else recorder.changes()
        except OSError as error:  # a path that is longer than any program can name
            changes, ran.why = [], f"what it changed cannot be read: {error.strerror}"
        rows.append({"code": ran.code, "why": ran.why or recorder.why, "tail": list(ran.tail), "changes": changes})
        if ran.code or rows[-1]["why"]:
            break
    recorder.clear()
    if options.out.is_dir() and not options.out.is_symlink():  # a block may have made it, or a link in its place
        shutil.rmtree(options.out)
    options.out.unlink(missing_ok=True)
    options.out.mkdir()
    for sha256, content in recorder.contents.items():
        (options.out / sha256).write_bytes(content)
    (options.out / "result.json").write_text(json.dumps(rows), encoding="utf-8")


@dataclass
class Ran:
    """How a block ended. ``why``: the bound that it broke."""

    code: int = 0
    why: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))


def run(script: Path, env: Mapping[str, str], end: float, recorder: "Recorder") -> Ran:
    """One block, until all of its processes are gone; ``end``: the time at which it is ended."""
    limits = recorder.limits
    ran, start = Ran(), disk()
    free = start
    with subprocess.Popen(
        ["bash", str(script)],
        env=env,
        cwd=env["WORKSPACE_DIR"] if Path(env["WORKSPACE_DIR"]).is_dir() else "/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        os.setpriority(os.PRIO_PROCESS, child.pid, 19)  # the recorder must see a crowd of processes in time
        output = Output(child.stdout.fileno() if child.stdout else -1, ran.tail)
        while child.poll() is None and not ran.why:
            look = time.monotonic() + LOOK
            while output.read(max(0.0, look - time.monotonic())) and time.monotonic() < look:
                pass
            if time.monotonic() > end:
                ran.why = f"the commands ran longer than {limits['seconds']} s"
            else:
                ran.why = crowd(limits)
            if not ran.why and free - disk() > limits["bytes"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGSTOP)
                ran.why = recorder.too_large()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGCONT)
                free = disk()  # what others wrote is looked at once
        with contextlib.suppress(ProcessLookupError):  # all at once: whoever is to die starts no other process
            os.kill(-1, signal.SIGKILL)
        ran.code = child.wait()
        end_all()
        output.drain()
    if not ran.why and start - disk() > limits["bytes"]:
        ran.why = recorder.too_large()
    return ran


def end_all() -> None:
    """End every process of the stage but this one. What a dead process leaves behind is this one's child."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        while True:
            os.kill(-1, signal.SIGKILL)
            os.waitpid(-1, 0)


def processes() -> Iterator[int]:
    """The numbers of all processes of the stage but this one."""
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != "1")


def crowd(limits: Limits) -> str:
    """What is wrong with the processes as a whole: too many with their threads, or too much memory (proc(5), stat)."""
    count = pages = 0
    for pid in processes():
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            count, pages = count + int(fields[17]), pages + int(fields[21])
        except (OSError, IndexError):
            count += 1
        if count > limits["processes"]:
            return f"it started more than {limits['processes']} processes"
    if pages * resource.getpagesize() > limits["memory"]:
        return f"it took more than {limits['memory'] >> 20} MiB of memory"
    return ""


def disk() -> int:
    """Free bytes of the disk that holds the root; other builds use it, too."""
    found = os.statvfs("/")
    return found.f_bfree * found.f_frsize


class Output:
    """What the commands print: the end is kept, the beginning goes to the log; none of it stops them."""

    def __init__(self, descriptor: int, tail: deque[str]) -> None:
        self.descriptor = descriptor
        self.tail = tail
        self.left = SHOWN
        self.line = b""
        self.open = True
        os.set_blocking(descriptor, False)

    def read(self, seconds: float) -> bool:
        """One block of it, or nothing after so long; whether there was one."""
        if not self.open:
            time.sleep(seconds)
            return False
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        block = os.read(self.descriptor, CHUNK)
        self.open = bool(block)
        *lines, self.line = (self.line + block).split(b"\n")
        self.line = self.line[:LONGEST]
        self.tail += [line[:LONGEST].decode("utf-8", "replace") for line in lines]
        sys.stderr.buffer.write(block[: self.left])
        sys.stderr.flush()
        self.left = max(0, self.left - len(block))
        return self.open

    def drain(self) -> None:
        """What is left when nobody writes any more."""
        while self.read(0):
            pass
        if self.line:
            self.tail.append(self.line.decode("utf-8", "replace"))


def remove(path: Path) -> None:
    """Remove what lies at a path, from inside: below it are paths that are longer than any program can name."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    os.chdir(path)
    inside = list[str]()
    while True:
        with os.scandir(".") as entries:
            folder = None
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folder = entry.name
                    break
                Path(entry.name).unlink()
        if folder is not None:
            os.chdir(folder)
            inside.append(folder)
        elif inside:
            os.chdir("..")
            Path(inside.pop()).rmdir()
        else:
            break
    os.chdir("/")
    path.rmdir()


def named(path: str) -> str:
    """A path as text; what is no UTF-8 in it becomes U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


class Recorder:
    """What the root holds now, and the contents of what changed since the start."""

    def __init__(self, root: Path, before: Path, base: Path, limits: Limits) -> None:
        """``before`` is the same root as it was, ``base`` the image of others below our layers."""
        self.root = root
        self.before = before
        self.base = base
        self.limits = limits
        self.identities = dict(self._walk())
        self.known = dict[str, dict[str, object]]()
        """The paths that changed, as they are now."""
        self.contents = dict[str, bytes]()
        self.kept = 0
        self.why = ""

    def changes(self) -> list[dict[str, object]]:
        """What changed since the last call; sets ``why`` when that is more than the bounds."""
        most, was = self.limits["paths"], self.identities
        now = dict(islice(self._walk(), len(was) + most + 1))  # so many at most: this process is in no bound
        moved = [path for path, found in now.items() if was.get(path) != found]
        gone = [path for path in was if path not in now]
        self.identities = now
        if len(moved) + len(gone) > most:
            self.why = f"it changed more than {most:,} paths"
            return []
        nothing: dict[str, object] = {"kind": "none"}  # and no look through a link that took a folder's place
        rows = []
        for path in sorted((*moved, *gone)):
            old = self.known.get(path) or (self._described(self.before, path) if path in was else nothing)
            new = self._described(self.root, path) if path in now else nothing
            self.known[path] = new
            if old != new:
                in_base = os.path.lexists(self.base / path)
                rows.append({"path": named(f"/{path}"), "before": old, "after": new, "in_base": in_base})
        return rows

    def clear(self) -> None:
        """Remove what is new: BuildKit keeps the stage, and cannot even measure one with paths that are too long."""
        for folder, folders, _ in os.walk(self.before):
            inside = os.path.relpath(folder, self.before)
            here = self.root / inside
            if here.is_symlink() or not here.is_dir():  # it is gone; what a link in its place names lies elsewhere
                folders.clear()
                continue
            folders[:] = [name for name in folders if os.path.normpath(f"{inside}/{name}") not in BROUGHT]
            for place in here.iterdir():
                path = os.path.normpath(f"{inside}/{place.name}")
                brought = any(f"{one}/".startswith(f"{path}/") for one in BROUGHT)
                if not brought and not os.path.lexists(self.before / path):
                    remove(place)

    def too_large(self) -> str:
        """Whether the block wrote more than the bound, or, where nobody sees it, nearly filled the disk."""
        most, own = self.limits["bytes"], 0
        with contextlib.suppress(OSError):
            new = (path for path, found in self._walk() if self.identities.get(path) != found)
            own = sum((self.root / path).lstat().st_blocks * 512 for path in new)
        if own > most:
            return f"it wrote more than {most >> 20} MiB"
        return f"the disk had less than {most >> 20} MiB left while it ran" if disk() < most else ""

    def _walk(self) -> Iterator[tuple[str, Identity]]:
        """Every path of the root but bytecode and what the container brings, and values that any change moves."""
        device = self.root.stat().st_dev
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if path in BROUGHT or entry.name == "__pycache__" or entry.name.endswith(".pyc"):
                        continue
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        if found.st_dev != device and os.path.ismount(entry.path):
                            continue
                        folders.append(path)
                        yield path, (found.st_mode, found.st_uid, found.st_gid)
                    else:
                        times = (found.st_mtime_ns, found.st_ctime_ns)
                        yield path, (found.st_mode, found.st_uid, found.st_gid, found.st_size, *times)

    def _described(self, root: Path, path: str) -> dict[str, object]:
        """One path as it is in a root; the content of a file is kept, up to the bound of all together."""
        place = root / path
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return {"kind": "none"}
        row: dict[str, object] = {"mode": stat.S_IMODE(found.st_mode), "owner": [found.st_uid, found.st_gid]}
        if names := os.listxattr(place, follow_symlinks=False):  # capabilities, access lists
            values = [(name, os.getxattr(place, name, follow_symlinks=False).hex()) for name in sorted(names)]
            row["attributes"] = hashlib.sha256(json.dumps(values).encode()).hexdigest()
        if stat.S_ISLNK(found.st_mode):
            return {"kind": "link", **row, "mode": 0, "target": named(str(place.readlink()))}
        if stat.S_ISDIR(found.st_mode):
            return {"kind": "folder", **row}
        if not stat.S_ISREG(found.st_mode):
            return {"kind": "other", **row}
        if found.st_size > self.limits["file"]:
            return {"kind": "large", **row, "size": found.st_size}
        content = place.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 not in self.contents:
            self.kept += len(content)
            self.contents[sha256] = content if self.kept <= self.limits["kept"] else b""
        if self.kept > self.limits["kept"]:
            self.why = f"it changed files of more than {self.limits['kept'] >> 20} MiB together"
        return {"kind": "file", **row, "sha256": sha256}


if __name__ == "__main__":
    main()
