"""A child that prints nothing, or moves no byte, is ended with all that it started; one that works is not."""

import sys
from pathlib import Path

import pytest

from gb10.core.concurrency import IdleTimeout, moved
from gb10.core.proc import SILENT, CommandFailedError, capture_while_active, stream
from tests.hang import until

pytestmark = pytest.mark.integration


def test_a_silent_child_is_ended_with_its_own_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! >{tmp_path}/pid; echo begun; wait"
    with pytest.raises(CommandFailedError) as caught:
        capture_while_active(["sh", "-c", script], patience=0.5)
    assert caught.value.returncode == SILENT
    pid = (tmp_path / "pid").read_text().strip()
    until(lambda: has_ended(Path("/proc", pid, "stat")), "the end of sleep")


def has_ended(stat: Path) -> bool:
    """Whether it is a zombie, or gone."""
    try:
        return ") Z " in stat.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_child_that_reports_its_progress_is_not_ended() -> None:
    script = 'for i in 1 2 3 4 5 6 7 8; do printf "$i%%\\r" >&2; sleep 0.5; done; echo done'
    assert capture_while_active(["sh", "-c", script], patience=3) == "done\n"


def test_a_child_that_moves_no_byte_is_ended_with_its_own_children(tmp_path: Path) -> None:
    heard: list[str] = []
    with pytest.raises(CommandFailedError) as caught:
        patience = IdleTimeout(seconds=0.5, sign=moved)
        stream(["sh", "-c", "echo begun; sleep 600"], log=tmp_path / "log", on_line=heard.append, patience=patience)
    assert (caught.value.returncode, heard) == (SILENT, ["begun"])


def test_a_child_that_moves_bytes_and_prints_nothing_is_not_ended(tmp_path: Path) -> None:
    script = "import time\nfor _ in range(8):\n open('/dev/null', 'wb').write(bytes(1 << 18)); time.sleep(0.5)"
    stream([sys.executable, "-c", script], log=tmp_path / "log", patience=IdleTimeout(seconds=3, sign=moved))
