"""A builder's cores and memory, shared out among the compilers of all its stages."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.inside.compile import compile_slots
from tests.hang import PATIENCE, until

PEAKS = {"small": 256, "large": 1024}
COSTS = {"peaks": PEAKS, "units": {"large": {"binding.cuda.o": {"cpu_s": 9, "peak_mib": 300}}}, "other": 512}
COMPILER = """#!/bin/sh
echo "+$2" >>"$1"
sleep "$3"
while [ "$2" = small ] && [ ! -e "${1%/*}/end" ]; do sleep 0.01; done
echo "-$2" >>"$1"
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pool of 1 GiB, four slots, and of six jobs; what stands for ccache runs the compiler that it is given."""
    peaks = tmp_path / "costs.json"
    peaks.write_text(json.dumps(COSTS))
    monkeypatch.setattr(compile_slots, "available", lambda: 1024 + compile_slots.RESERVE)
    compile_slots.write_wrappers(
        tmp_path / "room", tmp_path / "pool", peaks, compile_slots.create_slots(tmp_path / "pool", 6)
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ccache").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "bin/ccache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    return tmp_path


def start(opened: Path, family: str, seconds: float, stage: str = "room") -> subprocess.Popen[bytes]:
    compiler = [str(opened / "compiler"), str(opened / "log"), family, str(seconds)]
    return subprocess.Popen(
        [str(opened / stage / "ccache"), *compiler, "-o", f"/build/{family}/unit.o"], start_new_session=True
    )


def have_begun(opened: Path, count: int) -> bool:
    """Whether so many compilers run."""
    return (opened / "log").exists() and (opened / "log").read_text().count("+") == count


def in_line(opened: Path) -> int:
    """How many wait, for memory or for their turn: each has locked a byte of the queue."""
    queue = f":{(opened / 'pool/queue').stat().st_ino} "
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return sum(queue in line and ": POSIX  ADVISORY  WRITE" in line for line in lines)


def at_once(log: str) -> list[int]:
    """MiB in use after each line of the compilers' log."""
    used, found = 0, []
    for line in log.splitlines():
        used += (1 if line[0] == "+" else -1) * PEAKS.get(line[1:], 512)
        found.append(used)
    return found


def test_together_they_never_need_more_than_there_is(opened: Path) -> None:
    (opened / "end").touch()
    started = [start(opened, family, 0.1) for family in ("large", "small", "small", "other", "large", "small")]
    assert [child.wait() for child in started] == [0] * 6
    used = at_once((opened / "log").read_text())
    assert len(used) == 12
    assert max(used) == 1024
    assert used[-1] == 0


def test_small_ones_run_at_the_same_time(opened: Path) -> None:
    """Each ends only when all of them have started."""
    started = [start(opened, "small", 0) for _ in range(4)]
    until(lambda: have_begun(opened, 4), "the compilers")
    (opened / "end").touch()
    assert [child.wait() for child in started] == [0] * 4
    assert max(at_once((opened / "log").read_text())) == 1024


def test_what_a_killed_compiler_held_is_free_again(opened: Path) -> None:
    first = start(opened, "large", 60)
    (opened / "end").touch()
    until((opened / "log").exists, "the compilers")
    second = start(opened, "small", 0)
    until(lambda: in_line(opened) == 1, "their line")
    assert second.poll() is None
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert second.wait(timeout=PATIENCE) == 0


def start_behind(opened: Path, family: str, place: int) -> subprocess.Popen[bytes]:
    """A compiler that waits in that place of the queue."""
    started = start(opened, family, 0)
    until(lambda: in_line(opened) == place, "their line")
    return started


def test_who_waits_first_starts_first(opened: Path) -> None:
    """Each takes all memory. One is killed while it waits, and those behind it go on."""
    (opened / "room/peaks.json").write_text(json.dumps({"peaks": {}, "units": {}, "other": 1024}))
    first = start(opened, "first", 60)
    until((opened / "log").exists, "the compilers")
    waiting = [start_behind(opened, name, place) for place, name in enumerate("abcde", 1)]
    os.killpg(waiting[2].pid, signal.SIGKILL)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert [child.wait(timeout=PATIENCE) for child in waiting] == [0, 0, -signal.SIGKILL, 0, 0]
    begun = [line for line in (opened / "log").read_text().split() if line[0] == "+"]
    assert begun == ["+first", "+a", "+b", "+d", "+e"]
    assert in_line(opened) == 0


def test_two_stages_share_jobs_and_memory(opened: Path) -> None:
    """A stage that begins while compilers run takes part in what was shared out; each has its own families."""
    first = start(opened, "large", 60)
    until((opened / "log").exists, "the compilers")
    (opened / "other.json").write_text(json.dumps({"peaks": {}, "units": {}, "other": 256}))
    compile_slots.write_wrappers(
        opened / "stage", opened / "pool", opened / "other.json", compile_slots.create_slots(opened / "pool", 64)
    )
    second = start(opened, "large", 0, "stage")
    until(lambda: in_line(opened) == 1, "their line")
    assert (second.poll(), len([*(opened / "pool/jobs").iterdir()])) == (None, 6)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert second.wait(timeout=PATIENCE) == 0


def test_no_more_compilers_run_than_there_are_jobs(opened: Path) -> None:
    compile_slots.create_slots(opened / "pool", 2)
    started = [start(opened, "small", 0) for _ in range(5)]
    until(lambda: have_begun(opened, 2), "the compilers")
    (opened / "end").touch()
    assert [child.wait() for child in started] == [0] * 5
    assert max(at_once((opened / "log").read_text())) == 2 * PEAKS["small"]


def test_what_a_killed_build_left_is_shared_out_anew(opened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start(opened, "large", 60)
    until((opened / "log").exists, "the compilers")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    monkeypatch.setattr(compile_slots, "available", lambda: 2048 + compile_slots.RESERVE)
    assert compile_slots.create_slots(opened / "pool", 3) == {"jobs": 3, "slots": 8, "mib": 256}
    assert [len([*(opened / "pool" / kind).iterdir()]) for kind in ("jobs", "slots")] == [3, 8]


def test_stages_that_open_at_the_same_time_are_told_the_same(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(json.dumps(COSTS))
    given = [f"--pool={tmp_path / 'pool'}", f"--peaks={tmp_path / 'costs.json'}", "--jobs=3"]
    argv = [sys.executable, "-IS", compile_slots.__file__, *given]
    started = [subprocess.Popen([*argv, f"--open={tmp_path / str(number)}"]) for number in range(8)]
    assert [child.wait(timeout=PATIENCE) for child in started] == [0] * 8
    told = [json.loads((tmp_path / str(number) / "pool.json").read_text()) for number in range(8)]
    assert {(each["jobs"], each["mib"]) for each in told} == {(3, 256)}
    assert all(each["slots"] > 0 for each in told)


@pytest.mark.parametrize("name", ["queue", "turn", "jobs", "slots"])
@pytest.mark.parametrize("kind", ["link", "link to a folder", "folder", "pipe"])
def test_what_is_no_file_in_the_pool_goes(tmp_path: Path, name: str, kind: str) -> None:
    """An unreviewed stage may leave it. No link is followed."""
    path, victim = tmp_path / "pool" / name, tmp_path / "victim"
    path.parent.mkdir()
    victim.mkdir()
    (victim / "kept").touch()
    if kind.startswith("link"):
        path.symlink_to(victim if "folder" in kind else victim / "kept")
    elif kind == "folder":
        path.mkdir()
        (path / "inner").symlink_to(victim)
    else:
        os.mkfifo(path)
    assert compile_slots.create_slots(tmp_path / "pool", 2)["jobs"] == 2
    assert (victim / "kept").read_bytes() == b""
    assert path.is_file() == (name in ("queue", "turn"))
    assert not path.is_symlink()


@pytest.mark.parametrize("kind", ["jobs", "slots"])
def test_a_link_among_the_jobs_counts_for_nothing(opened: Path, kind: str) -> None:
    (opened / "pool" / kind / "0").unlink()
    (opened / "pool" / kind / "0").symlink_to(opened / "victim")
    (opened / "end").touch()
    assert start(opened, "small", 0).wait(timeout=PATIENCE) == 0
    assert not (opened / "victim").exists()


def test_its_exit_code_is_the_compilers(opened: Path) -> None:
    failed = [str(opened / "room/ccache"), sys.executable, "-c", "raise SystemExit(3)", "-o", "/build/x.o"]
    assert subprocess.run(failed, check=False).returncode == 3


@pytest.mark.parametrize(
    ("made", "mib"),
    [
        ("/build/cached_ops/large/a.cuda.o", 1024),
        ("CMakeFiles/large.dir/csrc/a.cu.o", 1024),
        ("/build/small/large.o", 256),
        ("CMakeFiles/cmTC_1.dir/a.o", 512),
        ("CMakeFiles/large.dir/csrc/small/a.cu.o", 1024),
        ("/build/cached_ops/large/binding.cuda.o", 300),
        ("/build/cached_ops/other/binding.cuda.o", 512),
    ],
)
def test_a_family_is_a_folder_of_the_object_and_its_units_may_have_memory_of_their_own(made: str, mib: int) -> None:
    assert compile_slots.memory_for(COSTS, ["nvcc", "-c", "a.cu", "-o", made]) == mib


def test_what_runs_elsewhere_counts(opened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that are free promise no memory that others have taken meanwhile."""
    slots = sorted((opened / "pool/slots").iterdir())
    monkeypatch.setattr(compile_slots, "available", lambda: 300)
    assert compile_slots.acquire_slots(slots, 2, 512)  # alone
    assert not compile_slots.acquire_slots(slots, 2, 512)
    assert compile_slots.acquire_slots(slots, 1, 256)


def test_more_than_there_is_runs_alone(opened: Path) -> None:
    (opened / "room/peaks.json").write_text(json.dumps({**COSTS, "peaks": {"large": 10**6, "small": 256}}))
    (opened / "end").touch()
    started = [start(opened, family, 0.1) for family in ("large", "small", "large")]
    assert [child.wait(timeout=PATIENCE) for child in started] == [0] * 3
    log = (opened / "log").read_text().splitlines()
    assert all(log[at + 1] == "-large" for at, line in enumerate(log) if line == "+large")
