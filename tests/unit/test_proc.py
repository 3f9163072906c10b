"""Child processes: a silent one is ended with all that it started, and no URL's password is shown."""

import time
from pathlib import Path

import pytest

from gb10.host.proc import SILENT, CommandFailedError, capture, capture_while_active, stream

URL = "https://me:se@cret@mirror.invalid/debian"


def test_a_silent_child_is_ended_with_its_own_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! >{tmp_path}/pid; echo begun; wait"
    start = time.monotonic()
    with pytest.raises(CommandFailedError) as caught:
        capture_while_active(["sh", "-c", script], patience=0.5)
    assert caught.value.returncode == SILENT
    assert time.monotonic() - start < 10
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    while stat.exists() and ") Z " not in stat.read_text():  # ends by the test's time limit at the latest
        assert time.monotonic() - start < 10
        time.sleep(0.02)


def test_a_child_that_reports_its_progress_is_not_ended() -> None:
    script = 'for i in 1 2 3 4; do printf "$i%%\\r" >&2; sleep 0.4; done; echo done'
    assert capture_while_active(["sh", "-c", script], patience=1.2) == "done\n"


def test_the_tail_is_what_a_terminal_would_show() -> None:
    with pytest.raises(CommandFailedError) as caught:
        capture_while_active(["sh", "-c", r"printf '1%%\r2%%\rfatal: no\n' >&2; exit 3"], patience=10)
    assert (caught.value.returncode, caught.value.tail) == (3, "fatal: no")


def test_a_password_is_in_no_error_and_in_no_log(tmp_path: Path) -> None:
    for run in (
        lambda: capture(["sh", "-c", f"echo 'E: {URL} is gone'; exit 1"]),
        lambda: stream(["sh", "-c", f"echo 'E: {URL} is gone'; exit 1"], log=tmp_path / "log"),
    ):
        with pytest.raises(CommandFailedError, match="mirror") as caught:
            run()
        assert caught.value.tail.strip() == "E: https://mirror.invalid/debian is gone"
        assert "cret" not in str(caught.value)
    assert "cret" not in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_digest_is_no_password() -> None:
    assert capture(["echo", "docker-image://a@sha256:0"]) == "docker-image://a@sha256:0\n"
    with pytest.raises(CommandFailedError, match="docker-image://a@sha256:0"):
        capture(["false", "docker-image://a@sha256:0"])
