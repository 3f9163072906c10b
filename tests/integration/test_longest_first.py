"""A run of all tests remembers how long each file took, and the next one starts with the longest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT
from tests.conftest import GROUP_OF
from tests.integration.longest_first import FILE, load_seconds

pytestmark = pytest.mark.integration

CONFTEST = """\
from pathlib import Path
from tests.integration import longest_first

HOME = Path(__file__).parent

def pytest_configure(config):
    config.pluginmanager.register(longest_first.Stopwatch(HOME))

def pytest_collection_modifyitems(items):
    longest_first.sort_by_seconds(items, longest_first.load_seconds(HOME))
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Three files of tests, of which the second takes longest."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = few\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "few").mkdir()
    for name, seconds in (("a", 0.1), ("b", 0.3), ("c", 0)):
        text = f"import time\n\ndef test_one():\n    time.sleep({seconds})\n\ndef test_two():\n    pass\n"
        (tmp_path / f"few/test_{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def files(suite: Path, *arguments: str) -> str:
    """The files of the tests that ran, in their order."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=suite, env=env, capture_output=True, text=True, check=True)
    lines = (line for line in done.stdout.splitlines() if " PASSED" in line)
    return "".join(line.partition("/test_")[2][0] for line in lines)


def test_the_longest_file_of_the_last_run_starts_first(suite: Path) -> None:
    assert load_seconds(suite) == {}
    assert files(suite) == "aabbcc"
    assert set(load_seconds(suite)) == {f"few/test_{name}.py" for name in "abc"}
    assert files(suite) == "bbaacc"
    (suite / "few/test_d.py").write_text("def test_new():\n    pass\n", encoding="utf-8")
    assert files(suite) == "dbbaacc"


def test_every_file_of_a_group_is_there() -> None:
    """One that is renamed would leave its group in silence, and build the small image once more."""
    assert [file for file in GROUP_OF if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("some", [["few/test_a.py"], ["-k", "two"]])
def test_a_run_of_some_tests_is_not_remembered(suite: Path, some: list[str]) -> None:
    files(suite, *some)
    assert not (suite / FILE).exists()
