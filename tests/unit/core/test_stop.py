"""Two sides of a build: the first failure stops both, and its error is raised."""

import os
import sys
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event

import pytest

from gb10.core.concurrency import Stop, run_all, run_in_background
from gb10.core.proc import stream
from gb10.errors import BuildError, FetchError
from tests.hang import PATIENCE

MISSING = FetchError("a layer's wheel is missing")


def compile_long(stop: Stop, compiling: Event) -> None:
    """A compiler that works until it is stopped; the event says that it runs."""
    stream(
        [sys.executable, "-uc", "import signal; print(); signal.pause()"],
        log=Path(os.devnull),
        on_line=lambda line: compiling.set() if not line else None,
        stop=stop,
    )


def test_what_fails_in_the_background_stops_a_compiler_at_once() -> None:
    stop, compiling = Stop(), Event()

    def fetch() -> None:
        compiling.wait()
        raise MISSING

    with pytest.raises(FetchError, match="layer's wheel"), run_in_background(stop, fetch):
        compile_long(stop, compiling)


def test_a_failed_compile_stops_the_background_and_its_error_is_raised() -> None:
    stop, fetching, ended = Stop(), Event(), Event()

    def fetch() -> None:
        with stop.ends(ended.set):
            fetching.set()
            ended.wait()
        raise MISSING  # a later error than the compile's

    def compile_a_wheel() -> None:
        fetching.wait()
        raise BuildError("the compiler failed")

    with pytest.raises(BuildError, match="compiler failed"), run_in_background(stop, fetch):
        compile_a_wheel()


def test_after_a_stop_no_child_starts() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(CancelledError):
        stream(["/no/such/program"], log=Path(os.devnull), stop=stop)


def test_both_results_are_kept_when_nothing_fails() -> None:
    with run_in_background(Stop(), lambda: "layers") as layers:
        built = "wheels"
    assert (built, layers.result()) == ("wheels", "layers")


def test_the_first_of_several_that_fails_stops_the_others_and_is_raised() -> None:
    stop, compiling = Stop(), Event()

    def fail() -> None:
        compiling.wait()
        raise BuildError("the compiler failed")

    with pytest.raises(BuildError, match="compiler failed"):
        run_all(stop, (lambda: compile_long(stop, compiling), fail))
    with pytest.raises(CancelledError):
        stop.check()


def test_results_of_several_are_in_order() -> None:
    last = Event()
    assert run_all(Stop(), (lambda: last.wait(PATIENCE), last.set)) == (True, None)
    assert run_all(Stop(), ()) == ()
