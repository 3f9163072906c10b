"""Child processes: their codes and their ends, and no URL's password is shown."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.core.child_sessions import dialogue
from gb10.core.concurrency import IdleTimeout, moved
from gb10.core.proc import CommandFailedError, background, capture, capture_while_active, spawn, stream
from tests.hang import PATIENCE, until

ROOT = Path(__file__).resolve().parents[3]
URL = "https://me:se@cret@mirror.invalid/debian"


def test_a_child_that_fails_by_itself_has_its_own_code(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError) as caught:
        stream(["sh", "-c", "exit 3"], log=tmp_path / "log", patience=IdleTimeout(seconds=5, sign=moved))
    assert caught.value.returncode == 3


def test_ctrl_c_ends_a_child_that_is_watched(tmp_path: Path) -> None:
    script = f"""\
from pathlib import Path
from gb10.core.proc import stream
from gb10.core.concurrency import IdleTimeout, moved
argv = ["sh", "-c", "echo $$; exec sleep 600"]
stream(argv, log=Path({str(tmp_path / "log")!r}), on_line=lambda line: print(line, flush=True),
       patience=IdleTimeout(seconds=600, sign=moved))
"""
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout
        pid = child.stdout.readline().strip()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors
    assert not Path("/proc", pid).exists()


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_in_the_background_ends_with_the_process_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "scratch").mkdir()
    script = f"""\
import time
from pathlib import Path
from gb10.core.proc import background
folder = Path({str(tmp_path)!r})
with background(["sh", "-c", "echo $$; exec sleep 600"], log=folder / "log", scratch=folder / "scratch"):
    print("up", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "up\n"
        until(lambda: (tmp_path / "log").read_text().endswith("\n"), "the child")
        child = (tmp_path / "log").read_text().strip()
        run.send_signal(number)
    until(lambda: not Path(f"/proc/{child}").exists() and not (tmp_path / "scratch").exists(), "the end of the child")


def test_a_child_in_the_background_that_ends_by_itself_is_seen(tmp_path: Path) -> None:
    with background(["sh", "-c", "echo words; exit 3"], log=tmp_path / "log", scratch=tmp_path / "scratch") as alive:
        until(lambda: not alive(), "the end of the child")
    assert (tmp_path / "log").read_text() == "words\n"


def test_a_dialogue_ends_with_the_end_of_stdin_and_is_read_line_by_line() -> None:
    script = 'echo one; echo two; echo words >&2; while read -r word; do echo "got $word"; done; echo end'
    with dialogue(["sh", "-c", script], env=os.environ) as reporter:
        assert [reporter.line(10), reporter.line(10), reporter.line(0.05)] == ["one", "two", None]
        reporter.say("a line")
        assert reporter.line(10) == "got a line"
        assert reporter.errors() == "words"
    with dialogue(["sh", "-c", "echo one; exit 3"], env=os.environ) as reporter:
        assert [reporter.line(10), reporter.line(10)] == ["one", ""]
        reporter.say("nobody hears it")
    with pytest.raises(CommandFailedError), dialogue(["/nowhere"], env=os.environ):
        pass


def test_a_daemon_has_a_session_a_log_and_nothing_to_read(tmp_path: Path) -> None:
    log, path = tmp_path / "logs/daemon", os.environ["PATH"]
    script = 'cat; echo "$NAME"; echo error >&2; cut -d " " -f 6 /proc/$$/stat'
    for name in ("one", "two"):
        pid = spawn(["sh", "-c", script], log=log, env={"PATH": path, "NAME": name})
        assert os.waitpid(pid, 0)[1] == 0
        *_, said, error, session = log.read_text(encoding="utf-8").splitlines()
        assert (said, error, int(session)) == (name, "error", pid)
    assert len(log.read_text(encoding="utf-8").splitlines()) == 6, "the second adds to the first"
    assert log.stat().st_mode & 0o022 == 0
    with pytest.raises(CommandFailedError) as caught:
        spawn(["no-such-daemon"], log=log, env={"PATH": path})
    assert caught.value.returncode == 127
