"""A minute of bad days: every command is struck, succeeds afterwards, and leaves nothing."""

import secrets

import pytest

from tests.bad_days.soak import LEFT, WRONG, soaked

pytestmark = pytest.mark.e2e


def test_a_minute_of_kills_and_full_disks() -> None:
    seed = secrets.token_hex(4)
    print(f"seed {seed}")  # shown when it fails
    found = soaked(60, 1000, seed)
    assert (found[WRONG], found[LEFT]) == ([], [])
    assert found["blows"]
    assert found["commands that then succeeded undisturbed"]
