"""The guard's bars, over all real texts and all collapses: the command that docs/guard.md names."""

import os
import sys

import pytest

from gb10.core.proc import capture
from gb10.image.plan.catalog import ROOT

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("script", ["roc.py", "canaries.py"])
def test_the_guard_meets_its_bars(script: str) -> None:
    print(capture([sys.executable, str(ROOT / "benches/guard" / script)], env=os.environ))
