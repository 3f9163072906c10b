"""The sums of a forecast, by hand: work of a few units on a clock that the test moves."""

from collections.abc import Mapping

import pytest

from gb10.core.forecast import Forecast, Speed
from gb10.core.work_state import Part, Unit


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pool(name: str, *seconds: float, after: tuple[str, ...] = ()) -> Part:
    units = tuple(Unit(f"{name}/{number}.o", one) for number, one in enumerate(seconds))
    return Part(name=name, units=units, pooled=True, after=after)


def serial(name: str, *seconds: float, after: tuple[str, ...] = (), width: float = 1.0) -> Part:
    return Part(name=name, units=tuple(Unit(f"{name}{n}", one, width) for n, one in enumerate(seconds)), after=after)


def forecast(
    *parts: Part, cores: float = 1.0, jobs: int = 1, speed: Speed | None = None, look: Mapping[str, float] | None = None
) -> tuple[Forecast, Clock]:
    clock = Clock()
    reads = (lambda: dict(look)) if look is not None else None
    return Forecast(parts, cores=cores, jobs=jobs, speed=speed, now=clock, look=reads), clock


@pytest.mark.parametrize(
    ("parts", "cores", "jobs", "left"),
    [
        ([pool("p", 40, 30, 20, 10)], 1, 1, 100),
        ([pool("p", 40, 30, 20, 10)], 2, 2, 50),
        ([pool("p", 40, 30, 20, 10)], 1, 2, 100),
        ([pool("p", 40, 30, 20, 10)], 4, 2, 50),
        ([pool("p", 40, 10)], 4, 4, 40),
        ([serial("s", 40, 10)], 4, 4, 50),
        ([serial("s", 40), serial("t", 40)], 2, 1, 40),
        ([serial("s", 40), serial("t", 40)], 1, 1, 80),
        ([serial("s", 40), serial("t", 40, after=("s",))], 2, 1, 80),
        ([serial("s", 40), serial("t", 40, after=("nobody",))], 2, 1, 40),
        ([serial("w", 40, width=0)], 1, 1, 40),
        ([serial("w", 40, width=0), serial("s", 40)], 1, 1, 40),
        ([serial("wide", 40, width=4)], 4, 1, 10),
        ([serial("wide", 40, width=4)], 2, 1, 20),
        ([pool("p", 10), pool("q", 10)], 1, 1, 20),
        ([serial("s")], 1, 1, 0),
    ],
)
def test_what_is_left_before_anything_began(parts: list[Part], cores: float, jobs: int, left: float) -> None:
    """To 2 %: of a unit that should end with another one, a fiftieth is left."""
    found, _ = forecast(*parts, cores=cores, jobs=jobs)
    assert found.left() == pytest.approx(left, rel=0.0201)


def test_nothing_is_known_without_parts() -> None:
    found, _ = forecast()
    assert (found.left(), found.sentence(), found.share()) == (None, "", 0.0)
    found.begin("nobody")
    found.done("nobody", "x")
    found.end("nobody")
    assert not found.knows("nobody")


def test_a_slower_machine_takes_longer() -> None:
    assert forecast(pool("p", 100), speed=Speed(factor=2.0))[0].left() == pytest.approx(200)
    assert forecast(serial("s", 100), speed=Speed(factor=2.0))[0].left() == pytest.approx(200)
    assert forecast(serial("w", 100, width=0), speed=Speed(factor=2.0))[0].left() == pytest.approx(100)
    assert Speed(factor=2.0, held=1.5).whole == 3.0


def test_time_passes() -> None:
    found, clock = forecast(serial("s", 100))
    found.begin("s")
    assert found.left() == pytest.approx(100)
    clock.now = 0.5
    assert found.left() == pytest.approx(99.5)  # of the forecast that was just made
    clock.now = 40
    assert found.left() == pytest.approx(60)
    clock.now = 200
    assert found.left() == pytest.approx(2)  # while it runs, a fiftieth of it is left
    found.end("s")
    assert found.left() == 0


def test_units_that_end_say_how_fast_the_machine_is() -> None:
    """A trust of 15 CPU seconds in the estimate, against units that took twice their seconds."""
    found, clock = forecast(pool("p", 30, 30, 30, 30))
    found.begin("p")
    clock.now = 60
    found.done("p", "p/0.o")
    factor = (15 + 60) / (15 + 30)
    assert found.left() == pytest.approx(90 * factor)
    speed = found.speed()
    assert (speed.factor, speed.seconds, speed.own, speed.held) == (2.0, 30.0, True, 1.0)
    clock.now = 120
    found.done("p", "1.o")
    assert found.left() == pytest.approx(60 * (15 + 120) / (15 + 60))
    assert found.speed().factor == 2.0


def test_an_estimate_of_this_machine_is_trusted_twice() -> None:
    found, clock = forecast(pool("p", 30, 30, 30, 30), speed=Speed(own=True))
    found.begin("p")
    clock.now = 60
    found.done("p", "p/0.o")
    assert found.left() == pytest.approx(90 * (30 + 60) / (30 + 30))


def test_what_a_cache_gave_says_nothing_about_the_speed() -> None:
    found, clock = forecast(pool("p", *[30.0] * 10))
    found.begin("p")
    clock.now = 2.9
    found.done("p", "p/0.o")
    assert found.speed() == Speed(factor=1.0, seconds=0.0, own=True)
    clock.now = 2.9 + 30
    found.done("p", "p/1.o")
    assert found.speed().factor == pytest.approx(1.0)
    assert found.left() == pytest.approx(8 * 30 / 2)  # of what was seen, half was compiled
    other, now = forecast(pool("p", *[30.0] * 10))
    other.begin("p")
    now.now = 3.0
    other.done("p", "p/0.o")
    assert other.speed().seconds == 30.0  # a tenth of its seconds is no cache


def test_the_share_of_the_work_never_falls() -> None:
    found, clock = forecast(pool("p", 50, 50), serial("w", 10, width=0))
    assert found.share() == 0.0
    found.begin("p")
    clock.now = 25
    assert found.share() == pytest.approx(0.25)
    clock.now = 50
    found.done("p", "p/0.o")
    assert found.share() == pytest.approx(0.5)
    found.end("p")
    assert found.share() == 1.0


def test_an_unexpected_unit_takes_the_place_of_one_that_fits() -> None:
    """ninja's order may be another: the unit that has ended is taken from those that wait."""
    found, clock = forecast(pool("p", 40, 30, 20, 10))
    found.begin("p")
    clock.now = 10
    found.done("p", "p/3.o")
    assert found.share() == pytest.approx(0.1)
    found.done("p", "p/unknown.o")
    found.begin("p")
    assert found.left() is not None


def test_compilers_that_are_read_tell_slow_cores_from_few() -> None:
    """A quarter of the cores: 40 s of the clock were 10 CPU s."""
    look: dict[str, float] = {}
    clock = Clock()
    found = Forecast((pool("p", 100, 100),), cores=1, jobs=1, now=clock, look=lambda: look)
    found.begin("p")
    clock.now = 2
    look["p/0.o"] = 0.5
    assert found.left() == pytest.approx(200, rel=0.05)
    clock.now = 42
    look["p/0.o"] = 10.5
    left = found.left()
    assert left
    assert left > 300
    assert found.speed().held == pytest.approx((5 + 40) / (5 + 10))


def test_a_later_end_has_its_reason_and_a_small_change_is_said_as_before() -> None:
    found, clock = forecast(pool("p", 100, 100))
    assert found.sentence() == "about 3:20 left in all"
    found.begin("p")
    clock.now = 100
    found.done("p", "p/0.o")
    assert found.sentence() == "about 1:40 left in all"
    clock.now = 105
    assert found.sentence() == "about 1:35 left in all"
    clock.now = 100 + 200
    said = found.sentence()
    assert said.startswith("about ")
    assert "(work takes 1." in said or "takes longer than estimated" in said


def test_what_takes_too_long_is_named() -> None:
    found, clock = forecast(serial("layer", 100), pool("p", 10_000))
    found.begin("layer")
    found.begin("p")
    first = found.sentence()
    clock.now = 20_000
    assert first != found.sentence()
    assert "layer: layer0 takes longer" in found.sentence() or "work takes" in found.sentence()
