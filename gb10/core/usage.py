"""What running processes use: CPU time, bytes of disks and memory, by program, from looks at /proc.

Linux adds a process's CPU time and bytes to its parent's when the parent waits for it. So the sum of a tree is exact
at every look, and what no look saw under a name of its own is counted as ``SHORT``.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICK: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
SHORT: Final = "too short to be seen"
"""Programs that began and ended between two looks, and the last moments of every other one."""
RUNTIMES: Final = ("runc", "dockerd", "containerd", "exe")
"""What stands between a daemon and the first program of its container, by the beginning of the name."""
CONTAINERS: Final = "engine"
"""The role of roots whose children are containers, and which keep their names. Others are named by their role."""
MOST: Final = 4096
"""Bytes of a command line that are read."""
Key = tuple[int, int]
"""A pid and its start, in ticks since the machine's: Linux uses a pid again."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds, those of them in the kernel, bytes that came from a disk, and bytes written for one."""

    cpu: float = 0.0
    system: float = 0.0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.cpu + other.cpu, self.system + other.system, self.read + other.read, self.written + other.written
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.cpu - other.cpu, self.system - other.system, self.read - other.read, self.written - other.written
        )

    def positive(self) -> "Usage":
        """Without what is below 0."""
        return Usage(max(0.0, self.cpu), max(0.0, self.system), max(0, self.read), max(0, self.written))


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process at one look: what it used itself, without bytes, and what the children did that it waited for.

    Linux counts the bytes of both together: ``waited`` has them.
    """

    key: Key
    parent: int
    program: str
    own: Usage
    waited: Usage
    resident: int = 0
    """Bytes of memory."""


@dataclass(slots=True)
class Member:
    """What is known of a process below a root."""

    process: Process
    role: str
    phase: str
    """Of a container; empty while only the runtime runs, and for what is in none."""
    program: str
    debt: Usage = field(default_factory=Usage)
    """What children used that ended, while a look saw their parent before it waited for them."""


@dataclass(slots=True)
class UsageTree:
    """The processes below some roots, summed by phase and program, look by look.

    ``since``: processes that began before this tick count from the first look at them, others from their start.
    ``contained``: the phase of a container by the command line of its first program; empty for none.
    """

    since: int
    contained: Callable[[str], str]
    sums: dict[tuple[str, str], Usage] = field(default_factory=lambda: defaultdict(Usage))
    peak: int = 0
    """The most bytes of memory that all had at one look; what several share counts for each."""
    unreadable: set[str] = field(default_factory=set)
    """Programs whose bytes /proc does not show to this user."""
    _members: dict[Key, Member] = field(default_factory=dict)
    _roots: frozenset[int] = frozenset()
    _strangers: set[int] = field(default_factory=set)
    """Pids at the last look that are below none of its roots: most of a machine's, and not read again."""

    def look(self, roots: Mapping[int, str], phases: Mapping[str, str]) -> set[str]:
        """One look; ``roots``: pid to role, ``phases``: of a role outside of containers. Returns containers' phases."""
        before, self._members = self._members, self._found(roots)
        waited = {}
        for key, member in self._members.items():
            was = before.get(key)
            if was is None and key[1] < self.since:
                continue  # what it did before does not count
            past = was.process if was else Process(key=key, parent=0, program="", own=Usage(), waited=Usage())
            self.sums[member.phase or phases[member.role], member.program] += member.process.own - past.own
            waited[key] = member.process.waited - past.waited - (was.debt if was else Usage())
        ended = self._ended(before, waited)
        for key, rest in waited.items():
            member, seen = self._members[key], {one.phase or phases[one.role] for one in ended[key]}
            phase = member.phase or phases[member.role]
            unseen, member.debt = rest.positive(), (Usage() - rest).positive()
            self.sums[seen.pop() if len(seen) == 1 else phase, SHORT] += Usage(unseen.cpu, unseen.system)
            self.sums[phase, member.program] += Usage(0, 0, unseen.read, unseen.written)
        self.peak = max(self.peak, sum(member.process.resident for member in self._members.values()))
        return {member.phase for member in self._members.values() if member.phase}

    def _found(self, roots: Mapping[int, str]) -> dict[Key, Member]:
        """The processes below the roots now. One that lost its parent stays what it was."""
        pids = {int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()}
        self._strangers = self._strangers & pids if roots.keys() == self._roots else set()
        self._roots = frozenset(roots)
        found, before = {process.key[0]: process for process in processes(pids - self._strangers)}, self._members
        members: dict[int, Member | None] = {}

        def member_of(pid: int) -> Member | None:
            if pid in members or pid not in found:
                return members.get(pid)
            members[pid] = None  # parents that a changing /proc shows in a circle
            process, root = found[pid], pid in roots
            known = before.get(process.key)
            above = None if root else member_of(process.parent)
            role = roots[pid] if root else known.role if known else above.role if above else ""
            if role:
                phase = known.phase if known else above.phase if above else ""
                if not (phase or root or process.program.startswith(RUNTIMES)) and role == CONTAINERS:
                    phase = self.contained(command_line(pid))
                same = known is not None and known.process.program == process.program
                shown = role if root and role != CONTAINERS else process_name(process)
                program = known.program if known and same else shown
                members[pid] = Member(self._with_bytes(process), role, phase, program)
            return members[pid]

        below = {one.process.key: one for one in map(member_of, found) if one}
        self._strangers |= found.keys() - {pid for pid, _ in below}
        return below

    def _with_bytes(self, process: Process) -> Process:
        try:
            text = (PROC / str(process.key[0]) / "io").read_text(encoding="ascii")
        except PermissionError:
            self.unreadable.add(process.program)
            return process
        except OSError:  # it ends just now
            return process
        values = dict(line.split(": ") for line in text.splitlines())
        moved = Usage(0, 0, int(values["read_bytes"]), int(values["write_bytes"]))
        return replace(process, waited=process.waited + moved)

    def _ended(self, before: Mapping[Key, Member], waited: dict[Key, Usage]) -> dict[Key, list[Member]]:
        """The members that ended, by the next ancestor that lives. ``waited`` loses what they were seen to use."""
        by_pid = {member.process.key[0]: member for member in before.values()}
        ended: dict[Key, list[Member]] = defaultdict(list)
        for member in (one for key, one in before.items() if key not in self._members):
            heir: Member | None = member
            for _ in before:
                if heir is None or heir.process.key in self._members:
                    break
                heir = by_pid.get(heir.process.parent)
            if heir and heir.process.key in waited:
                key = heir.process.key
                ended[key].append(member)
                waited[key] = waited[key] - member.process.own - member.process.waited - member.debt
        return ended


def processes(pids: Iterable[int]) -> Iterator[Process]:
    """These processes, without their bytes; one that ends meanwhile is left out."""
    for pid in pids:
        with suppress(OSError):
            yield parse_stat((PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace"))


def parse_stat(text: str) -> Process:
    """A line of /proc/PID/stat (proc(5)). Pure."""
    head, _, tail = text.rpartition(")")
    pid, _, program = head.partition(" (")
    words = tail.split()  # from the third field on
    user, system, waited_user, waited_system = (int(word) / TICK for word in words[11:15])
    return Process(
        key=(int(pid), int(words[19])),
        parent=int(words[1]),
        program=program,
        own=Usage(user + system, system),
        waited=Usage(waited_user + waited_system, waited_system),
        resident=int(words[21]) * PAGE,
    )


def command_line(pid: int) -> str:
    """The words of a process, spaces between them; empty when it ended."""
    with suppress(OSError), (PROC / str(pid) / "cmdline").open("rb") as file:
        return file.read(MOST).replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def process_name(process: Process) -> str:
    """The name that a table shows: of Python the script or module that it runs, else the program."""
    words = command_line(process.key[0]).split(" ")
    if not process.program.startswith("python"):
        whole = Path(words[0]).name  # Linux keeps 15 characters of a program's name
        return whole if whole.startswith(process.program) else process.program
    for number, word in enumerate(words[1:], 1):
        if word == "-m":
            return f"python {''.join(words[number + 1 : number + 2]).rpartition('.')[2]}"
        if word.endswith(".py"):
            return f"python {Path(word).name}"
    return "python"
