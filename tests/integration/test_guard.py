"""Real texts of small pinned packages pass the guard; benches/guard/roc.py does the same with all of them."""

import os

import pytest

from benches.guard.corpus import documents, kinds, streams
from benches.guard.roc import LIMITS, real
from gb10.core.store import open_store
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.limits import read_limits

pytestmark = pytest.mark.integration

SMALL = ("agtmls", "debian-faq", "debian-faq-ko", "display-dhammapada", "fortunes-min", "maint-guide", "manpages-ko")


def test_real_texts_are_not_garbage_and_the_corpus_is_cut_the_same_each_time() -> None:
    found = documents(open_store(os.environ), os.environ, SMALL)
    limits = read_limits(LIMITS.read_text(encoding="utf-8"))
    rows = {kind.name: real(limits, found[kind.name], 60) for kind in kinds() if found[kind.name]}
    assert {"verse", "markdown by models", "Chinese, Japanese, Korean", "quotations"} <= rows.keys()
    assert sum(row.streams for row in rows.values()) >= 500
    assert {name: row.shown for name, row in rows.items() if row.shown} == {}
    assert sum(row.verdicts[Verdict.SUSPECT] for row in rows.values()) <= 5
    assert list(streams(found["verse"], 9, 3)) == list(streams(found["verse"], 9, 3))
