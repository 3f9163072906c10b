"""-v and -q."""

import pytest

from gb10.cli.verb import verbosity_of
from gb10.core.reporter import NORMAL, QUIET, VERBOSE


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"),
    [(0, False, NORMAL), (1, False, VERBOSE), (2, False, VERBOSE), (0, True, QUIET), (2, True, QUIET)],
)
def test_a_second_v_shows_no_more_and_q_wins(verbose: int, quiet: bool, level: int) -> None:
    assert verbosity_of(verbose, quiet=quiet) == level
