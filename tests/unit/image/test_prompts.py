"""The requests of a rehearsal stay within the engine's bounds, and reach each of them."""

import pytest

from gb10.image.explain.child.shared import prompts

ASKED = {"lengths": [1, 17, 300], "together": [2, 16]}


def lengths(batches: list[list[tuple[str, int, int]]]) -> list[int]:
    return [batch[0][2] for batch in batches if batch[0][0].startswith("alone")]


def together(batches: list[list[tuple[str, int, int]]]) -> list[int]:
    return [len(batch) for batch in batches if not batch[0][0].startswith("alone")]


def test_the_largest_part_of_a_prompt_one_more_and_the_most_requests_come() -> None:
    batches = prompts.batches(ASKED, 2048, 48, 4096)
    assert lengths(batches) == [1, 17, 300, 2048, 2049]
    assert together(batches) == [2, 16, 48]


@pytest.mark.parametrize("longest", [8, 304, 2052])
def test_no_request_is_longer_than_the_engine_allows_with_its_answer(longest: int) -> None:
    batches = prompts.batches(ASKED, 2048, 1, longest)
    assert lengths(batches)
    assert all(length + prompts.TOKENS <= longest for length in lengths(batches))
    assert together(batches) == [1]


def test_a_prompt_comes_again_under_another_name() -> None:
    batches = prompts.batches(ASKED, 2048, 2, 4096, times=2)
    assert lengths(batches) == 2 * [1, 17, 300, 2048, 2049]
    names = [name for batch in batches for name, _, _ in batch]
    assert len(names) == len(set(names))


def test_every_second_request_is_greedy() -> None:
    assert [prompts.sampling(number)["temperature"] > 0 for number in range(4)] == [False, True, False, True]
