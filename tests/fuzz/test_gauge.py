"""The gauge notices what it is for: time, memory, other exceptions, writes outside, processes, the network."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.errors import Gb10Error, UsageError
from tests.fuzz import gauge
from tests.fuzz.gauge import run

pytestmark = pytest.mark.gauged


def spin() -> None:
    while True:
        time.process_time()


def write_outside() -> None:
    Path("/tmp/gb10-fuzz-outside").write_text("x", encoding="utf-8")  # noqa: S108 - is refused


def leave() -> None:
    os._exit(3)


def fail() -> None:
    raise KeyError("x")


def fail_without_a_kind() -> None:
    raise Gb10Error("x")


def fail_clearly() -> None:
    raise UsageError("x")


def take_much() -> None:
    bytearray(2 * gauge.MEMORY)


def write_inside() -> None:
    Path("a").write_text("x", encoding="utf-8")
    Path("a").rename("b")


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (fail, "KeyError"),
        (fail_without_a_kind, "an error without a kind"),
        (take_much, "MemoryError"),
        (write_outside, "outside of its folder: /tmp/gb10-fuzz-outside"),
        (lambda: Path("/tmp/gb10-fuzz-link").symlink_to("/"), "outside of its folder"),  # noqa: S108
        (lambda: subprocess.run(["true"], check=True), "FileNotFoundError"),
        (leave, "status"),
    ],
)
def test_a_broken_promise_is_noticed(act: Callable[[], object], problem: str, tmp_path: Path) -> None:
    def second(data: bytes, _: Path) -> None:
        if data:
            act()

    finding = run([b"", b"x"], second, tmp_path)
    assert finding is not None
    assert finding.index == 1
    assert problem in finding.problem


def connect() -> None:
    socket.create_connection(("127.0.0.1", 9))
    spin()


@pytest.mark.parametrize("act", [fail_clearly, write_inside, connect])
def test_a_kept_promise_is_none(act: Callable[[], None], tmp_path: Path) -> None:
    assert run([b"x"], lambda _, __: act(), tmp_path) is None


def test_time_without_an_end_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauge, "CPU_S", -1)  # the kernel's limit is two seconds more
    finding = run([b"x"], lambda _, __: spin(), tmp_path)
    assert finding is not None
    assert "it takes more than" in finding.problem


def test_an_input_that_waits_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauge, "WALL_S", 1)
    finding = run([b"x"], lambda _, __: time.sleep(30), tmp_path)
    assert finding is not None
    assert "it waits for more than" in finding.problem
