"""Child processes: argv lists in, output streamed and kept; the one place that imports subprocess."""

import os
import shlex
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TAIL_LINES = 30


class CommandFailedError(Exception):
    """A child ended with a non-zero status; ``tail`` holds its last lines."""

    def __init__(self, argv: Sequence[str], returncode: int, tail: str, log: Path | None = None) -> None:
        super().__init__(f"{shlex.join(argv)} exited with {returncode}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.tail = tail
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
        raise _not_run(argv, error) from error
    if done.returncode != 0:
        raise CommandFailedError(argv, done.returncode, last_lines(done.stderr or done.stdout))
    return done.stdout


def stream(
    argv: Sequence[str],
    *,
    log: Path,
    on_line: Callable[[str], None] = lambda line: None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run to the end, each line of stdout and stderr to ``log`` and ``on_line``; raises CommandFailedError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with log.open("w", encoding="utf-8") as out:
        out.write(f"+ {shlex.join(argv)}\n")
        with _piped(argv, env, cwd) as child:
            try:
                for line in child.stdout or ():
                    out.write(line)
                    tail.append(line)
                    on_line(line.rstrip("\n"))
            except BaseException:
                child.terminate()
                raise
    if child.returncode != 0:
        raise CommandFailedError(argv, child.returncode, "".join(tail), log)


def _piped(argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
        )
    except OSError as error:
        raise _not_run(argv, error) from error


def _not_run(argv: Sequence[str], error: OSError) -> CommandFailedError:
    """As a shell says it: 127 for a program that is not there, 126 for one that cannot be run."""
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
def background(argv: Sequence[str], *, log: Path) -> Iterator[Callable[[], bool]]:
    """A child that runs while the context lasts, output to ``log``; yields whether it still does."""
    with log.open("w", encoding="utf-8") as out:
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        except OSError as error:
            raise _not_run(argv, error) from error
        try:
            yield lambda: child.poll() is None
        finally:
            child.terminate()
            child.wait()


def last_lines(text: str, count: int = TAIL_LINES) -> str:
    """The last ``count`` lines of a text."""
    return "\n".join(text.splitlines()[-count:])
