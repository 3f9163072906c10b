"""What a forecast says while made-up builds go on: units that end early, late, under other names, or not at all."""

import random
from typing import Final

from gb10.core.forecast import Forecast, Speed
from gb10.core.work_state import Part, Unit
from tests.golden.conftest import Golden, section

BUILDS: Final = {
    "one pool": (1, 2.0, 2, None, False),
    "a slow machine": (2, 4.0, 4, Speed(factor=2.5, seconds=90, own=False, held=1.3), False),
    "compilers are seen": (3, 4.0, 4, None, True),
    "seen on this machine": (4, 3.0, 6, Speed(factor=0.8, seconds=400, own=True), True),
    "seen, and short of cores": (5, 1.5, 4, Speed(factor=1.2, seconds=40, own=True, held=2.0), True),
    "one core": (6, 1.0, 1, None, True),
}
"""By name: what is random, cores, jobs, the speed, and whether compilers are seen."""


def parts(rng: random.Random) -> tuple[Part, ...]:
    def units(name: str, count: int, width: float = 1.0) -> tuple[Unit, ...]:
        return tuple(Unit(f"{name}/{at}.o", round(5 + 40 * rng.random(), 1), width) for at in range(count))

    return (
        Part(name="a", units=units("a", 12), pooled=True),
        Part(name="b", units=units("b", 8), pooled=True),
        Part(name="c", units=(*units("c/own", 3), *units("c/more", 3)), pooled=True, after=("a",)),
        Part(name="layers", units=units("layers", 4, 2.0)),
        Part(name="wait", units=units("wait", 1, 0.0)),
        Part(name="proof", units=(Unit("proof", 12.0),), after=("layers", "c", "none")),
    )


def told(seed: int, cores: float, jobs: int, speed: Speed | None, looks: bool) -> str:
    """A build whose units end in a random order, each after 0.02 to 3 times its seconds."""
    rng, now, seen, lines = random.Random(seed), [0.0], dict[str, float](), list[str]()  # noqa: S311 # no secret
    made = parts(rng)
    look = (lambda: dict(seen)) if looks else None
    forecast = Forecast(made, cores=cores, jobs=jobs, speed=speed, now=lambda: now[0], look=look)
    names = {part.name: [unit.name for unit in part.units] for part in made}
    seconds = {unit.name: unit.seconds for part in made for unit in part.units}
    begun, done = list[str](), list[str]()
    for step in range(90):
        now[0] += 12 * rng.random() ** 2
        for unit in seen:
            seen[unit] += 3 * rng.random()
        waits = [name for name in names if name not in begun]
        chance = rng.random()
        if waits and chance < 0.3:
            begun.append(waits[0])
            forecast.begin(waits[0])
        elif begun and chance < 0.85:
            part = begun[int(rng.random() * len(begun))]
            left = [unit for unit in names[part] if unit not in done]
            if left:
                unit = left[int(rng.random() ** 3 * len(left))]
                shown = unit.rpartition("/")[2] if chance < 0.5 else unit if chance < 0.8 else "z/none.o"
                done.append(unit)
                seen.pop(unit, None)
                forecast.done(part, shown)
            else:
                forecast.end(part)
        elif chance < 0.97:
            unit = list(seconds)[int(rng.random() * len(seconds))]
            seen[unit if chance < 0.94 else f"{unit.rpartition('/')[0]}/7{step}.cu.o"] = rng.random() * 2
        found = forecast.speed()
        if step % 3 == 0:
            rest = forecast.left() or 0
            lines.append(
                f"{now[0]:.1f} s: {forecast.sentence() or 'nothing'}; left {rest:.3f}, done {forecast.share():.4f}, "
                f"factor {found.factor:.4f} of {found.seconds:.1f}, held {found.held:.4f}"
            )
    return "\n".join(lines)


def test_forecasts_of_made_up_builds(golden: Golden) -> None:
    found = [section(name, told(*build)) for name, build in BUILDS.items()]
    golden("render/forecasts.txt", "\n".join(found) + "\n")
