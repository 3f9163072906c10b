"""A dialogue with a child process, line by line."""

import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from gb10.core.proc import not_run


class Dialogue:
    """A child that prints lines and gets some; it ends when nobody holds the other end of its stdin."""

    def __init__(self, stdin: IO[bytes] | None, stdout: IO[bytes] | None, err: IO[bytes]) -> None:
        if stdin is None or stdout is None:
            raise AssertionError
        self._in, self._out, self._err, self._read = stdin, stdout, err, b""

    def line(self, patience: float) -> str | None:
        """Its next line; None when none comes in so many seconds, an empty one when it has ended."""
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._out, selectors.EVENT_READ)
            deadline = time.monotonic() + patience
            while b"\n" not in self._read:
                if not pipes.select(max(0.0, deadline - time.monotonic())):
                    return None
                block = os.read(self._out.fileno(), 1 << 16)
                if not block:
                    return ""
                self._read += block
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def say(self, line: str) -> None:
        """Give it a line; one that has ended gets nothing."""
        with suppress(BrokenPipeError):
            self._in.write(f"{line}\n".encode())
            self._in.flush()

    def errors(self) -> str:
        """What it printed as errors."""
        self._err.seek(0)
        return self._err.read().decode(errors="replace").strip()


@contextmanager
def dialogue(argv: Sequence[str], *, env: Mapping[str, str]) -> Iterator[Dialogue]:
    """A child to talk with while the context lasts. Ctrl-C does not reach it: it ends by the end of its stdin."""
    with tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise not_run(argv, error) from error
        with child:
            yield Dialogue(child.stdin, child.stdout, err)
