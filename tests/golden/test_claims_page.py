"""docs/claims.md is what recipes/claims says; ``--update-golden`` writes it."""

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.serving.claims.claim_files import load_claims, load_reports
from gb10.serving.claims.claims_page import claims_page

PAGE = ROOT / "docs/claims.md"


def test_the_page_of_claims(request: pytest.FixtureRequest) -> None:
    made = claims_page(load_claims(), load_reports())
    if request.config.getoption("--update-golden"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made, (
        "stale: python3 -m bootstrap -m pytest tests/golden --update-golden"
    )
