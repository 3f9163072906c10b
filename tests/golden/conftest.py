"""Golden files: what the tool says, compared with what a person has read and approved.

A file has one subject. One of many texts has a line for each (a command, a mistake) and the text below, indented: a
diff of Git or of pytest names that line.
"""

import difflib
import re
import textwrap
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
        approved = path.read_text(encoding="utf-8") if path.exists() else ""
        if approved != text:
            advice = "read the diff; if it is right: python3 -m bootstrap -m pytest tests/golden --update-golden"
            pytest.fail(f"{changes(name, approved, text)}\n{advice}", pytrace=False)

    return compare


def section(title: str, text: str) -> str:
    """One text of a golden file that has many; an empty line is between two."""
    return f"{title}\n{textwrap.indent(text, '  ')}"


def changes(name: str, approved: str, found: str) -> str:
    """A unified diff; each hunk names the section that it begins in."""
    old = approved.splitlines()
    lines = []
    for line in difflib.unified_diff(old, found.splitlines(), f"approved/{name}", f"found/{name}", lineterm=""):
        place = re.match(r"@@ -(\d+)", line)
        above = [title for title in old[: int(place[1])] if title[:1].strip()] if place else []
        lines.append(" ".join([line, *above[-1:]]))
    return "\n".join(lines)
