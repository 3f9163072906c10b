"""Work as a forecast sees it: parts of units that wait, run and have ended on a number of cores. Pure."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

LEAST = 0.02
"""Of a unit, that is left at least while it runs."""


@dataclass(frozen=True, slots=True)
class Unit:
    """CPU seconds that ``width`` processes share. Width 0 waits for something else: its seconds are of the clock."""

    name: str
    seconds: float
    width: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Units that one task does: one by one, or, ``pooled``, in the jobs that all pooled parts share, longest first.

    It begins when those of ``after`` have ended. ``measured``: how long its units take is known from a measurement.
    """

    name: str
    units: tuple[Unit, ...]
    pooled: bool = False
    after: tuple[str, ...] = ()
    measured: bool = True


@dataclass(slots=True)
class Running:
    part: str
    unit: Unit
    progress: float = 0.0
    """CPU seconds that it has had if it had its planned share of the cores."""
    cpu: float = 0.0
    seen: float = 0.0
    """CPU seconds that it has had, when they were read last, and ``progress`` then."""
    missed: int = 0

    def used(self, held: float) -> float:
        """CPU seconds so far."""
        return self.cpu + (self.progress - self.seen) / held

    def copy(self) -> "Running":
        return replace(self)


@dataclass(slots=True)
class State:
    """What waits, runs and has ended."""

    cores: float
    jobs: int
    parts: dict[str, Part]
    waiting: dict[str, deque[Unit]]
    queue: deque[tuple[str, Unit]]
    """Units whose program has started, and waits for a job."""
    running: list[Running]
    begun: set[str]
    ended: set[str]

    def copy(self) -> "State":
        return State(
            cores=self.cores,
            jobs=self.jobs,
            parts=self.parts,
            waiting={name: deque(units) for name, units in self.waiting.items()},
            queue=deque(self.queue),
            running=[one.copy() for one in self.running],
            begun=set(self.begun),
            ended=set(self.ended),
        )

    def begin(self, name: str) -> None:
        self.begun.add(name)
        for _ in range(self.jobs if self.parts[name].pooled else 1):
            self.next_of(name)

    def next_of(self, name: str) -> None:
        """The next unit of a part starts, or waits for a job."""
        if self.waiting[name]:
            unit = self.waiting[name].popleft()
            if self.parts[name].pooled:
                self.queue.append((name, unit))
            else:
                self.running.append(Running(name, unit))
        self.grant()

    def grant(self) -> None:
        """Free jobs go to those that wait, as they came."""
        while self.queue and sum(self.parts[one.part].pooled for one in self.running) < self.jobs:
            self.running.append(Running(*self.queue.popleft()))

    def end(self, name: str) -> None:
        """A part is over, whatever of it was still expected."""
        self.ended.add(name)
        self.begun.add(name)
        self.waiting[name].clear()
        self.queue = deque(entry for entry in self.queue if entry[0] != name)
        self.running = [one for one in self.running if one.part != name]
        self.grant()

    def share(self) -> float:
        """Of a core, what each process has while all that runs shares the cores."""
        return min(1.0, self.cores / max(1e-9, sum(one.unit.width for one in self.running)))

    def advance(self, seconds: float) -> None:
        share = self.share()
        for one in self.running:
            one.progress += seconds * rate(one.unit, share)

    def open_parts(self) -> Iterator[str]:
        """Parts that may begin now."""
        for name, part in self.parts.items():
            if name not in self.begun and all(need in self.ended for need in part.after if need in self.parts):
                yield name

    def is_over(self, name: str) -> bool:
        waits = self.waiting[name] or any(entry[0] == name for entry in self.queue)
        return not waits and all(one.part != name for one in self.running)


def rate(unit: Unit, share: float) -> float:
    """A unit's seconds in one of the clock."""
    return unit.width * share if unit.width else 1.0


def expected(state: State, factor: float, held: float, compiled: float = 1.0) -> float:
    """Seconds until all is done, from here on as planned; ``state`` is used up. Pure."""
    seconds = 0.0
    while True:
        for name in tuple(state.open_parts()):
            state.begin(name)
        for name in tuple(state.begun - state.ended):
            if state.is_over(name):
                state.end(name)
        if not state.running:
            if any(True for _ in state.open_parts()):
                continue
            return seconds
        share = state.share()
        rests = [(_rest(state, one, factor, held, compiled) / rate(one.unit, share), one) for one in state.running]
        step, first = min(rests, key=lambda rest: rest[0])
        state.advance(step)
        seconds += step
        state.running.remove(first)
        state.next_of(first.part)


def _rest(state: State, one: Running, factor: float, held: float, compiled: float) -> float:
    """Seconds at its planned share of the cores that a running unit takes on."""
    if not one.unit.width:
        return max(0.0, one.unit.seconds - one.progress)
    if state.parts[one.part].pooled:
        whole = one.unit.seconds * factor * compiled
        return held * max(LEAST * whole, whole - one.used(held))
    whole = one.unit.seconds * factor * held
    return max(LEAST * whole, whole - one.progress)
