"""Makes stdout and stderr safe: a closed stream or an odd character neither stops a run nor loses a result."""

import io
import os
import sys

from gb10.errors import UsageError


def ready_streams() -> None:
    """Make both streams print any character; raises UsageError when stdout is closed.

    A name that is not UTF-8 is printed with escapes. With stderr closed, its lines must not land in stdout.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # else the next file that gb10 opens gets descriptor 0
    closed = sys.stdout is None
    if closed:
        os.open(os.devnull, os.O_WRONLY)
        sys.stdout = io.StringIO()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if closed:
        raise UsageError("stdout is closed: the result has no place to go", hint="to discard it: >/dev/null")


def drop_stdout() -> None:
    """Discard what stdout still buffers: its reader is gone, or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
