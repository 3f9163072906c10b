"""The memory guard in the first process of a container: which rule ends a server, and which shortage does not.

A node's figures are files here, written as the kernel would; a program that really takes memory runs in a cgroup.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gb10.serving.run.service import SCRIPT

pytestmark = pytest.mark.slow
MIB, GIB = 1 << 10, 1 << 20
"""In KiB, as the kernel prints."""
TOTAL = 122 * GIB
LEAST = 2 * GIB
GROUPS = Path("/sys/fs/cgroup")
TAKER = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as an engine that takes its time to end
rate, most, held = float(sys.argv[1]) * 2**30, int(float(sys.argv[2]) * 2**30), os.memfd_create("held")
start, taken = time.monotonic(), 0
while taken < most:
    os.posix_fallocate(held, taken, 16 << 20)
    taken += 16 << 20
    time.sleep(max(taken / rate - (time.monotonic() - start), 0))
time.sleep(float(sys.argv[3]))
"""
"""Takes memory in GiB a second, up to so many GiB, and stays. What it takes, no page cache can give back."""


class Node:
    """A node whose kernel's figures are files, and the guard that reads them. Sizes in KiB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("run", "secrets", "group"):
            (folder / name).mkdir()
        text = SCRIPT.read_text(encoding="utf-8").replace("/sys/fs/cgroup/memory.", f"{folder}/group/memory.")
        (folder / "run/launch.sh").write_text(text.replace("/proc/meminfo", f"{folder}/meminfo"), encoding="utf-8")

    def write(
        self, left: float, *, cache: float = 0, own: float = 0, others: float = 0, active: float = 0, limit: float = 0
    ) -> None:
        """The figures: ``left`` holds all of ``cache``; ``own`` and ``others`` are programs, ``active`` pages of the
        container's own files, which it has read twice."""
        shown = {
            "MemTotal": TOTAL,
            "MemFree": left - cache,
            "MemAvailable": left,
            "Buffers": 0,
            "Cached": cache,
            "AnonPages": own + others,
            "Shmem": 0,
            "SReclaimable": 0,
        }
        self._put("meminfo", "".join(f"{name}: {int(value)} kB\n" for name, value in shown.items()))
        self._put("group/memory.max", f"{int(limit) << 10}\n" if limit else "max\n")
        self._put("group/memory.stat", f"anon {int(own) << 10}\ninactive_file 0\nactive_file {int(active) << 10}\n")
        self._put("group/memory.current", f"{int(own + active) << 10}\n")

    def _put(self, name: str, text: str) -> None:
        new = self.folder / "new"
        new.write_text(text, encoding="ascii")
        new.rename(self.folder / name)

    def runs(
        self, seconds: float, figures: Callable[[float], Mapping[str, float]], least: int = LEAST
    ) -> tuple[str, int]:
        """What the guard prints, and the exit code of a server that would run so long; figures by the second."""
        self.write(**figures(0))
        over = threading.Event()

        def play() -> None:
            start = time.monotonic()
            while not over.wait(0.02):
                self.write(**figures(time.monotonic() - start))

        writer = threading.Thread(target=play)
        writer.start()
        argv = ["bash", str(self.folder / "run/launch.sh"), str(least), f"exec sleep {seconds}"]
        try:
            done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        finally:
            over.set()
            writer.join()
        return done.stdout, done.returncode


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_memory_that_goes_at_three_gigabytes_a_second_ends_the_server_while_some_is_left(node: Node) -> None:
    said, code = node.runs(20, lambda at: {"left": max(20 * GIB - 3 * GIB * at, 0)})
    assert code == 99
    left, rule = re.search(r"(\d+) MiB of memory .*\(rule (\w+): \d+ MiB", said).groups()  # type: ignore[union-attr]
    assert rule == "slope"
    assert 1024 < int(left) < 3072
    rows = re.findall(r"^gb10: +(\d+\.\d\d) +(\d+) ", said, re.MULTILINE)
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert int(rows[0][1]) > 19 * 1024
    assert int(rows[-1][1]) == int(left)
    assert re.search(r"in \d s: left -\d+, .*, GPU and kernel \+\d+ MiB$", said)


def test_little_memory_that_falls_slowly_ends_the_server_with_a_signal_that_it_can_handle(node: Node) -> None:
    said, code = node.runs(20, lambda at: {"left": 2.2 * GIB - 150 * MIB * at})
    assert (code, "(rule low: less than 2048 MiB" in said) == (99, True), said


def test_a_service_that_has_run_for_weeks_with_little_left_stays(node: Node) -> None:
    said, code = node.runs(4, lambda at: {"left": 1.6 * GIB + 20 * MIB * (int(at * 3) % 2)})
    assert code == 0, said
    assert re.findall("gb10: .*", said) == [
        f"gb10: {said.split()[1]} MiB of memory are left, less than 2048, and it does not fall: the server stays"
    ]


def test_the_floor_ends_a_server_whatever_came_before(node: Node) -> None:
    said, code = node.runs(20, lambda at: {"left": 0.9 * GIB})
    assert (code, "(rule floor: less than 1024 MiB)" in said) == (99, True), said


def test_what_other_programs_take_ends_the_server_at_the_floor_alone_and_is_said(node: Node) -> None:
    def figures(at: float) -> dict[str, float]:
        taken = min(3 * GIB * at, 6.5 * GIB)
        return {"left": 8 * GIB - taken, "own": 20 * GIB, "others": 4 * GIB + taken}

    said, code = node.runs(4, figures)
    assert code == 0, said
    assert "less than 2048, and other programs took it: the server stays" in said
    said, code = node.runs(20, lambda at: {"left": 8 * GIB - 4 * GIB * at, "own": 20 * GIB, "others": 4 * GIB * at})
    assert (code, "(rule floor:" in said) == (99, True), said
    assert int(re.search(r"other programs \+(\d+), GPU", said)[1]) > 5000  # type: ignore[index]


@pytest.mark.parametrize("limit", [0, 9 * GIB])
def test_page_cache_that_grows_ends_nothing(node: Node, limit: int) -> None:
    """Of the node, where the kernel counts it as available; and of the container's limit, until that is full."""

    def figures(at: float) -> dict[str, float]:
        cache = min(2 * GIB * at, 6 * GIB)
        return {"left": 60 * GIB, "cache": cache, "own": 3 * GIB, "active": cache, "limit": limit}

    said, code = node.runs(4, figures)
    assert (said, code) == ("", 0)


def test_weights_and_a_cache_that_fill_what_the_recipe_may_take_end_nothing(node: Node) -> None:
    """At the speed of a fast loader, then 40 GiB at once."""

    def figures(at: float) -> dict[str, float]:
        loaded = min(9 * GIB * max(at - 0.5, 0), 18 * GIB)
        return {"left": 66 * GIB - loaded - (40 * GIB if at > 3 else 0)}

    said, code = node.runs(5, figures)
    assert (said, code) == ("", 0)


def group_files() -> tuple[Path, str, str, str]:
    """Where a memory cgroup is made, and its files of the limit, the processes and the largest use."""
    if (GROUPS / "memory").is_dir():
        return GROUPS / "memory", "memory.limit_in_bytes", "cgroup.procs", "memory.max_usage_in_bytes"
    return GROUPS, "memory.max", "cgroup.procs", "memory.peak"


@contextmanager
def group(limit: float) -> Iterator[Path]:
    """A memory cgroup with a limit in GiB."""
    parent, most, _, _ = group_files()
    made = parent / f"gb10-guard-{os.getpid()}"
    try:
        made.mkdir()
        (made / most).write_text(str(int(limit * 2**30)), encoding="ascii")
    except OSError as error:
        with suppress(OSError):
            made.rmdir()
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield made
    finally:
        for _ in range(100):
            with suppress(OSError):
                made.rmdir()
                break
            time.sleep(0.05)


def test_a_program_that_takes_gigabytes_a_second_is_ended_before_its_limit(tmp_path: Path) -> None:
    """Really: with 3 GiB, of which half a GiB is to stay; it does not end by SIGTERM."""
    node = Node(tmp_path)
    with group(3) as own:
        text = SCRIPT.read_text(encoding="utf-8")
        theirs = own.parent / "memory."
        (node.folder / "run/launch.sh").write_text(text.replace(f"{theirs}", f"{own}/memory."), encoding="utf-8")
        (node.folder / "take.py").write_text(TAKER, encoding="utf-8")
        command = f"exec {sys.executable} -I {node.folder}/take.py 3 3.5 60"
        shell = f"echo $$ >{own}/{group_files()[2]} && exec bash {node.folder}/run/launch.sh {512 * MIB} '{command}'"
        done = subprocess.run(
            ["bash", "-c", shell], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
        peak = int((own / group_files()[3]).read_text(encoding="ascii"))
    assert done.returncode == 99, done.stdout
    assert "of the container's limit: the memory guard ends the server (rule slope:" in done.stdout
    assert peak < 3 * 2**30 - 256 * 2**20
    assert int(re.search(r"this container \+(\d+)", done.stdout)[1]) > 500  # type: ignore[index]
