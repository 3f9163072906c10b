"""Signals and streams at the edges: Ctrl-C at any moment of a start, a full or closed stdout."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT

ENTRY = str(ROOT / "build.py")
DELAYS = (0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.3)


def start(*arguments: str, stdout: int | None = subprocess.PIPE, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, **more}
    return subprocess.Popen(
        [sys.executable, ENTRY, *arguments], env=env, stdout=stdout, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module", autouse=True)
def _started() -> None:
    """The tool's own environment is made at its first start."""
    subprocess.run([sys.executable, ENTRY, "--version"], capture_output=True, check=True)


@pytest.mark.parametrize("delay", DELAYS)
def test_ctrl_c_is_one_line_at_any_moment_of_a_start(delay: float) -> None:
    with start("plan", "--json") as run:
        time.sleep(delay)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    if run.returncode != 130 and str(ROOT) not in err:
        return  # Python itself was still starting: nothing of ours ran yet
    assert "Traceback" not in err
    assert (run.returncode, err.splitlines()[-1]) == (130, "interrupted; run the same command again to continue")


def test_a_signal_between_two_interpreters_is_not_lost() -> None:
    script = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);"
        "os.kill(os.getpid(), signal.SIGINT);"
        f"os.execv(sys.executable, [sys.executable, {ENTRY!r}, 'plan'])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "interrupted; run the same command again to continue\n")


@pytest.mark.parametrize("arguments", [["config", "show"], ["config", "show", "--json"], ["imgae", "--json"]])
def test_a_full_disk_behind_stdout_is_one_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full, start(*arguments, stdout=full.fileno()) as run:
        _, err = run.communicate(timeout=60)
    assert run.returncode == (2 if "imgae" in arguments else 8)
    assert err.count("error: ") == 1
    assert "Traceback" not in err


def test_a_closed_stdout_is_one_error() -> None:
    run = shell(f"{ENTRY} plan >&-")
    assert (run.returncode, run.stderr.count("error: stdout is closed")) == (2, 1)
    assert "Traceback" not in run.stderr


def test_a_closed_stderr_does_not_fill_stdout() -> None:
    run = shell(f"{ENTRY} imgae 2>&-")
    assert (run.returncode, run.stdout) == (2, "")


@pytest.mark.parametrize(("line", "out"), [(f"{ENTRY} imgae 2<{ENTRY}", ""), (f"{ENTRY} --version 1<{ENTRY}", "")])
def test_a_stream_that_is_open_for_reading_counts_as_closed(line: str, out: str) -> None:
    run = shell(line)
    assert (run.returncode, run.stdout) == (2, out)


def test_a_reader_that_leaves_is_no_error() -> None:
    run = shell(f"set -o pipefail; {ENTRY} config show | true")
    assert (run.returncode, run.stderr) in ((141, ""), (0, ""))


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"exec {line}" if "|" not in line else line], capture_output=True, text=True, check=False
    )
