"""The command line: one catch for every error, one exit code per remedy."""

import errno
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from gb10.cli.spelling import respelled
from gb10.cli.unchanged import answered
from gb10.errors import INTERRUPTED, BuildError, Gb10Error, UsageError, interrupted

CLOSED_PIPE: Final = 141  # as a program that SIGPIPE ended: whoever read stdout wants no more
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOLCK)


def main(arguments: Sequence[str]) -> int:
    """Run a verb; returns the exit code. Errors go to stderr, and with ``--json`` to stdout as a document."""
    as_json = "--json" in arguments
    try:
        return 0 if answered(arguments) else _run(arguments, as_json=as_json)
    except Gb10Error as error:
        return report(error, as_json=as_json)
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except Exception as error:  # the one place: what no room foresaw is a bug, and says so
        known = machine_error(error) if isinstance(error, OSError) else None
        if known is None:
            traceback.print_exception(error)
        return report(known or bug(error), as_json=as_json)


def _run(arguments: Sequence[str], *, as_json: bool) -> int:
    from typer._click.exceptions import ClickException  # noqa: PLC0415 - loaded with the verbs

    from gb10.cli.app import app  # noqa: PLC0415 - the loader of verbs, the one import that waits for its use

    try:
        outcome = app(args=respelled(arguments), prog_name="build.py", standalone_mode=False)
        sys.stdout.flush()
    except ClickException as error:
        error.show()
        if as_json:
            print_error(UsageError(error.format_message(), hint="build.py VERB --help lists the options"))
        return error.exit_code
    except SystemExit as end:  # Typer's own: a pipe that was closed, shell completion
        if isinstance(end.__context__, BrokenPipeError):
            return CLOSED_PIPE
        return end.code if isinstance(end.code, int) else 0
    if outcome == INTERRUPTED:  # Typer turns Ctrl-C into this
        return interrupted()
    return outcome if isinstance(outcome, int) else 0


def report(error: Gb10Error, *, as_json: bool) -> int:
    """Print an error for a person, and for a script when it asked for JSON."""
    if as_json:
        print_error(error)
    print(error, file=sys.stderr)
    return error.code


def print_error(error: Gb10Error) -> None:
    """The error as a document on stdout, schema gb10/error/v1."""
    names = ("code", "kind", "message", "where", "hint")
    print(json.dumps({"schema": "gb10/error/v1", "error": {name: getattr(error, name) for name in names}}))


def machine_error(error: OSError) -> Gb10Error | None:
    """What a full disk or a refused file means to the user; None for what only a bug explains."""
    path = error.filename or "a file"
    if error.errno in FULL:
        hint = "free some space, or set GB10_CACHE_DIR to a larger disk; then run the same command again"
        return BuildError("the disk is full", where=f"{path}: {error.strerror}", hint=hint)
    if error.errno in DENIED:
        hint = "check its owner and mode, or set GB10_CACHE_DIR to a directory that you may write to"
        return UsageError(f"cannot read or write {path}: {error.strerror}", hint=hint)
    return None


def bug(error: Exception) -> Gb10Error:
    """The error for what no room foresaw."""
    hint = "the traceback above says where; please report it together with the command line"
    return Gb10Error(f"this is a bug in gb10: {type(error).__name__}: {error}", hint=hint)
