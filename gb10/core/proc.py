"""Child processes: argv lists in, output streamed and kept; the one place that imports subprocess."""

import math
import os
import re
import resource
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gb10.core.concurrency import IdleTimeout, Stop, watched

TAIL_LINES = 30
SILENT = 124
"""The return code of a child that was ended because it was silent; `timeout` has the same."""
TOO_LARGE = re.compile(r"signal 25|File too large|file size limit", re.IGNORECASE)
"""What programs print when a file was larger than they may write; 25 is SIGXFSZ."""
LOGIN = re.compile(r"((?:https?|ftp|redis)://)[^/\s'\"]+@")

LIFELINE = Path(__file__).with_name("lifeline.sh")


class CommandFailedError(Exception):
    """A child ended with a non-zero status; ``tail`` holds its last lines."""

    def __init__(self, argv: Sequence[str], returncode: int, tail: str, log: Path | None = None) -> None:
        super().__init__(f"{without_logins(shlex.join(argv))} exited with {returncode}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.tail = without_logins(tail)
        self.log = log


def capture(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> str:
    """Run to the end and return stdout; raises CommandFailedError with the last lines of stderr."""
    try:
        done = subprocess.run(
            argv, check=False, env=env, cwd=cwd, input=stdin, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise not_run(argv, error) from error
    if done.returncode != 0:
        raise CommandFailedError(argv, done.returncode, last_lines(done.stderr or done.stdout))
    return done.stdout


def capture_while_active(
    argv: Sequence[str],
    *,
    patience: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    largest: int | None = None,
) -> str:
    """The same for a child that reports its progress: ended, with its own children, after ``patience`` silent seconds.

    ``largest``: bytes of a file that it, or its children, may write. Raises CommandFailedError, then with the return
    code ``SILENT``, or a tail that ``TOO_LARGE`` matches.
    """
    try:
        child = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise not_run(argv, error) from error
    if largest is not None:
        with suppress(ProcessLookupError):  # it has ended
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (largest, largest))
    return _whole(child, argv, lambda: _read(child, lambda: patience), f"no sign of life for {patience:.0f} s: ended")


def answer(argv: Sequence[str], question: str, *, seconds: float, most: int) -> str:
    """What a program that is not trusted writes to stdout, with a text on stdin.

    Raises CommandFailedError, with the return code ``SILENT`` after ``seconds``, or past ``most`` bytes of output.
    """
    until = time.monotonic() + seconds
    with tempfile.TemporaryFile() as asked:
        asked.write(question.encode())
        asked.seek(0)
        child = _started(argv, stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    late = f"no whole answer in {seconds:.0f} s and {most} bytes"
    return _whole(child, argv, lambda: _read(child, lambda: until - time.monotonic(), most), late)


def _whole(child: subprocess.Popen[bytes], argv: Sequence[str], read: Callable[[], tuple[str, str]], late: str) -> str:
    """What ``read`` finds on stdout; the child is ended with its own children when that fails."""
    with child:
        try:
            out, tail = read()
        except TimeoutError as error:
            _end_family(child)
            raise CommandFailedError(argv, SILENT, late) from error
        except BaseException:
            _end_family(child)
            raise
    if child.returncode != 0:
        raise CommandFailedError(argv, child.returncode, last_lines(tail or out))
    return out


def _read(child: subprocess.Popen[bytes], patience: Callable[[], float], most: float = math.inf) -> tuple[str, str]:
    """What a child writes to stdout and stderr until it closes both; raises TimeoutError, past ``most`` bytes too."""
    found: dict[int, bytearray] = {pipe.fileno(): bytearray() for pipe in (child.stdout, child.stderr) if pipe}
    with selectors.DefaultSelector() as pipes:
        for number in found:
            pipes.register(number, selectors.EVENT_READ)
        while pipes.get_map():
            ready = pipes.select(patience())
            if not ready or sum(map(len, found.values())) > most:
                raise TimeoutError
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                found[key.fd] += block
                if not block:
                    pipes.unregister(key.fd)
    out, tail = (bytes(one).decode(errors="replace") for one in found.values())
    return out, "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in tail.split("\n"))


def _end_family(child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a child and all that it started: a git ends without the helper that holds its connection."""
    family = [child.pid]
    for pid in family:
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                family += map(int, listed.read_text(encoding="ascii").split())
    for pid in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    child.wait()


def stream(
    argv: Sequence[str],
    *,
    log: Path,
    on_line: Callable[[str], None] = lambda line: None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stop: Stop | None = None,
    patience: IdleTimeout | None = None,
) -> None:
    """Run to the end, each line of stdout and stderr to ``log`` and ``on_line``; raises CommandFailedError.

    ``stop`` ends the child, and CancelledError is raised. Past ``patience`` the return code is ``SILENT``.
    """
    stop = stop or Stop()
    stop.check()
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with log.open("w", encoding="utf-8") as out:
        out.write(f"+ {without_logins(shlex.join(argv))}\n")
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with (
            _started(argv, env=env, cwd=cwd, text=True, errors="replace", bufsize=1, **pipes) as child,
            stop.ends(child.terminate),
            watched(child.pid, patience, lambda: _end_family(child)) as silent,
        ):
            try:
                for line in map(without_logins, child.stdout or ()):
                    out.write(line)
                    tail.append(line)
                    on_line(line.rstrip("\n"))
            except BaseException:
                child.terminate()
                raise
    stop.check()
    if child.returncode != 0:
        raise CommandFailedError(argv, SILENT if silent.is_set() else child.returncode, "".join(tail), log)


def _started(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401 - Popen's own options
    try:
        return subprocess.Popen(argv, **options)
    except OSError as error:
        raise not_run(argv, error) from error


def not_run(argv: Sequence[str], error: OSError) -> CommandFailedError:
    """Exit code as in a shell: 127 for a missing program, 126 for one that cannot run."""
    return CommandFailedError(argv, 127 if isinstance(error, FileNotFoundError) else 126, str(error))


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str]) -> int:
    """Start a daemon in a session of its own, output appended to ``log``; returns its pid. It outlives this process."""
    log.parent.mkdir(parents=True, exist_ok=True)
    program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        raise CommandFailedError(argv, 127, f"{argv[0]}: not found")
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), writing, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(program, list(argv), dict(env), file_actions=files, setsid=True)


@contextmanager
def background(argv: Sequence[str], *, log: Path, scratch: Path | None = None) -> Iterator[Callable[[], bool]]:
    """A child that runs while the context lasts, output to ``log``; yields whether it still does.

    It ends with this process, too, when that is killed. Then the folder ``scratch`` is removed.
    """
    if shutil.which(argv[0]) is None:
        raise CommandFailedError(argv, 127, f"{argv[0]}: not found")
    command = ["sh", str(LIFELINE), str(scratch or ""), *argv]
    with (
        log.open("w", encoding="utf-8") as out,
        _started(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT) as child,
    ):
        yield lambda: child.poll() is None


def without_logins(text: str) -> str:
    """A text in which no URL holds a user name or a password."""
    return LOGIN.sub(r"\1", text)


def last_lines(text: str, count: int = TAIL_LINES) -> str:
    """The last ``count`` lines of a text."""
    return "\n".join(text.splitlines()[-count:])
