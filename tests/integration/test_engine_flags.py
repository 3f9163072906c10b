"""The words of an engine release are those of its locked wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.core.fetch import store_paths
from gb10.image.context import open_context
from gb10.image.locked_files import fetch_locked
from gb10.image.plan.catalog import ROOT
from gb10.image.request.planning import Request, make_plan
from gb10.models.lint.engine_words import FLAGS

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_flags_are_those_of_the_locked_wheel(tmp_path: Path, engine: str) -> None:
    ctx = open_context(os.environ, verbosity=0)
    plan = make_plan(ctx, Request(engine=engine, arch="12.1f"))
    (wheel,) = (file for step in plan.of_kind("layer") for file in step.files if file.filename.startswith(f"{engine}-"))
    fetch_locked(ctx, [wheel])
    (path,) = store_paths(ctx.store, [wheel])
    argv = [sys.executable, str(ROOT / "scripts/engine_flags.py"), "--out", str(tmp_path), str(path)]
    subprocess.run(argv, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    (made,) = tmp_path.glob("*.json")
    assert made.read_text(encoding="utf-8") == (FLAGS / made.name).read_text(encoding="utf-8")
