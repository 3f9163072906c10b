"""Every published figure about GB10 is in a recipe: scripts/published_rows.py, and that it sees what is not."""

from pathlib import Path

import pytest

from scripts.published_rows import FILE, Row, collected, main, verdict

TEXT = FILE.read_text(encoding="utf-8")


def test_no_published_row_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("  absent")] == []
    assert len([line for line in lines if line.startswith("  present")]) >= 60
    assert "0 absent" in last


@pytest.mark.parametrize(
    ("kept", "changed", "missing"),
    [
        ("at: {1: 16.77}", "at: {1: 17.9}", "no 17.9 tokens/s with 1 at once"),
        ("first_token_s: {1: 0.63}", "first_token_s: {1: 0.9}", "no first token after 0.9 s"),
        ("lengths: {128: 76.3,", "lengths: {64: 76.3,", "no 76.3 tokens/s with answers of 64"),
        ('note: "test 28"', 'note: "test 29"', "no 21.5 tokens/s"),
        ('"17 of 38"', '"18 of 38"', "no failure with 18 of 38"),
        ("tflops: 356", "tflops: 400", "no 400 TFLOPS"),
        ("name: cutlass-small-batch", "name: cutlass", "no such variant"),
        ('--max-num-batched-tokens: "4096"', '--max-num-batched-tokens: "8192"', "--max-num-batched-tokens is 4096"),
        ("absent: [--disable-piecewise-cuda-graph]", "absent: [--ep-size]", "has --ep-size"),
        ('GB10_CUTLASS_MOE_SMALL_BATCH: "1"', 'GB10_CUTLASS_MOE_SMALL_BATCH: "2"', "does not set"),
        ('"26.2 GB"', '"62.2 GB"', "no '62.2 GB'"),
    ],
)
def test_a_figure_that_no_recipe_has_is_absent(
    kept: str, changed: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kept in TEXT
    file = tmp_path / "rows.yaml"
    file.write_text(TEXT.replace(kept, changed), encoding="utf-8")
    assert main(file) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  absent")]
    assert found
    assert all(missing in line for line in found)


def test_a_row_without_a_check_says_why() -> None:
    assert verdict(Row(what="x", left_out="of another GPU")).state == "left out"
    with pytest.raises(ValueError, match="either a check or"):
        Row(what="x")
    assert all(group.source for group in collected().groups)
