"""What the tool starts itself with: locks without a host, the vendored pip, its causes, a build.py for old Pythons."""

import ast
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bootstrap.environment import CHECKOUT, check_owner, environment, environment_key, is_inside
from bootstrap.install import PIP, PIP_SHA256, explain
from gb10.core.store import file_sha256
from gb10.errors import UsageError
from tests.hang import PATIENCE

LOCKS = [CHECKOUT / "requirements.lock", CHECKOUT / "requirements-dev.lock"]


def pins(lock: Path) -> dict[str, str]:
    """Name to version."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_hashes_and_no_host(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:])


def test_what_is_tested_is_what_runs() -> None:
    runtime, development = (pins(lock) for lock in LOCKS)
    assert runtime.items() <= development.items()


def test_the_vendored_pip_is_the_one_released() -> None:
    assert file_sha256(PIP) == PIP_SHA256
    assert PIP.name in (CHECKOUT / "NOTICE").read_text(encoding="utf-8")


def test_build_py_parses_on_a_python_that_is_too_old() -> None:
    source = (CHECKOUT / "build.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__" not in source


def test_an_environment_is_named_by_its_lock(tmp_path: Path) -> None:
    assert environment_key(b"a") == environment_key(b"a") != environment_key(b"b")
    assert environment(LOCKS[0], tmp_path).root.parent == tmp_path / "environments"


def test_a_store_with_a_colon_in_its_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains ':'"):
        environment(LOCKS[0], tmp_path / "a:b")


def test_a_half_made_environment_does_not_count(tmp_path: Path) -> None:
    wanted = environment(LOCKS[0], tmp_path)
    wanted.python.parent.mkdir(parents=True)
    wanted.python.touch(mode=0o755)
    assert not wanted.is_complete()
    wanted.stamp.write_text("", encoding="ascii")
    assert not wanted.is_complete()
    wanted.stamp.write_text(file_sha256(wanted.lock), encoding="ascii")
    assert wanted.is_complete()
    assert not is_inside(LOCKS[0])


def test_root_runs_no_environment_of_another_user(tmp_path: Path) -> None:
    check_owner(tmp_path, owner=0, user=0)
    check_owner(tmp_path, owner=0, user=1000)
    with pytest.raises(UsageError, match="belongs to user 1000"):
        check_owner(tmp_path, owner=1000, user=0)


@pytest.mark.parametrize(
    ("tail", "code", "message"),
    [
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
            5,
            "does not match its locked hash",
        ),
        ("Retrying (…) SSLError(…)\nERROR: No matching distribution found", 5, "certificate is not trusted"),
        ("Retrying (…) Connection refused\nERROR: No matching distribution found", 5, "cannot reach"),
        ("ERROR: No matching distribution found for pydantic-core", 5, "no locked wheel for this machine"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", 2, "no disk space"),
        ("something else", 5, "cannot install"),
    ],
)
def test_pips_words_become_one_error(tail: str, code: int, message: str) -> None:
    error = explain(tail)
    assert error.code == code
    assert message in error.message
    assert error.hint


STREAMING = """
import signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gb10.core.signals import end_as_by_ctrl_c
from gb10.core.proc import stream
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup
end_as_by_ctrl_c()
try:
    stream(["sh", "-c", "echo $$; exec sleep 60"], log=Path(sys.argv[2]), on_line=lambda line: print(line, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_run_ends_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    argv = [sys.executable, "-c", STREAMING, str(CHECKOUT), str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        child = run.stdout.readline().strip()
        run.send_signal(number)
        assert run.wait(timeout=PATIENCE) == 130
    assert gone(Path(f"/proc/{child}/stat"))


def gone(stat: Path) -> bool:
    """Whether a process ends within ten seconds; what nobody has reaped yet has ended."""
    for _ in range(500):
        if not stat.exists() or ") Z " in stat.read_text():
            return True
        time.sleep(0.02)
    return False
