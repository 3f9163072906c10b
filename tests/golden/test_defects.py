"""docs/defects.md is what the patches and the advice say; ``--update-golden`` writes it."""

import pytest

from gb10.core.document import parse_document
from gb10.image.patches.defects import AdviceList, page
from gb10.image.patches.series import load_series, sources
from gb10.image.plan.catalog import ROOT

PAGE = ROOT / "docs/defects.md"


def test_the_page_of_defects(request: pytest.FixtureRequest) -> None:
    text = (ROOT / "patches/advice.yaml").read_text(encoding="utf-8")
    advice = parse_document(text, AdviceList, where="patches/advice.yaml", what="list of advice").advice
    root = ROOT / "patches"
    made = page([patch for source in sources(root) for patch in load_series(root, source)], advice)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made, (
        "stale: python3 -m bootstrap -m pytest tests/golden --update-golden"
    )
