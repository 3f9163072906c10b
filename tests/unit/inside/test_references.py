"""What refers to a range of addresses: only what one wrapper alone names may move."""

import pytest

from gb10.inside.scan.elf import Elf
from gb10.inside.slim.references import References, Relocation, inside
from tests.unit.inside.test_elf import image, load

ELF = Elf(image(segments=[load(0, 64)]))
START = 0x10000


def references(*targets: int, row: int = 72, wrapped: bool = True, pages: frozenset[int] = frozenset()) -> References:
    stored = {START: [Relocation(row, 0x500, wrapped)]} if row else {}
    return References(ELF, stored, sorted(targets), pages)


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        ((), False),
        ((START,), False),
        ((START + 1,), True),
        ((START + 15,), True),
        ((START + 16,), False),
        ((START - 1, START, START + 40), False),
        ((START - 1, START + 8, START + 40), True),
    ],
)
def test_whether_something_names_the_inside_of_a_range(targets: tuple[int, ...], named: bool) -> None:
    assert references(*targets).within(START, START + 16) is named


def test_only_what_one_wrapper_alone_names_may_move() -> None:
    assert references(START).movable(START, START + 0x3000) == 72
    assert references(START, START).movable(START, START + 0x3000) == 0
    assert references(START, row=0).movable(START, START + 0x3000) == 0
    assert references(START, wrapped=False).movable(START, START + 0x3000) == 0
    assert references().movable(START, START + 0x3000) == 0
    assert references(START - 1, START, START + 1).movable(START, START + 0x3000) == 72


@pytest.mark.parametrize(
    ("page", "start", "end", "moves"),
    [
        (0x10000, START, START + 0x3000, False),
        (0x12000, START, START + 0x3000, False),
        (0x13000, START, START + 0x3000, True),
        (0x0F000, START, START + 0x3000, True),
        (0x12000, START, START + 0x2001, False),
        (0x12000, START, START + 0x2000, True),
    ],
)
def test_what_code_refers_to_stays(page: int, start: int, end: int, moves: bool) -> None:
    assert bool(references(start, pages=frozenset({page})).movable(start, end)) is moves


def test_the_page_of_a_range_that_begins_within_it() -> None:
    start = START + 8
    found = References(ELF, {start: [Relocation(72, 0, True)]}, [start], frozenset({START}))
    assert found.movable(start, start + 16) == 0


def test_the_wrapper_of_an_address() -> None:
    assert references(START).wrapper(START) == 0x500
    assert references(START, wrapped=False).wrapper(START) == 0
    assert references(START).wrapper(START + 1) == 0


def test_a_range_has_its_start_and_not_its_end() -> None:
    ranges = [(4, 8), (16, 20)]
    assert [at for at in range(24) if inside(at, ranges)] == [4, 5, 6, 7, 16, 17, 18, 19]
