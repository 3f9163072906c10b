"""``selftest import`` in a checkout: the report becomes a file, the page is made anew, and `make check` wants both."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT
from tests.selftest_reports import good_report, step

pytestmark = [pytest.mark.integration, pytest.mark.slow]
IGNORED = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "*.whl", "manifest.json")


def imported(checkout: Path, report: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(checkout / "build.py"), "selftest", "import", str(report), *words]
    return subprocess.run(argv, env=dict(os.environ), capture_output=True, text=True, check=False)


def test_an_owner_adds_a_report(tmp_path: Path) -> None:
    checkout, report = tmp_path / "checkout", tmp_path / "report.json"
    shutil.copytree(ROOT, checkout, ignore=IGNORED, symlinks=True)
    document = good_report()
    step(document, "power")["claims"]["power.draw"]["value"] = 14.2
    report.write_text(json.dumps(document), encoding="utf-8")
    first = imported(checkout, report, "--machine", "Spark of a reader")
    assert first.returncode == 0, first.stderr
    assert "fell      power.draw: 14.2 W" in first.stdout
    assert "held      limits.shared-memory: 101376 B" in first.stdout
    (kept,) = (checkout / "recipes/claims/reports").iterdir()
    assert f"recipes/claims/reports/{kept.name}" in first.stderr
    page = (checkout / "docs/claims.md").read_text(encoding="utf-8")
    assert "fell: 14.2 W (Spark of a reader, 2026-11-27)" in page
    again = imported(checkout, report)
    assert again.returncode == 0, again.stderr
    assert "the claims have this report" in again.stderr
    assert [*(checkout / "recipes/claims/reports").iterdir()] == [kept]
    tests = [
        "tests/golden/test_claims_page.py",
        "tests/unit/project/test_claims.py::test_every_report_is_about_claims_that_exist",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
