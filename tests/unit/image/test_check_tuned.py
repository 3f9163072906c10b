"""The check ``tuned``, and what of a verdict of ``moe check`` it takes as wrong."""

from dataclasses import replace

from gb10.image.build.inspect import wrong
from gb10.image.moe.expected import Verdict
from gb10.image.moe.file_verdict import FileVerdict, TunedRow
from gb10.image.proof.checks.tuned import CHECK
from tests.unit.made_up_images import found, image


def verdict(told: Verdict, *rows: TunedRow) -> FileVerdict:
    """A verdict of the engine's own look-up."""
    return FileVerdict(
        path="E=8.json",
        family="moe",
        verdict=told,
        told="ValueError",
        reasons=("for Triton 3.5",),
        rows=rows,
        expected=told,
    )


def test_a_file_that_stops_the_engine_or_has_a_row_that_cannot_run() -> None:
    row = TunedRow(first=1, last=8, config={}, use="triton", problems=("needs 147,456 bytes",))
    good = verdict("found", replace(row, problems=()))
    assert wrong(good, changed=True) == ""
    assert wrong(verdict("found", row, row), changed=False) == "needs 147,456 bytes"
    assert wrong(verdict("raises"), changed=False) == "the engine stops: ValueError"


def test_a_file_that_is_not_found_matters_where_somebody_put_it() -> None:
    missed = verdict("not found")
    assert wrong(missed, changed=True) == "the engine does not read it: for Triton 3.5"
    assert wrong(missed, changed=False) == ""


def test_the_check_passes_them_on() -> None:
    assert found(CHECK.judge(image(tuned=(("a/E=8.json", "why"),)))) == [("E=8.json", "why")]
    assert CHECK.judge(image()) == []
