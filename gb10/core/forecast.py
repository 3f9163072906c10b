"""Forecast: when work ends that runs side by side, from estimated seconds, corrected by what was done so far.

The work is parts of units; a unit has CPU seconds of a machine of reference. This machine takes ``factor`` times as
long. What runs shares the cores, so a unit is timed by the share it had, not by the clock: the compilers do not count
as slow while layers are installed beside them. Where the compilers' own CPU seconds can be read, two causes are apart:
slower cores show when units end, and less of the cores than planned (a limit, other programs) shows at once.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gb10.core.reporter import clock
from gb10.core.work_state import Part, Running, State, Unit, expected

CACHED = 0.1
"""A unit that ended after less of its seconds came from a compile cache, and says nothing about the speed."""
TRUSTED = 0.01
"""How much of all work an estimate of another machine counts for against what is seen here; of this machine, twice."""
TOLERANCE = 0.1
"""Of what is left: an end that moves by less is said as before."""
LEAST_TRUSTED = 15.0
"""CPU seconds for which it counts at least: one small unit says little about the others."""
SLOWER = 1.15
"""A factor against the estimate's from which on it is named."""
FRESH = 1.0
"""Seconds for which a forecast is not made anew."""
ROUNDS = 4
LOOK = 2.0
"""Seconds between two looks at the compilers that run."""
STARTED = 0.3
"""CPU seconds from which on a compiler runs: until then it waits for its turn."""
HELD_FOR = 120.0
"""CPU seconds after which an earlier share of the cores counts for a third."""
SURE = 5.0
"""CPU seconds for which the share of an earlier build counts."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How many times the estimated CPU seconds work takes, and of how many estimated CPU seconds that is known.

    ``held``: how many times as long a CPU second takes as on cores of one's own. ``own``: seen on this machine.
    """

    factor: float = 1.0
    seconds: float = 0.0
    own: bool = False
    held: float = 1.0

    @property
    def whole(self) -> float:
        """Of the clock's seconds."""
        return self.factor * self.held


class Forecast:
    """What is expected of a command's work, and what of it is done; may be told and asked by several threads."""

    def __init__(
        self,
        parts: Iterable[Part] = (),
        *,
        cores: float = 1.0,
        jobs: int = 1,
        speed: Speed | None = None,
        now: Callable[[], float] = time.monotonic,
        look: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        found = {part.name: part for part in parts}
        order = {name: sorted(part.units, key=lambda unit: -unit.seconds) for name, part in found.items()}
        waiting = {name: deque(order[name] if part.pooled else part.units) for name, part in found.items()}
        self._state = State(cores, max(1, jobs), found, waiting, deque(), [], set(), set())
        self._total = sum(unit.seconds for part in found.values() for unit in part.units if unit.width)
        self._prior = speed or Speed()
        self._now = now
        self._last = now()
        self._lock = threading.Lock()
        self._look = look
        self._looked = float("-inf")
        self._reads = False
        self._others = dict[str, str]()
        self._clocked = self._used = 0.0
        self._done = self._took = self._cached = self._shared = 0.0
        self._end: float | None = None
        self._why = ""
        self._made: tuple[float, float] = (float("-inf"), 0.0)

    def knows(self, part: str) -> bool:
        """Whether a part is in it."""
        return part in self._state.parts

    def unmeasured(self) -> tuple[str, ...]:
        """Parts that nobody has measured, until they end: with one of them, nothing is known of the whole."""
        with self._lock:
            return tuple(
                name for name, part in self._state.parts.items() if not part.measured and name not in self._state.ended
            )

    def begin(self, part: str) -> None:
        """A part starts; only the first time counts."""
        with self._lock:
            self._pass()
            if self.knows(part) and part not in self._state.begun:
                self._state.begin(part)

    def done(self, part: str, unit: str) -> None:
        """A unit of a part has ended; its name may be without the folder."""
        with self._lock:
            self._pass()
            own = self._state.parts[part].units if self.knows(part) and "/" not in unit else ()
            unit = next((one.name for one in own if one.name.endswith(f"/{unit}")), unit)
            found = self._taken(part, self._others.get(unit) or unit) if part in self._state.begun else None
            if found is None:
                return
            self._state.running.remove(found)
            if self._state.parts[part].pooled:
                self._note(found)
            self._state.next_of(part)
            self._made = (float("-inf"), 0.0)

    def end(self, part: str) -> None:
        """A part has ended."""
        with self._lock:
            self._pass()
            if self.knows(part):
                self._state.end(part)
                self._made = (float("-inf"), 0.0)

    def speed(self) -> Speed:
        """What was seen so far, of units that were compiled."""
        with self._lock:
            return Speed(self._took / self._done if self._done else 1.0, self._done, own=True, held=self._held())

    def left(self) -> float | None:
        """Seconds until all is done; None when nothing is known."""
        with self._lock:
            return self._left()

    def share(self) -> float:
        """How much of the estimated CPU seconds of all parts is done; it never falls."""
        with self._lock:
            self._pass()
            factor, held, state = self._factor(), self._held(), self._state
            left = sum(unit.seconds for units in state.waiting.values() for unit in units if unit.width)
            left += sum(unit.seconds for _, unit in state.queue if unit.width)
            left += sum(max(0.0, one.unit.seconds - one.used(held) / factor) for one in state.running if one.unit.width)
            self._shared = max(self._shared, 1 - left / self._total if self._total else 0.0)
            return self._shared

    def sentence(self) -> str:
        """``about 7:10 left in all``; an end that moves away by more than a tenth has its reason."""
        with self._lock:
            left = self._left()
            if left is None:
                return ""
            end, now = self._last + left, self._last
            if self._end is None or end < self._end - TOLERANCE * left:
                self._end, self._why = end, self._slower()
            elif end > self._end + TOLERANCE * left:
                self._why = self._slower() or self._overdue()
                self._end = end if self._why else self._end
            return f"about {clock(max(0.0, self._end - now))} left in all{self._why}" if self._end > now else ""

    def _pass(self) -> None:
        now = self._now()
        self._state.advance(now - self._last)
        self._last = now

    def _taken(self, part: str, unit: str) -> Running | None:
        """The running unit that has ended. Where another was expected to run, the one whose time fits best is it."""
        state, factor, held = self._state, self._factor(), self._held()
        running = [one for one in state.running if one.part == part]
        named = next((one for one in running if one.unit.name == unit), None)
        if named:
            return named
        pooled = state.parts[part].pooled
        found = self._known(part, unit)
        if not running and pooled:
            running = [one for one in state.running if state.parts[one.part].pooled]
        if found is None:
            return min(
                (one for one in running if one.part == part),
                key=lambda one: factor * one.unit.seconds - one.used(held),
                default=None,
            )
        if not running:
            return None
        one = min(running, key=lambda one: abs(factor * found.seconds - one.used(held)))
        state.queue.appendleft((one.part, one.unit)) if pooled else state.waiting[part].appendleft(one.unit)
        one.part, one.unit = part, found
        return one

    def _known(self, part: str, unit: str) -> Unit | None:
        """The unit of that name among those that wait; it waits no longer."""
        waiting, queue = self._state.waiting[part], self._state.queue
        for one in waiting:
            if one.name == unit:
                waiting.remove(one)
                return one
        for entry in queue:
            if entry[0] == part and entry[1].name == unit:
                queue.remove(entry)
                return entry[1]
        return None

    def _note(self, one: Running) -> None:
        used = one.used(self._held())
        if used < CACHED * one.unit.seconds:
            self._cached += one.unit.seconds
        else:
            self._done += one.unit.seconds
            self._took += used

    def _factor(self) -> float:
        """From the estimate's factor, what has ended, and what runs for longer than that says."""
        trust = max(LEAST_TRUSTED, TRUSTED * self._total) * (2 if self._prior.own else 1)
        prior, held = self._prior.factor if self._reads else self._prior.whole, self._held()
        took, done = trust * prior + self._took, trust + self._done
        late = [one for one in self._state.running if self._state.parts[one.part].pooled]
        factor = took / done if done else prior
        for _ in range(ROUNDS):
            late = [one for one in late if one.used(held) > factor * one.unit.seconds]
            more = sum(one.used(held) for one in late), sum(one.unit.seconds for one in late)
            factor = (took + more[0]) / (done + more[1]) if done + more[1] else factor
        return factor

    def _held(self) -> float:
        """How many times as long as planned a CPU second takes."""
        return (SURE * self._prior.held + self._clocked) / (SURE + self._used) if self._reads else 1.0

    def _left(self) -> float | None:
        self._pass()
        if self._look and self._last - self._looked >= LOOK:
            self._looked = self._last
            self._read(self._look())
        if not self._state.parts:
            return None
        made, left = self._made
        if self._last - made >= FRESH:
            copy = self._state.copy()
            left, made = expected(copy, self._factor(), self._held(), self._to_compile()), self._last
            self._made = made, left
        return max(0.0, left - (self._last - made))

    def _read(self, found: Mapping[str, float]) -> None:
        """CPU seconds of the compilers that run, by unit: what runs is known now, and how fast."""
        state, pooled = self._state, {name for name in self._state.begun if self._state.parts[name].pooled}
        where = {one.name: name for name in pooled for one in state.parts[name].units}
        named = {self._unit_of(name, where): cpu for name, cpu in found.items()}
        live = {name: cpu for name, cpu in named.items() if name in where}
        if not live:
            return
        self._reads = True
        read = {where[name] for name in live}
        for name, cpu in live.items():
            one = next((one for one in state.running if one.unit.name == name), None)
            unit = self._known(where[name], name) if one is None and cpu > STARTED else None
            if unit:
                one = Running(where[name], unit, progress=cpu * self._held())
                state.running.append(one)
            elif one and one.cpu and cpu > one.cpu:
                self._clock(one.progress - one.seen, cpu - one.cpu)
            if one:
                one.cpu, one.seen, one.missed = cpu, one.progress, 0
        for one in [one for one in state.running if one.part in read and not live.get(one.unit.name, 0) > STARTED]:
            one.missed += 1
            if one.missed > 1:  # it waits for its turn, or its end is still to be told
                state.running.remove(one)
                state.queue.append((one.part, one.unit))

    def _unit_of(self, name: str, where: Mapping[str, str]) -> str:
        """The unit of an object: its own, or where units were not measured one by one, any of its folder's."""
        if name not in where and name not in self._others:
            taken, folder = set(self._others.values()), name.rpartition("/")[0]
            runs = [one.unit.name for one in self._state.running]
            free = (one for one in (*runs, *where) if one not in taken and one.rpartition("/")[0] == folder)
            free = (one for one in free if one.rpartition("/")[2].isdecimal())
            if unit := next(free, ""):
                self._others[name] = unit
        return self._others.get(name, name)

    def _clock(self, clocked: float, used: float) -> None:
        fading = math.exp(-used / HELD_FOR)
        self._clocked, self._used = self._clocked * fading + clocked, self._used * fading + used

    def _to_compile(self) -> float:
        """How much of what is left is compiled, as far as one can tell, and not taken from a compile cache."""
        seen = self._cached + self._done
        return self._done / seen if self._cached and seen > TRUSTED * self._total else 1.0

    def _slower(self) -> str:
        factor = self._factor() * self._held() / self._prior.whole
        return f" (work takes {factor:.1f} times as long as estimated)" if factor >= SLOWER else ""

    def _overdue(self) -> str:
        factor, held = self._factor(), self._held()
        late = [one for one in self._state.running if one.used(held) > factor * one.unit.seconds]
        names = {one.part if one.part == one.unit.name else f"{one.part}: {one.unit.name}" for one in late}
        return f" ({min(names)} takes longer than estimated)" if names else ""
