"""Claims: what a file of them may hold, what a value makes of one, and how the page shows its state."""

from datetime import date
from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.errors import UsageError
from gb10.serving.claims.claim_files import load_claims, load_reports
from gb10.serving.claims.claim_schema import Claim, ClaimFile, Report, Result, Subject, outcome
from gb10.serving.claims.claims_page import claims_page, state

TEXT = """\
title: A subject
claims:
  - id: power.clock
    says: It runs at 1,000 MHz and more.
    pages: [docs/doctor.md]
    tests: ["tests/unit/x.py::test_y"]
    step: power
    must: {least: 1000, most: 3003, unit: MHz, source: reports of several machines}
"""
RANGE = "{least: 1000, most: 3003, unit: MHz, source: reports of several machines}"


def read(text: str) -> tuple[Claim, ...]:
    return parse_document(text, ClaimFile, where="claims.yaml", what="list of claims").claims


def claim(must: str = RANGE) -> Claim:
    return read(TEXT.replace(RANGE, must))[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    tests: [", "    testz: [", "did you mean 'tests'?"),
        ('    tests: ["tests/unit/x.py::test_y"]\n', "", "needs 'tests', or 'untested'"),
        ("    step: power\n", "", "needs a 'step' of selftest, or 'elsewhere'"),
        (RANGE, "{exactly: 1, recorded: true}", "write one of 'exactly'"),
        (RANGE, "{}", "write one of 'exactly'"),
        (RANGE, "{least: 1, unit: MHz}", "needs a 'source'"),
        (RANGE, "{least: 2, most: 1, unit: MHz, source: reports of several}", "'least' 2 is above 'most' 1"),
        (RANGE, "{least: .nan, unit: MHz, source: reports of several}", "finite"),
        ("tests/unit/x.py::test_y", "tests/../x.py::test_y", "must match"),
        ("id: power.clock", "id: <b>", "must match"),
    ],
)
def test_a_wrong_claim_is_one_error_with_its_line(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError, match="not a valid list of claims") as error:
        read(TEXT.replace(old, new))
    assert "claims.yaml:" in (error.value.where or "")
    assert words in (error.value.where or "")


@pytest.mark.parametrize(
    ("must", "value", "came"),
    [
        (RANGE, 999.9, "fell"),
        (RANGE, 1000, "held"),
        (RANGE, 3003, "held"),
        (RANGE, 3004, "fell"),
        ("{most: 5, unit: s, source: reports of several}", -1, "held"),
        ("{exactly: 101376, unit: B}", 101376, "held"),
        ("{exactly: 101376, unit: B}", 101376.0, "held"),
        ("{exactly: 101376, unit: B}", 49152, "fell"),
        ("{exactly: true}", True, "held"),
        ("{exactly: true}", False, "fell"),
        ("{exactly: RoCE}", "sockets", "fell"),
        ("{recorded: true, unit: tok/s}", 12, "recorded"),
    ],
)
def test_what_a_value_makes_of_a_claim(must: str, value: float | str, came: str) -> None:
    assert outcome(claim(must), value) == came


@pytest.mark.parametrize(
    ("must", "value"), [(RANGE, True), (RANGE, "1000"), ("{exactly: true}", 1), ("{exactly: 1}", True)]
)
def test_a_value_of_another_kind_is_refused(must: str, value: float | str) -> None:
    with pytest.raises(ValueError, match="it must be"):
        outcome(claim(must), value)


def report(day: int, came: str, value: float, machine: str = "NVIDIA GB10") -> Report:
    result = Result.model_validate({"came": came, "value": value, "unit": "MHz"})
    return Report(
        report=f"{day:064x}", date=date(2026, 12, day), machine=machine, gb10="0.9.0", results={"power.clock": result}
    )


def test_the_state_is_the_newest_report_of_each_machine() -> None:
    one = claim()
    assert state(one, ()) == "no report"
    reports = (report(3, "held", 2400), report(1, "fell", 507), report(2, "held", 2000, "another GB10"))
    assert (
        state(one, reports) == "held: 2,400 MHz (NVIDIA GB10, 2026-12-03); held: 2,000 MHz (another GB10, 2026-12-02)"
    )
    page = claims_page([Subject(name="x", title="A subject", claims=(one,))], reports)
    assert "1 claims; 0 without a report; by the newest report 1 held, 0 fell, 0 recorded." in page
    assert "| at least 1,000 MHz, at most 3,003 MHz (reports of several machines) |" in page


def test_an_id_of_two_files_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "recipes/claims"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(TEXT, encoding="utf-8")
    with pytest.raises(UsageError, match=r"power\.clock is in recipes/claims/a\.yaml and in recipes/claims/b\.yaml"):
        load_claims(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("machine: NVIDIA GB10", "machine: <script>"),
        ("machine: NVIDIA GB10", 'machine: "a|b"'),
        ("value: 2400", 'value: "[x](http://y)"'),
        ("came: held", "came: won"),
        (f"report: {'a' * 64}", "report: 00"),
    ],
)
def test_a_report_that_says_more_than_words_and_numbers_is_refused(old: str, new: str, tmp_path: Path) -> None:
    folder = tmp_path / "recipes/claims/reports"
    folder.mkdir(parents=True)
    text = f"""\
report: {"a" * 64}
date: 2026-12-01
machine: NVIDIA GB10
gb10: 0.9.0
results:
  power.clock: {{came: held, value: 2400, unit: MHz}}
"""
    (folder / "x.yaml").write_text(text, encoding="utf-8")
    assert load_reports(tmp_path)[0].results["power.clock"].value == 2400
    assert old in text
    (folder / "x.yaml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(UsageError, match="not a valid report of a machine"):
        load_reports(tmp_path)
