"""The command line: one catch for every error, one exit code per remedy."""

import errno
import json
import os
import sys
from collections.abc import Sequence

from gb10.errors import BuildError, Gb10Error

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run a verb; returns the exit code. Errors go to stderr, and with ``--json`` to stdout as a document."""
    from gb10.cli.app import app  # noqa: PLC0415 - the loader of verbs, the one import that waits for its use

    try:
        app(args=list(arguments), prog_name="build.py")
    except Gb10Error as error:
        return report(error, as_json="--json" in arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return report(disk_full(error), as_json="--json" in arguments)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def report(error: Gb10Error, *, as_json: bool) -> int:
    """Print an error for a person, and for a script when it asked for JSON."""
    if as_json:
        detail = {
            "code": error.code,
            "kind": error.kind,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
        }
        print(json.dumps({"schema": "gb10/error/v1", "error": detail}))
    print(error, file=sys.stderr)
    return error.code


def disk_full(error: OSError) -> BuildError:
    """The one remedy for every write that found no room; entries of the store are whole or absent."""
    hint = "free some space, or set GB10_CACHE_DIR to a larger disk; then run the same command again"
    return BuildError("the disk is full", where=str(error.filename or ""), hint=hint)
