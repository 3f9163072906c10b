"""Where the time of a build goes: CPU and wall seconds and bytes, by phase and by program, for ``image --timings``.

Measured are gb10 with its children, and the embedded engine of its store with the containers of its build steps: see
``core.usage``. Another engine's programs may work for others, too: of such a build only the steps' times are known.
"""

import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gb10.containers.buildx.progress import Event, StepDone, StepFailed, StepStarted
from gb10.containers.connection import Engine
from gb10.containers.embedded.daemon import Place, alive
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.core.usage import CONTAINERS, PROC, TICK, Usage, UsageTree, parse_stat
from gb10.image.build.estimate import ASSEMBLY, COMPILED, UPSTREAM
from gb10.image.plan.values import Plan, Step

INTERVAL: Final = 0.25  # seconds between two looks
SEARCH: Final = 2.0  # seconds between two searches for an engine that may have started
GB10: Final = "gb10"
PLAN, FETCH, BASES = "plan, checks, engine started", "fetch", "bases"
TOOLS, INSTALL, SCAN, ASSEMBLE = "build tools", "install and slim layers", "scan", "assemble"
BESIDE: Final = "gb10 beside BuildKit"
"""gb10 and buildx while BuildKit works: contexts laid out and sent, progress read."""
BUILDKIT: Final = "BuildKit: "
SEVERAL: Final = f"{BUILDKIT}several at once"
RUNS: Final = f"{BUILDKIT}around RUN"
ENGINE: Final = "engine beside BuildKit"
COMMANDS: Final = (
    ("gb10.inside.compile", "compile"),
    ("/mod.py", "mods"),
    ("/rehearsal.py", "rehearse"),
    ("--wheels /wheels --out /out", INSTALL),
    ("/install.py", TOOLS),
    *((name, ASSEMBLE) for name in ("/settings.py", "/overlay.py", "/grafted.py", "/placed.py", "install -D")),
    *((name, SCAN) for name in ("/scan.py", "/changed.py", "/linked.py")),
)
"""What a step's command holds, in the templates, and the step's phase; the first that fits counts."""
STEPS: Final = (
    (re.compile(r"\[internal\] load build context|\[context .*\] load from client"), "receive contexts"),
    (re.compile(r"exporting "), "export"),
    (re.compile(r"\[[^\]]*\] COPY "), "copy"),
    (re.compile(r"\[[^\]]*\] ADD "), "unpack archives"),
)
"""How BuildKit names the steps that it does itself; all others prepare something."""
KEYED: Final = re.compile(r"--key ([0-9a-f]{8})\b")
COMPILERS: Final = (
    *("nvcc", "cudafe++", "cicc", "ptxas", "fatbinary", "nvlink", "bin2c"),
    *("gcc", "g++", "cpp", "cc1", "cc1plus", "as", "collect2", "ld", "ld.bfd"),
)
CROSS: Final = re.compile(r"^(aarch64|x86_64)-linux-gnu-|-\d+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What one phase, or one program, used.

    ``wall``: seconds in which the phase ran; None for a program, and for what daemons do beside their steps.
    """

    name: str
    wall: float | None
    cpu: float
    system: float
    read: int
    written: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildUsage:
    """A build's table, in seconds and bytes. Phases that run at the same time count their wall seconds each.

    ``total`` begins with the process. ``resident``: the most memory of all programs at one look. ``measuring``: CPU
    seconds of the looks, part of gb10's. ``unmeasured``: what is not in the table, and why.
    """

    total: Row
    compilers: float
    resident: int
    measuring: float
    phases: tuple[Row, ...]
    programs: tuple[Row, ...]
    within: Mapping[str, tuple[Row, ...]]
    """The programs of each phase."""
    unmeasured: tuple[str, ...]


@dataclass(slots=True)
class Meter:
    """Looks at the processes of one build until it is read."""

    reporter: Reporter
    store: Store
    plan: Plan
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _steps: Counter[str] = field(default_factory=Counter)
    """How many of BuildKit's steps run, by phase."""
    _walls: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _unmeasured: set[str] = field(default_factory=set)
    _end: threading.Event = field(default_factory=threading.Event)
    _measuring: float = 0.0
    _whole: bool = False
    """Whether the looks went on to the end."""
    _began: float = field(init=False)
    _tree: UsageTree = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        own = parse_stat((PROC / "self/stat").read_text(encoding="utf-8"))
        uptime = float((PROC / "uptime").read_text(encoding="ascii").split()[0])
        self._began = time.monotonic() - (uptime - own.key[1] / TICK)
        self._walls[PLAN] = time.monotonic() - self._began
        self._tree = UsageTree(since=own.key[1], contained=self.contained)
        self._thread = threading.Thread(target=self._run, args=(own.key[0],), daemon=True)
        self._thread.start()

    def note(self, engine: Engine, step: Step, event: Event) -> None:
        """One more event of a build by BuildKit; its log is the step's."""
        if engine.kind != "embedded" or engine.builder:
            name = f"builder {engine.builder}" if engine.builder else f"engine at {engine.endpoint.host}"
            self._unmeasured.add(
                f"CPU time and bytes of the {name}: it is not gb10's own, and may work for others, too"
            )
        if isinstance(event, StepStarted | StepDone | StepFailed):
            phase = phase_of_step(event.step, step)
            with self._lock:
                self._steps[phase] = max(0, self._steps[phase] + (1 if isinstance(event, StepStarted) else -1))

    def read(self) -> BuildUsage:
        """End the looks and sum them up."""
        self._end.set()
        self._thread.join()
        phases, programs = defaultdict[str, Usage](Usage), defaultdict[str, Usage](Usage)
        within: dict[str, dict[str, Usage]] = defaultdict(lambda: defaultdict(Usage))
        for (phase, program), used in self._tree.sums.items():
            name = CROSS.sub("", program)
            phases[phase] += used
            programs[name] += used
            within[phase][name] += used
        for phase in self._walls:
            phases[phase] += Usage()
        total = sum(phases.values(), Usage())
        if not self._whole:
            self._unmeasured.add("what came after an error of the measurement itself, which is printed above")
        if not (PROC / "self/io").exists():
            self._unmeasured.add("bytes: this kernel does not count them by process (CONFIG_TASK_IO_ACCOUNTING)")
        hidden = sorted(self._tree.unreadable)
        return BuildUsage(
            total=_row("all", total, time.monotonic() - self._began),
            compilers=sum(used.cpu for name, used in programs.items() if name in COMPILERS),
            resident=self._tree.peak,
            measuring=self._measuring,
            phases=tuple(_row(name, used, self._walls.get(name)) for name, used in _largest(phases)),
            programs=tuple(_row(name, used, None) for name, used in _largest(programs)),
            within={
                phase: tuple(_row(name, used, None) for name, used in _largest(own)) for phase, own in within.items()
            },
            unmeasured=(
                *sorted(self._unmeasured),
                *(f"bytes of {name}: /proc hides them from this user" for name in hidden),
            ),
        )

    def _run(self, own: int) -> None:
        last, searched, ending = time.monotonic(), -math.inf, False
        place, daemons = Place(self.store), dict[int, str]()
        while True:
            host = self._host_phase()
            with self._lock:
                steps = {phase for phase, count in self._steps.items() if count}
            if last - searched > SEARCH or not all(map(alive, daemons)):
                searched = last
                found = place.daemons().items()
                daemons = {pid: CONTAINERS for pid, name in found if name in ("dockerd", "containerd")}
            running = self._tree.look({**daemons, own: GB10}, {GB10: host, CONTAINERS: engine_phase(steps)})
            now = time.monotonic()
            for phase in {host, *steps, *running}:
                self._walls[phase] += now - last
            last, self._measuring = now, time.thread_time()
            if ending:
                self._whole = True
                return
            ending = self._end.wait(INTERVAL)

    def _host_phase(self) -> str:
        """What gb10 itself does now; several at once are named together."""
        names = {self._phase_of_task(task.name) for task in self.reporter.running}
        return " + ".join(sorted(names - {BESIDE})) or (BESIDE if names else PLAN)

    def _phase_of_task(self, name: str) -> str:
        step = next((step for step in self.plan.steps if step.name == name), None)
        if name in (UPSTREAM, ASSEMBLY) or name.endswith(" into the engine") or (step and step.kind in COMPILED):
            return BESIDE
        if name.startswith(("download ", "git ", "fetch ")):
            return FETCH
        return BASES if name.startswith("unpack ") else name

    def contained(self, command: str) -> str:
        """The phase of a container; a compile stage is known by the key in its script."""
        keyed = KEYED.search(command)
        step = next((step for step in self.plan.steps if keyed and step.key.startswith(keyed[1])), None)
        phase = phase_of_command(command)
        if phase == "compile" and step:
            return _compiling(step)
        return phase or (ASSEMBLE if command.startswith("/bin/") else "")


def phase_of_step(name: str, step: Step) -> str:
    """The phase of one of BuildKit's steps in the build of a step of the plan. Pure."""
    if "] RUN " in name:
        return _compiling(step) if name.startswith("[compile ") else phase_of_command(name) or ASSEMBLE
    kind = next((kind for pattern, kind in STEPS if pattern.match(name)), "prepare")
    return f"{BUILDKIT}{kind}"


def phase_of_command(text: str) -> str:
    """The phase of a command of a build step; empty for one that no template of ours holds. Pure."""
    return next((phase for words, phase in COMMANDS if words in text), "")


def _compiling(step: Step) -> str:
    return " ".join(["compile", step.name, *([f"(set {step.kernels['name']})"] if step.kernels else [])])


def engine_phase(steps: set[str]) -> str:
    """What the engine's daemons do themselves while these phases run. Pure."""
    own = sorted(phase for phase in steps if phase.startswith(BUILDKIT))
    if not own:
        return RUNS if steps else ENGINE
    return own[0] if len(own) == 1 else SEVERAL


def _largest(sums: Mapping[str, Usage]) -> list[tuple[str, Usage]]:
    return sorted(sums.items(), key=lambda item: (-item[1].cpu, item[0]))


def _row(name: str, used: Usage, wall: float | None) -> Row:
    return Row(name=name, wall=wall, cpu=used.cpu, system=used.system, read=used.read, written=used.written)
