"""What is said does not depend on the order in which Python keeps a set: each run has another one."""

import os
import subprocess
import sys

import pytest

from gb10.image.plan.catalog import ROOT

pytestmark = pytest.mark.integration
SEEDS = ("0", "4", "20261127")
"""When doctor took the texts of a line from a set, the first two differed."""


@pytest.mark.parametrize(
    ("said", "least"),
    [
        (("-m", "tests.kept_cases"), 200_000),
        (("build.py", "recipe", "lint", "recipes/models", "tests/unit/data/lint", "--json"), 10_000),
    ],
    ids=["doctor", "lint"],
)
def test_runs_with_different_hashes_say_the_same(said: tuple[str, ...], least: int) -> None:
    runs = {
        subprocess.run(
            [sys.executable, *said],
            check=False,  # lint ends with 2: the kept mistakes are errors
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
        ).stdout
        for seed in SEEDS
    }
    assert len(runs) == 1
    assert len(runs.pop()) > least
