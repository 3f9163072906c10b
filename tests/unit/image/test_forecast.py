"""Forecasts of real compiles, told again at other speeds: near the end after a tenth, and honest on the way there.

The streams are FlashInfer's kernels without the FP4 quantization, 22 units, compiled with nvcc 13.0.88 by a compile
stage's own programs on 8 hyperthreads of a Xeon: with all of them, and half of them by a cgroup's cpu.max. ``done``
is a line of ninja's, ``seen`` the CPU seconds of the compilers that ran.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gb10.core.compilers_seen import compilers_seen
from gb10.core.forecast import Forecast, Speed
from gb10.core.work_state import Part, Unit
from gb10.image.build.estimate import Outlook

DATA = Path(__file__).parents[1] / "data/forecast"
CORES = 8
KEPT = Speed(factor=1.62, seconds=568, own=True)
"""What the stream with whole cores showed."""
LEFT = re.compile(r"about (?:(\d+):)?(\d+):(\d\d) left in all( \(.*\))?")


def stream(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def units() -> tuple[Unit, ...]:
    """As measured on the machine of reference when the streams were taken: the set `core` had all of top-k then."""
    found = json.loads((DATA / "units.json").read_text(encoding="utf-8"))
    return tuple(Unit(name, seconds) for name, seconds in found.items())


@dataclass
class Told:
    """A replay: what was said, when; the end, and when a tenth of the work was done."""

    end: float = 0.0
    said: list[tuple[float, str]] = field(default_factory=list)
    left: list[tuple[float, float]] = field(default_factory=list)

    def error(self, at: float) -> float:
        """How far the end that was foreseen at a time was from the end, as a share of it."""
        when, left = next(one for one in self.left if one[0] >= at)
        return (when + left) / self.end - 1


def replayed(
    units: tuple[Unit, ...], rows: list[dict[str, Any]], *, slower: float, speed: Speed | None, reads: bool
) -> Told:
    """A stream on a clock that runs ``slower``: each compiler gets so much less of the cores."""
    clock, seen = [0.0], dict[str, float]()
    part = Part(name="jit", units=units, pooled=True)
    look = (lambda: seen) if reads else None
    made = Forecast([part], cores=CORES, jobs=CORES, speed=speed, now=lambda: clock[0], look=look)
    made.begin("jit")
    told = Told()
    for row in rows:
        clock[0] = row["t"] * slower
        if "seen" in row:
            seen.clear()
            seen.update(row["seen"])
        if "done" in row:
            made.done("jit", row["done"])
        left = made.left()
        assert left is not None
        told.left.append((clock[0], left))
        told.said.append((clock[0], made.sentence()))
    told.end = clock[0]
    return told


@pytest.mark.parametrize("slower", [1, 2, 3])
@pytest.mark.parametrize("name", ["whole-cores", "half-cores"])
def test_after_a_tenth_of_the_work_a_limit_on_the_cpu_is_known(
    units: tuple[Unit, ...], name: str, slower: float
) -> None:
    """No unit has ended by then: the compilers' own CPU seconds tell."""
    told = replayed(units, stream(name), slower=slower, speed=KEPT, reads=True)
    assert abs(told.error(told.end / 10)) <= 0.25


@pytest.mark.parametrize("slower", [1, 2, 3])
@pytest.mark.parametrize("speed", [None, KEPT])
def test_without_a_look_at_the_compilers_their_ends_tell(
    units: tuple[Unit, ...], slower: float, speed: Speed | None
) -> None:
    """From when a tenth of the work has ended on, with this machine's rates or another's."""
    seconds = {unit.name: unit.seconds for unit in units}
    for name in ("whole-cores", "half-cores"):
        rows, ended = stream(name), 0.0
        for row in rows:
            ended += seconds.get(row.get("done", ""), 0.0)
            if ended >= sum(seconds.values()) / 10:
                break
        told = replayed(units, rows, slower=slower, speed=speed, reads=False)
        assert abs(told.error(row["t"] * slower)) <= 0.25


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("slower", [1, 2, 3])
@pytest.mark.parametrize("name", ["whole-cores", "half-cores"])
def test_what_is_left_never_grows_without_a_reason(
    units: tuple[Unit, ...], name: str, slower: float, reads: bool
) -> None:
    told = replayed(units, stream(name), slower=slower, speed=None, reads=reads)
    before = None
    for _, text in told.said:
        found = LEFT.fullmatch(text)
        if found is None:
            continue
        left = int(found[1] or 0) * 3600 + int(found[2]) * 60 + int(found[3])
        assert before is None or left <= before or found[4], text
        before = left


def test_at_the_kept_speed_no_factor_is_named(units: tuple[Unit, ...]) -> None:
    told = replayed(units, stream("whole-cores"), slower=1, speed=KEPT, reads=True)
    assert not any("work takes" in text for _, text in told.said)
    assert all(abs(told.error(told.end * share)) <= 0.1 for share in (0.1, 0.3, 0.5, 0.7, 0.9))


def image(now: list[float], speed: Speed | None = None) -> Forecast:
    parts = (
        Part(name="jit", units=(Unit("a/1.o", 60), Unit("a/2.o", 60)), pooled=True),
        Part(name="kernels", units=(Unit("b/1.o", 40),), pooled=True),
        Part(name="downloads", units=(Unit("downloads", 30, 0),)),
        Part(name="layers", units=(Unit("low", 20, 2), Unit("high", 20, 2)), after=("downloads",)),
        Part(name="proof", units=(Unit("proof", 60, 2),), after=("jit", "kernels", "layers")),
    )
    return Forecast(parts, cores=2, jobs=2, speed=speed, now=lambda: now[0])


def test_all_that_runs_side_by_side_counts() -> None:
    """260 CPU seconds on two cores; the download needs none, and the layers begin behind it."""
    now = [0.0]
    assert image(now).left() == pytest.approx(130, abs=12)
    assert image(now, speed=Speed(factor=2.0)).left() == pytest.approx(281, abs=2)


def test_what_comes_from_a_compile_cache_is_no_sign_of_a_fast_machine() -> None:
    now = [0.0]
    made = image(now)
    for part in ("jit", "kernels"):
        made.begin(part)
    now[0] = 1.0
    made.done("jit", "a/1.o")
    made.done("jit", "a/2.o")
    assert made.speed().seconds == 0
    left = made.left()
    assert left is not None
    assert left < 90


def test_units_that_were_not_measured_one_by_one_are_seen_by_their_folder() -> None:
    """Three of a family, told by other names: with half of the cores they take twice as long."""
    now, seen = [0.0], dict[str, float]()
    part = Part(name="kernels", units=tuple(Unit(f"moe/{number}", 60) for number in range(3)), pooled=True)
    made = Forecast([part], cores=2, jobs=2, now=lambda: now[0], look=lambda: seen)
    made.begin("kernels")
    for second in range(4, 124, 4):
        now[0] = float(second)
        seen.update({"moe/pingpong.cu.o": second / 2, "moe/cooperative.cu.o": second / 2})
        left = made.left()
    assert left == pytest.approx(120, rel=0.15)
    made.done("kernels", "moe/pingpong.cu.o")
    assert made.speed().factor == pytest.approx(1.0, abs=0.1)
    assert made.speed().held == pytest.approx(2.0, abs=0.2)


def test_a_unit_may_be_told_without_its_folder() -> None:
    now = [0.0]
    made = image(now)
    made.begin("jit")
    now[0] = 60.0
    made.done("jit", "2.o")
    assert made.speed() == Speed(factor=1.0, seconds=60, own=True)


def test_units_that_nobody_expected_and_parts_that_nobody_planned_change_nothing() -> None:
    now = [0.0]
    made = image(now)
    made.done("jit", "a/1.o")  # before it began
    made.begin("no such part")
    made.done("no such part", "x")
    made.end("no such part")
    made.begin("jit")
    for number in range(9):
        now[0] += 10
        made.done("jit", f"z/{number}.o")
    assert made.left() is not None
    made.end("jit")
    assert not made.knows("no such part")


def test_a_forecast_of_nothing_says_nothing() -> None:
    made = Forecast()
    assert (made.left(), made.sentence(), made.share()) == (None, "", 0.0)


def test_beside_what_nobody_measured_nothing_is_known_of_the_whole() -> None:
    now = [0.0]
    parts = (
        Part(name="jit", units=(Unit("a/1.o", 60),), pooled=True),
        Part(name="nccl", units=(Unit("nccl/0", 60),), measured=False),
    )
    made = Forecast(parts, cores=2, jobs=2, now=lambda: now[0])
    for part in ("jit", "nccl"):
        made.begin(part)
    now[0] = 300.0
    assert (Outlook(made).share(), Outlook(made).left()) == ("", "how long nccl takes is not known")
    made.end("nccl")
    assert Outlook(made).share().endswith("% of all work")
    assert "not known" not in Outlook(made).left()


def test_it_ends() -> None:
    now = [0.0]
    made = image(now)
    for part in ("jit", "kernels", "downloads", "layers", "proof"):
        made.begin(part)
        made.end(part)
    assert (made.left(), made.share()) == (0.0, 1.0)
    assert made.sentence() == ""


def processes(folder: Path, rows: Mapping[int, tuple[int, str, int]]) -> Path:
    """A /proc with processes: their parent, command line, and ticks of CPU."""
    for pid, (parent, words, ticks) in rows.items():
        (folder / str(pid)).mkdir(parents=True)
        (folder / str(pid) / "cmdline").write_bytes(words.encode().replace(b" ", b"\0") + b"\0")
        fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0"]
        (folder / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}\n", encoding="ascii")
    (folder / "self").mkdir()
    return folder


def test_a_launcher_counts_with_all_that_it_started(tmp_path: Path) -> None:
    launch = "python3 -IS /inside/compile/launch.py nvcc -c norm.cu -o /build/cached_ops/norm/csrc_norm.cuda.o"
    rows = {
        1: (0, "init", 900),
        2: (1, launch, 10),
        3: (2, "sh -c room", 0),
        4: (3, "cicc", 500),
        5: (1, launch.replace("norm", "page"), 20),
        6: (1, "python3 -IS /inside/compile/launch.py g++ -o out.so", 70),
    }
    found = compilers_seen(processes(tmp_path, rows))
    assert found == {"norm/csrc_norm.cuda.o": 5.1, "page/csrc_page.cuda.o": 0.2}


def test_what_is_no_launcher_of_an_object_is_not_counted(tmp_path: Path) -> None:
    launch = "python3 -IS launch.py"
    rows = {
        1: (0, "init", 100),
        2: (1, f"{launch} g++ -o", 100),  # it names no object
        3: (1, "g++ -c a.cpp -o x/own.o", 100),  # started by somebody else
        4: (1, "a b c d e launch.py -o x/late.o", 100),  # its sixth word
        5: (1, "a b c d launch.py -o x/fifth.o", 100),
        6: (5, f"{launch} g++ -o x/inner.o", 100),  # the nearest launcher counts
        7: (8, "a circle", 100),
        8: (7, "of parents", 100),
        9: (77, "nobody's child", 100),
        10: (5, "cc1plus", 100),
    }
    ticks = os.sysconf("SC_CLK_TCK")
    found = compilers_seen(processes(tmp_path, rows))
    assert found == {"x/fifth.o": 200 / ticks, "x/inner.o": 100 / ticks}
    own = tmp_path / "6/stat"
    own.write_text(f"6 (g) S 5 {' '.join(['0'] * 9)} 1 2 4 8 16 32\n", encoding="ascii")
    assert compilers_seen(tmp_path)["x/inner.o"] == 15 / ticks  # its own time and its children's, user and system


def test_this_machine_has_a_proc() -> None:
    assert isinstance(compilers_seen(), dict)
