"""Journals lose at most their last line; sessions of processes end as a whole."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gb10.core.child_sessions import end_session, leading, started
from gb10.core.journal import Journal
from gb10.core.proc import CommandFailedError
from gb10.errors import UsageError
from tests.hang import PATIENCE

HEAD = {"kind": "test", "identity": "one"}
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_journal_goes_on_after_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "new/j.jsonl"
    Journal(path, HEAD).append('{"a": 1}')
    with path.open("a", encoding="utf-8") as out:
        out.write('{"b": ')
    again = Journal(path, HEAD)
    assert again.lines == ['{"a": 1}', '{"b": ']
    again.append_object({"c": 3})
    assert path.read_text(encoding="utf-8").splitlines()[1:] == ['{"a": 1}', '{"b": ', '{"c": 3}']


@pytest.mark.parametrize("text", ['{"identity": "two"}\n', "no journal\n", "[" * 9999, "[1]\n"])
def test_a_file_of_something_else_is_not_touched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="belongs to another job"):
        Journal(path, HEAD)
    assert path.read_text(encoding="utf-8") == text


def test_a_session_ends_with_the_children_and_the_stubborn() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout
        child = int(leader.stdout.readline())
        begun = started(leader.pid)
        assert begun is not None
        end_session(leader.pid, leader.poll, patience=0.3)
        assert leader.wait(PATIENCE) != 0
    for _ in range(100):
        if started(child) is None or Path(f"/proc/{child}/stat").read_text(encoding="utf-8").split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the child is still there")
    assert started(os.getpid()) is not None


def test_what_a_server_started_ends_with_it_and_its_end_is_known(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "echo begun $GREETING; sleep 600 & echo $!; wait"
    with leading(["sh", "-c", script], log=log, env={**os.environ, "GREETING": "hello"}) as leader:
        while len(lines := log.read_text(encoding="utf-8").split()) < 3:
            time.sleep(0.01)
        assert (lines[:2], leader.poll()) == (["begun", "hello"], None)
    assert leader.code == -15
    assert started(leader.pid) is None
    with leading(["sh", "-c", "exit 7"], log=log, env=os.environ) as leader:
        while leader.poll() is None:
            time.sleep(0.01)
    assert leader.code == 7


@pytest.mark.parametrize(("mode", "code"), [(0o644, 127), (0o755, 126)])
def test_what_cannot_be_started_has_the_code_of_a_shell(tmp_path: Path, mode: int, code: int) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00not a program")
    program.chmod(mode)
    with pytest.raises(CommandFailedError) as caught, leading([str(program)], log=tmp_path / "log", env=os.environ):
        raise AssertionError("it was started")
    assert caught.value.returncode == code
