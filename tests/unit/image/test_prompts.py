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


def test_what_fits_exactly_comes() -> None:
    assert lengths(prompts.batches(ASKED, 2048, 1, 304)) == [1, 17, 300]
    assert lengths(prompts.batches(ASKED, 2048, 1, 303)) == [1, 17]
    assert together(prompts.batches(ASKED, 2048, 16, 4096)) == [2, 16]
    assert together(prompts.batches(ASKED, 2048, 15, 4096)) == [2, 15]
    short = [batch for batch in prompts.batches(ASKED, 2048, 2, 4096) if len(batch) == 2]
    assert short == [[("2-0", 0, 2), ("2-1", 1, 3)]]


def test_sampling_is_that_of_people() -> None:
    assert prompts.sampling(0) == {"temperature": 0.0, "ignore_eos": True}
    assert prompts.sampling(1) == {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "ignore_eos": True}
