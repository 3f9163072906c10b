"""The child that runs an input refuses the network itself, and notes it."""

import pytest


@pytest.fixture(autouse=True)
def _no_network() -> None:
    """Take the place of the fixture of all tests: its failure would look like an input's."""
