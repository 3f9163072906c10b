"""An interrupt that Python drops comes again."""

import subprocess
import sys

import pytest

from bootstrap.environment import CHECKOUT
from tests.hang import PATIENCE

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from gb10.core.signals import end_as_by_ctrl_c
end_as_by_ctrl_c()
signal.signal(signal.SIGTERM, signal.default_int_handler)  # tests may run under nohup
class Freed:
    def __del__(self):
        {happens}
try:
    Freed()
    time.sleep({seconds})
except KeyboardInterrupt:
    sys.exit(130)
"""


def ended(happens: str, seconds: float) -> tuple[int, str]:
    argv = [sys.executable, "-c", PROGRAM.format(happens=happens, seconds=seconds), str(CHECKOUT)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_an_interrupt_while_an_object_is_freed_is_not_lost(number: str) -> None:
    happens = (
        f"signal.signal(signal.{number}, signal.default_int_handler); signal.raise_signal(signal.{number}); str(1)"
    )
    assert ended(happens, 19) == (130, "")


def test_other_errors_there_are_reported_as_ever() -> None:
    code, err = ended("raise ValueError(7)", 0)
    assert code == 0
    assert "ValueError: 7" in err


TAKEN_FOR = ("UsageError('a value is invalid')", "RuntimeError('Error calling __set_name__')")
SWALLOWED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import gb10.cli
from gb10.errors import UsageError
from gb10.core.signals import end_as_by_ctrl_c
end_as_by_ctrl_c()
def reads(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise {error} from None
gb10.cli.answered = reads
sys.exit(gb10.cli.main(["plan"]))
"""


@pytest.mark.parametrize("error", TAKEN_FOR)
def test_an_interrupt_that_others_take_for_an_error_is_told_as_one(error: str) -> None:
    """Pydantic's engine does so, and Python while it defines a class."""
    argv = [sys.executable, "-c", SWALLOWED.format(error=error), str(CHECKOUT)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (130, "interrupted; run the same command again to continue\n")


LOADING = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from gb10.__main__ import run
class Finder:
    def find_spec(self, name, *_):
        if name == "gb10.cli":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.exit(run())
"""


def test_an_interrupt_while_the_command_is_loaded_is_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING, str(CHECKOUT)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted; run the same command again to continue\n")
