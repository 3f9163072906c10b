"""The compilers that run on this machine: the object that each makes, and the CPU seconds that it has had.

A compile stage starts each by inside/compile/launch.py, in a container of this machine's engine, so /proc shows it.
A builder elsewhere, or an engine in a virtual machine, shows nothing.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

LAUNCHER = b"launch.py"
OBJECT = ".o"
SHOWN = 2
"""Parts of an object's path that name it: a module's folder, and the file."""


def compilers_seen(proc: Path = Path("/proc")) -> dict[str, float]:
    """CPU seconds so far by object, ``norm/csrc_norm.cuda.o``, of a launcher and all that it started."""
    ticks = os.sysconf("SC_CLK_TCK")
    made, parents, used = dict[int, str](), dict[int, int](), dict[int, float]()
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended, or is not ours to see
            continue
        pid = int(folder.name)
        parents[pid], used[pid] = int(stat[1]), sum(map(int, stat[11:15])) / ticks
        if any(word.endswith(LAUNCHER) for word in words[:5]) and b"-o" in words[:-1]:
            made[pid] = words[words.index(b"-o") + 1].decode(errors="replace")
    return _by_object(made, parents, used)


def object_name(path: str) -> str:
    """The end of an object's path; empty for another file."""
    return "/".join(Path(path).parts[-SHOWN:]) if path.endswith(OBJECT) else ""


def _by_object(made: Mapping[int, str], parents: Mapping[int, int], used: Mapping[int, float]) -> dict[str, float]:
    """What each launcher's processes have had: a process counts for the nearest launcher above it."""
    found = defaultdict[str, float](float)
    for pid in used:
        above, steps = pid, 0
        while above not in made and above in parents and steps < len(parents):
            above, steps = parents[above], steps + 1
        if above in made and object_name(made[above]):
            found[object_name(made[above])] += used[pid]
    return dict(found)
