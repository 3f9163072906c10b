"""Hostile inputs run in a child process: limits on time and memory, no network, no process, no write outside."""

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from gb10.errors import ERRORS, Gb10Error

CPU_S: Final = 10
WALL_S: Final = 60
"""Seconds that an input may wait: nothing that it is made of blocks."""
MEMORY: Final = 1 << 30
"""Bytes of address space on top of what the child starts with."""
KINDS: Final = frozenset(error.code for error in ERRORS) - {Gb10Error.code}

Target = Callable[[bytes, Path], None]


class Offline(BaseException):
    """The program asks for the network: that is as far as an input goes, for a retry would only wait."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that breaks a promise, by its number among those that were run."""

    index: int
    problem: str


def run(cases: Iterable[bytes], target: Target, folder: Path) -> Finding | None:
    """The first of the inputs that breaks a promise, None when all keep them."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _child(cases, target, folder, sink)
    os.close(sink)
    index, problem = _follow(source, child)
    os.close(source)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and problem is None:
        ended = os.WTERMSIG(status)
        problem = f"it takes more than {CPU_S} s" if ended == signal.SIGXCPU else f"signal {ended} ended it"
    elif status and problem is None:
        problem = f"the process ended with status {status}"
    return Finding(index, problem) if problem else None


def _follow(source: int, child: int) -> tuple[int, str | None]:
    """The last input that was begun, and what the child says of it."""
    index, text = -1, b""
    while True:
        if not select.select([source], [], [], WALL_S)[0]:
            os.kill(child, signal.SIGKILL)
            return index, f"it waits for more than {WALL_S} s"
        block = os.read(source, 1 << 16)
        *lines, text = (text + block).split(b"\n")
        for line in lines:
            word = json.loads(line)
            if isinstance(word, str):
                return index, word
            index = word
        if not block:
            return index, None


def _child(cases: Iterable[bytes], target: Target, folder: Path, sink: int) -> NoReturn:
    """Run the inputs, each in a fresh folder; never returns."""

    def say(word: int | str) -> None:
        os.write(sink, json.dumps(word).encode() + b"\n")

    status = 0
    try:
        guard = Guard(folder)
        _limit()
        (folder / "tmp").mkdir()
        tempfile.tempdir = str(folder / "tmp")
        for index, case in enumerate(cases):
            say(index)
            scratch = folder / str(index)
            scratch.mkdir()
            os.chdir(scratch)
            problem = judge(case, target, scratch, guard)
            os.chdir(folder)
            shutil.rmtree(scratch, ignore_errors=True)
            if problem:
                say(problem[-4000:])
                break
    except BaseException:
        say(f"the harness failed: {traceback.format_exc()}")
        status = 1
    finally:
        os._exit(status)


def _limit() -> None:
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))


def judge(case: bytes, target: Target, scratch: Path, guard: "Guard") -> str | None:
    """What is wrong with how one input was met; None when it gave a result or one clear error."""
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(start) + CPU_S + 2, resource.RLIM_INFINITY))
    guard.broken.clear()
    problem = None
    try:
        target(case, scratch)
    except Gb10Error as error:
        problem = None if error.code in KINDS and error.message else f"an error without a kind: {error!r}"
    except Offline:
        problem = None
    except Exception:
        problem = traceback.format_exc()
    spent = time.process_time() - start
    if problem is None and spent > CPU_S:
        problem = f"it takes {spent:.0f} s"
    return guard.broken[0] if guard.broken else problem


class Guard:
    """An audit hook: it refuses and notes writes outside of a folder, and refuses processes and the network."""

    def __init__(self, folder: Path) -> None:
        self.allowed = (f"{folder.resolve()}/", "/dev/null", "/proc/self/")
        self.broken: list[str] = []
        self.watch: Mapping[str, Callable[[tuple[Any, ...]], None]] = {
            "open": self._open,
            **dict.fromkeys(("os.mkdir", "os.chmod", "os.truncate", "os.utime"), self._first),
            **dict.fromkeys(("os.remove", "os.rmdir"), self._first),
            **dict.fromkeys(("os.rename", "os.link"), self._both),
            "os.symlink": lambda words: self._within(words[1], words[2]),
            **dict.fromkeys(("socket.getaddrinfo", "socket.connect", "socket.sendto", "socket.bind"), self._no_network),
            **dict.fromkeys(
                ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork", "ctypes.dlopen"), self._absent
            ),
            "os.kill": self._no_signal,
        }
        sys.dont_write_bytecode = True
        sys.addaudithook(self._hook)

    def _hook(self, event: str, words: tuple[Any, ...]) -> None:
        if event in self.watch:
            self.watch[event](words)

    def _open(self, words: tuple[Any, ...]) -> None:
        path, _, flags = words
        if isinstance(path, str | bytes) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            self._within(path, -1)

    def _first(self, words: tuple[Any, ...]) -> None:
        self._within(words[0], words[-1] if isinstance(words[-1], int) else -1)

    def _both(self, words: tuple[Any, ...]) -> None:
        self._within(words[0], words[2])
        self._within(words[1], words[3])

    def _within(self, path: object, folder: object) -> None:
        if isinstance(path, int):
            return
        name = os.fsdecode(path)  # type: ignore[arg-type]
        around = os.readlink(f"/proc/self/fd/{folder}") if isinstance(folder, int) and folder >= 0 else os.getcwd()
        whole = os.path.join(around, name)
        place = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
        if not place.startswith(self.allowed):
            self.broken.append(f"it writes outside of its folder: {place}")
            raise PermissionError(13, "outside of the test's folder", name)

    @staticmethod
    def _no_network(words: tuple[Any, ...]) -> None:
        if len(words) > 1 and isinstance(words[1], str | bytes):  # a socket of this machine
            raise ConnectionRefusedError(111, "a fuzzed input talks to nobody")
        raise Offline

    @staticmethod
    def _absent(words: tuple[Any, ...]) -> None:
        raise FileNotFoundError(2, "a fuzzed input starts no process", str(words[0] if words else ""))

    @staticmethod
    def _no_signal(words: tuple[Any, ...]) -> None:
        if words[1]:
            raise PermissionError(1, "a fuzzed input ends no process")
