"""Hostile inputs, some for each kind and always the same; then all that once broke a promise. ``make soak`` goes on."""

from pathlib import Path

import pytest

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.gauge import run
from tests.fuzz.hunting import hunt, keep, kept

pytestmark = pytest.mark.gauged

SEED = "gb10"


@pytest.mark.parametrize("name", FUZZERS)
def test_hostile_inputs_are_met_with_a_result_or_one_clear_error(name: str, tmp_path: Path) -> None:
    catch, count = hunt(name, SEED, range(FUZZERS[name].count), tmp_path)
    assert catch is None, f"{catch.problem}\nkept as {keep(name, catch)}"
    assert count == FUZZERS[name].count


@pytest.mark.parametrize("path", kept(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_a_promise_keeps_it(path: Path, tmp_path: Path) -> None:
    finding = run([path.read_bytes()], FUZZERS[path.parent.name].read, tmp_path)
    assert finding is None, finding
