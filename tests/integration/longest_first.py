"""The order of files in `make test`: those that took longest the last time start first, so none ends alone.

``seconds.json`` beside the stores of test runs has the seconds of each file. It decides the order and nothing else.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gb10.core.files import write_whole

FILE: Final = "seconds.json"


def load_seconds(home: Path) -> dict[str, float]:
    """Seconds by file of the last `make test`; nothing before there was one."""
    path = home / FILE
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def file_of(nodeid: str) -> str:
    """The file of a test, from the root of the checkout."""
    return nodeid.partition("::")[0]


def sort_by_seconds(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """The longest files first. A file that nobody timed may be long: it starts before all others."""
    items.sort(key=lambda item: -seconds.get(file_of(item.nodeid), float("inf")))


class Stopwatch:
    """A plugin that adds up how long each file takes, and writes it down at the end of a run of all tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up, call and tear-down of a test."""
        self.seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run of some tests, or one that was stopped, says nothing about whole files."""
        every = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS and not session.config.option.keyword
        if every and not session.shouldstop and not session.shouldfail:
            rounded = {name: round(seconds, 1) for name, seconds in self.seconds.items()}
            write_whole(self.home / FILE, json.dumps(rounded, indent=1, sort_keys=True) + "\n", "the seconds of tests")
