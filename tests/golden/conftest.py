"""Golden files: what the tool says, compared with what a person has read and approved."""

from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/golden --update-golden`` rewrites the files; read the diff before you commit it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with ``tests/golden/<name>``."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, "run pytest tests/golden --update-golden and read the diff"

    return compare
