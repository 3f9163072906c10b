"""The command line: one catch for every error, one exit code per remedy."""

import gc
import json
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from gb10.cli.app import respelled
from gb10.cli.causes import bug, known_cause
from gb10.cli.receipt import answered
from gb10.cli.streams import drop_stdout, ready_streams
from gb10.core.installation import as_started, program
from gb10.core.printing import visible
from gb10.core.signals import was_interrupted
from gb10.errors import CLOSED_PIPE, INTERRUPTED, Gb10Error, interrupted

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
    from gb10.cli.app import app  # noqa: PLC0415 - the loader of verbs, the one import that waits for its use
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
