"""Switches from the user's interpreter to the tool's: creates the environment if needed, then execs its Python."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.environment import CHECKOUT, environment, is_inside
from gb10.core.config import store_root, with_cache_dir
from gb10.core.signals import end_as_by_ctrl_c
from gb10.errors import Gb10Error, interrupted

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(script: str, argv: Sequence[str]) -> int:
    """Inside the environment: the command line. Outside: become ``script`` inside it."""
    end_as_by_ctrl_c()
    lock = CHECKOUT / "requirements.lock"
    if not is_inside(lock):
        return enter(lock, [script, *argv], held=ENDING)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # deliver a signal that arrived during the exec
    from gb10.cli import main  # noqa: PLC0415 - its imports exist only inside the environment

    return main(argv)


def enter(lock: Path, argv: Sequence[str], *, held: Sequence[signal.Signals] = ()) -> int:
    """Become the Python of the lock's environment with this command line; returns only an exit code of failure.

    ``held`` signals stay blocked until the new interpreter is ready: during its start they would print a traceback.
    """
    try:
        settings = with_cache_dir(os.environ)
        wanted = environment(lock, store_root(settings))
        if not wanted.is_complete():
            # Imported only here: they take longer than the rest of the start.
            store = importlib.import_module("gb10.core.store").open_store(settings)
            importlib.import_module("bootstrap.install").ensure(wanted, store, os.environ)
    except Gb10Error as error:
        print(error, file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return interrupted()
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    os.execv(wanted.python, [str(wanted.python), *interpreter_options(), *argv])


def interpreter_options() -> list[str]:
    """Isolated from PYTHONPATH and the user's site directory: only locked packages run.

    The user still chooses the bytecode directory.
    """
    options = ["-I"]
    if sys.dont_write_bytecode:
        options.append("-B")
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return options
