"""A pytest plugin for tests/mutations.py: which functions of gb10 the tests of each file call.

``python -m pytest -p tests.function_calls …`` writes them to the file that the variable FUNCTION_CALLS names, as JSON:
the test files by ``path:first line`` of a function. Files in which a test fails are left out. What a process of its own
calls is not seen, nor what is called while tests are collected.
"""

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]


class FunctionCalls:
    """Watches tests one by one."""

    def __init__(self) -> None:
        self.called = dict[str, set[CodeType]]()
        self.failed = set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        codes = self.called.setdefault(item.nodeid.partition("::")[0], set())

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                codes.add(frame.f_code)

        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid.partition("::")[0])

    def pytest_sessionfinish(self) -> None:
        found: dict[str, list[str]] = {}
        for test, codes in ((test, codes) for test, codes in self.called.items() if test not in self.failed):
            for code in codes:
                path = Path(code.co_filename)
                if path.is_relative_to(ROOT / "gb10"):
                    found.setdefault(f"{path.relative_to(ROOT)}:{code.co_firstlineno}", []).append(test)
        Path(os.environ["FUNCTION_CALLS"]).write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FunctionCalls())
