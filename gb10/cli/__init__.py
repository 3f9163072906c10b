"""The command line: one catch for every error, one exit code per remedy."""

import fcntl
import gc
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from gb10.cli.causes import bug, known_cause
from gb10.cli.receipt import answered
from gb10.core.installation import as_started, program
from gb10.core.printing import visible
from gb10.core.signals import was_interrupted
from gb10.errors import CLOSED_PIPE, INTERRUPTED, Gb10Error, UsageError, interrupted

NEW_OBJECTS: Final = 20_000
"""Before the garbage collector looks at them. With Python's own 700 it takes a tenth of a start, and finds nothing."""


def main(arguments: Sequence[str]) -> int:
    """Run a verb; returns the exit code. Errors go to stderr, and with ``--json`` to stdout as a document."""
    code = 0
    gc.set_threshold(NEW_OBJECTS)
    try:
        ready_streams()
        code = _caught(arguments, as_json="--json" in arguments)
        sys.stdout.flush()
    except Gb10Error as error:
        return tell(error, as_json=False)
    except BrokenPipeError:
        drop_stdout()
        return CLOSED_PIPE
    except OSError as error:  # stdout is closed or full; its buffer must not fail again at exit
        drop_stdout()
        error.filename = error.filename or "stdout"
        return code or tell(known_cause(error) or bug(error), as_json=False)
    return code


def ready_streams() -> None:
    """Make both streams print any character; raises UsageError when stdout is closed.

    A name that is not UTF-8 is printed with escapes. With stderr closed, its lines must not land in stdout.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # else the next file that gb10 opens gets descriptor 0
    closed = not _takes_writes(1)
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = io.StringIO()
    if not _takes_writes(2):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if closed:
        raise UsageError("stdout is closed: the result has no place to go", hint="to discard it: >/dev/null")


def _takes_writes(descriptor: int) -> bool:
    """False also when a wrapper of python3, such as pyenv's, reads its own script on a descriptor that was closed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def drop_stdout() -> None:
    """Discard what stdout still buffers: its reader is gone, or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _caught(arguments: Sequence[str], *, as_json: bool) -> int:
    try:
        return 0 if answered(arguments) else _run(arguments)
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:
        raise
    except Exception as error:  # the only broad catch: an error that no module expects is a bug
        return interrupted() if was_interrupted() else _failed(error, as_json=as_json)


def _failed(error: Exception, *, as_json: bool) -> int:
    known = error if isinstance(error, Gb10Error) else known_cause(error)
    if known is None:
        traceback.print_exception(error)
    return tell(known or bug(error), as_json=as_json)


def _run(arguments: Sequence[str]) -> int:
    from gb10.cli.app import app, respelled  # noqa: PLC0415 - the loader of verbs, the one import that waits for its use
    from gb10.cli.typer_click import ClickException, NoArgsIsHelpError  # noqa: PLC0415 - loaded with the verbs
    from gb10.cli.wrong_usage import usage_error  # noqa: PLC0415 - loaded with the verbs

    try:
        outcome = app(
            args=respelled(arguments),
            prog_name=program().removeprefix("./"),
            standalone_mode=False,
            obj=tuple(arguments),
        )
        sys.stdout.flush()
    except NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except ClickException as error:
        raise usage_error(error) from error
    except SystemExit as end:  # Typer's own: a pipe that was closed, shell completion
        if isinstance(end.__context__, OSError):
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else 0
    if outcome == INTERRUPTED:  # Typer turns Ctrl-C into this
        return interrupted()
    return outcome if isinstance(outcome, int) else 0


def tell(error: Gb10Error, *, as_json: bool) -> int:
    """Print an error for a person, and with ``--json`` also as a document."""
    if as_json:
        print_error(error)
    print(visible(as_started(str(error))), file=sys.stderr)
    return error.code


def print_error(error: Gb10Error) -> None:
    """The error as a document on stdout, schema gb10/error/v1."""
    print(json.dumps({"schema": "gb10/error/v1", "error": {"code": error.code, **error_fields(error)}}))


def error_fields(error: Gb10Error) -> dict[str, str | None]:
    """The fields of an error in a JSON document, in the same words as on stderr."""
    texts = {"message": error.message, "where": error.where, "hint": error.hint}
    return {"kind": error.kind, **{name: text and as_started(text) for name, text in texts.items()}}
