"""What processes used, held against the kernel's own sums: getrusage(2) of the children, and written bytes."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gb10.core.usage import CONTAINERS, SHORT, Usage, UsageTree, parse_stat

TREE = """\
import subprocess, sys, time
def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
for _ in range(20):
    subprocess.run(["sh", "-c", "true"], check=True)
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"], check=True)
with open(sys.argv[1], "wb") as file:
    file.write(b"x" * 3_000_000)
busy(0.3)
"""


def test_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path) -> None:
    tree = UsageTree(since=1 << 62, contained=lambda command: "")
    roots, phases = {os.getpid(): "test"}, {"test": "all"}
    tree.look(roots, phases)  # what this process did before does not count
    tree.since = 0  # but each child does from its start
    before, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    file = tmp_path / "file"
    with subprocess.Popen([sys.executable, "-c", TREE, str(file)]) as child:
        while child.poll() is None:
            tree.look(roots, phases)
            time.sleep(0.02)
    tree.look(roots, phases)
    after, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time() - own
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    total = sum(tree.sums.values(), Usage())
    assert children > 0.5
    assert total.cpu == pytest.approx(children + own, abs=0.2)  # /proc counts in ticks, for each process
    assert total.system <= total.cpu
    assert total.written >= file.stat().st_size or not written_to_disk(tmp_path)
    assert tree.peak > 5e6
    assert {program for _, program in tree.sums} >= {"test", "python", SHORT}


def written_to_disk(folder: Path) -> bool:
    """Whether the file system counts bytes as written for a disk; one in memory does not."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    _, kind = max((one for one in mounts if folder.is_relative_to(one[0])), key=lambda one: len(one[0]))
    return kind != "tmpfs"


def test_a_container_has_the_phase_of_its_first_program(tmp_path: Path) -> None:
    """The root is a daemon, its child a container: below it, the phase stays, whatever runs."""
    script = "python3 -c 'import time\nwhile time.process_time() < 0.3: pass' install.py; :"
    tree = UsageTree(since=0, contained=lambda command: "install" if "install.py" in command else "")
    seen = set[str]()
    with subprocess.Popen(["sh", "-c", script], cwd=tmp_path) as child:
        while child.poll() is None:
            seen |= tree.look({os.getpid(): CONTAINERS}, {CONTAINERS: "engine"})
            time.sleep(0.02)
    assert seen == {"install"}
    assert tree.sums["install", "python install.py"].cpu >= 0.2


def test_a_line_of_stat_whose_program_has_brackets_and_spaces() -> None:
    numbers = " ".join(map(str, range(4, 53)))
    process = parse_stat(f"42 (a) (b c) S {numbers}")
    assert (process.key, process.parent, process.program) == ((42, 22), 4, "a) (b c")
    tick = os.sysconf("SC_CLK_TCK")
    assert (process.own.cpu, process.own.system) == pytest.approx(((14 + 15) / tick, 15 / tick))
    assert (process.waited.cpu, process.waited.system) == pytest.approx(((16 + 17) / tick, 17 / tick))
