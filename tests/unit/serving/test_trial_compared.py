"""A comparison from its launches: figures, verdict, doubts, its document, its page and its table."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.benchmark.compared import answers_of, compare_launches
from gb10.serving.benchmark.launch_line import LaunchLine, SavedQuality
from gb10.serving.benchmark.pages import COMPARE_HEAD, compare_page, html, markdown, serve_page, table_row
from gb10.serving.benchmark.saved_results import is_saved, saved_launches
from gb10.serving.benchmark.saved_serve import read_serve
from gb10.serving.load_generator.quality import Judge
from tests.served import document, line, lines

SCHEMA = json.loads((ROOT / "docs/schemas/compare-v1.schema.json").read_text(encoding="utf-8"))
SERVE = json.loads((ROOT / "docs/schemas/serve-v1.schema.json").read_text(encoding="utf-8"))
NOISE = (1.0, 1.004, 0.997, 1.001, 0.999)
LUCK = (1.5, 1.8, 1.4, 1.7, 1.6)


def sides(factor: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Five launches of each: B's steps are ``factor`` times A's, tokens a step are luck."""
    a = [document(100 * noise, luck) for noise, luck in zip(NOISE, LUCK, strict=True)]
    b = [document(100 * factor * noise, luck) for noise, luck in zip(NOISE[::-1], LUCK[::-1], strict=True)]
    return a, b


def test_made_up_documents_are_what_serve_writes() -> None:
    jsonschema.validate(document(100), SERVE)


def test_steps_are_found_where_tokens_are_not_resolved() -> None:
    found = compare_launches(lines(*sides(1.05)), ("a", "b"), margin=0.02)
    words = {row.figure.name: row.word for row in found.rows}
    assert words == {
        "steps_s": "faster",
        "tokens_per_step": "not resolved",
        "tok_s": "not resolved",
        "first_token_s": "same",
    }
    assert found.verdict == "faster"
    assert found.rows[0].words.startswith("steps/s at 2: +5.0 % at 5 launches a side (95 %: +4.6 to +5.4 %): faster")
    made = json.loads(json.dumps(found.document()))
    jsonschema.validate(made, SCHEMA)
    assert made["rows"][0]["effect"] == pytest.approx(0.05, abs=0.001)
    assert len(made["rows"][0]["points"]) == 10


def test_runs_of_a_launch_are_averaged_and_its_warm_up_is_left_out() -> None:
    level = read_serve(json.dumps(document(100, 1.5)), "it").level(2)
    assert level is not None
    assert level.figure("steps_s") == pytest.approx(100)
    assert level.figure("tok_s") == pytest.approx(300)


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "faster"), (0.95, "slower"), (1.0, "not resolved")])
def test_the_verdict_is_of_steps_and_tokens(factor: float, verdict: str) -> None:
    assert compare_launches(lines(*sides(factor)), ("a", "b"), margin=0.02).verdict == verdict


def test_equal_launches_are_the_same() -> None:
    equal = [document(100 * noise) for noise in NOISE]
    assert compare_launches(lines(equal, equal[::-1]), ("a", "b"), margin=0.02).verdict == "same"


def test_a_side_whose_answers_are_garbage_is_not_fast() -> None:
    a, b = sides(2.0)
    found = compare_launches(lines(a, [*b[:2], document(500, verdict="GARBAGE")]), ("a", "b"), margin=0.02)
    assert found.verdict == "garbage"
    assert found.garbage == "the answers of B are GARBAGE: the last 256 characters are '!'"
    jsonschema.validate(json.loads(json.dumps(found.document())), SCHEMA)


def test_what_speaks_against_a_comparison_is_said_once_for_each_side() -> None:
    a, b = sides(1.0)
    for number, one in enumerate(b):
        one["doubts"] = [f"other programs run on this machine: load {number}.5 on 20 cores"]
        one["machine"] = {**one["machine"], "kernel": "6.2"}
        one["settings"] = {**one["settings"], "tokenizer": "2" * 64}
    found = compare_launches(lines(a, b), ("a", "b"), margin=0.02)
    assert found.doubts == (
        "B: other programs run on this machine: load 0.5 on 20 cores (5 of 5)",
        "kernel differs: 6.1 with A, 6.2 with B",
        "the tokenizers differ: prompts of equal tokens are not of equal text",
    )


def test_sides_that_did_not_run_in_turn_and_passes_are_doubted() -> None:
    a, b = sides(1.0)
    after = [line("A" if number < 5 else "B", number, made) for number, made in enumerate([*a, *b])]
    assert "did not run in turn" in compare_launches(after, ("a", "b"), margin=0.02).doubts[0]
    passes = compare_launches(lines(a, b), ("a", "b"), margin=0.02, unit="passes")
    assert passes.doubts == ("each side was started once: the next start may be as different",)
    assert "5 passes a side" in passes.rows[0].words


def judged(judge: Judge) -> list[LaunchLine]:
    """Launches of which B is faster and answers worse."""
    points = {"A": 40, "B": 30}
    return [
        one.model_copy(update={"quality": SavedQuality(judge=judge, what="w", points=points[one.name], of=40)})
        for one in lines(*sides(1.2))
    ]


def test_worse_answers_win_over_speed() -> None:
    found = compare_launches(judged("canaries"), ("a", "b"), margin=0.02)
    assert found.verdict == "worse answers"
    assert found.answers is not None
    assert (found.answers.points, found.answers.of) == ((200, 150), (200, 200))
    jsonschema.validate(json.loads(json.dumps(found.document())), SCHEMA)


def test_the_same_questions_in_every_launch_are_no_new_ones() -> None:
    found = compare_launches(judged("lm-eval"), ("a", "b"), margin=0.02).answers
    assert found is not None
    assert (found.points, found.of) == ((40, 30), (40, 40))
    both = [*judged("lm-eval"), *judged("canaries")]
    assert answers_of([one for one in both if one.name == "A"], [one for one in both if one.name == "B"]) is None


class Reader(HTMLParser):
    """What a page would load or run, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [
            f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset") or name.startswith("on")
        ]
        self.loads += [tag] if tag in ("script", "iframe", "img", "link", "object") else []

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_page_loads_nothing_and_takes_no_words_for_markup() -> None:
    hostile = "<script>alert(1)</script>\"'&|`"
    a, b = sides(1.05)
    for one in (*a, *b):
        one["model"], one["doubts"] = hostile, [hostile]
    page = compare_page(compare_launches(lines(a, b), (hostile, "b"), margin=0.02), "made by a test")
    reader = Reader()
    reader.feed(html(page))
    assert reader.loads == []
    assert "url(" not in html(page)
    assert hostile in "".join(reader.text)
    table = markdown(page)
    assert "<script>" not in table
    cells = [row for row in table.splitlines() if row.startswith("| 2 |")]
    assert len(cells) == 4
    assert all(row.replace("\\|", "").count("|") == 9 for row in cells)


def write(folder: Path, made: list[dict[str, Any]]) -> str:
    folder.mkdir()
    for number, one in enumerate(made):
        text = json.dumps({**one, "boot": f"boot {number}", "started": f"2026-01-02T03:0{number}:00Z"})
        (folder / f"{number}.json").write_text(text, encoding="utf-8")
    return str(folder)


def test_saved_results_are_compared(tmp_path: Path) -> None:
    a, b = sides(1.05)
    one, two = write(tmp_path / "a", a), write(tmp_path / "b", b)
    assert is_saved(one, two)
    found = compare_launches(saved_launches(one, two), (one, two), margin=0.02)
    assert found.rows[0].word == "faster"
    assert "".join(launch.name for launch in found.launches) == "ABABABABAB"


def test_two_launches_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    a, b = sides(1.05)
    one, two = write(tmp_path / "a", a[:1]), write(tmp_path / "b", b[:1])
    found = compare_launches(saved_launches(one, two), (one, two), margin=0.02)
    assert [launch.name for launch in found.launches] == ["A", "B"]
    assert found.verdict == "not resolved"


def test_saved_results_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    a, b = sides(1.0)
    other = [{**one, "settings": {**one["settings"], "prompt": 2048}} for one in b]
    one, two = write(tmp_path / "a", a), write(tmp_path / "b", other)
    with pytest.raises(UsageError, match="measured differently") as caught:
        saved_launches(one, two)
    assert caught.value.where == "tokens of a prompt: 100 and 2048"
    (tmp_path / "a/9.json").write_text(json.dumps({**a[0], "boot": "boot 1"}), encoding="utf-8")
    with pytest.raises(UsageError, match="2 results of the launch 'boot 1'"):
        saved_launches(one, one)
    (tmp_path / "a/9.json").write_text('{"schema": "gb10/serve/v1", "levels": NaN}', encoding="utf-8")
    with pytest.raises(UsageError, match="no result of bench serve"):
        saved_launches(one, one)
    with pytest.raises(UsageError, match="one side is a saved result"):
        is_saved(one, "http://a:8000")


def test_several_answer_lengths_are_sections_of_a_page_and_no_side_of_a_comparison(tmp_path: Path) -> None:
    made = document(100.0)
    levels = [{**made["levels"][0], "answer": answer} for answer in (128, 1024)]
    several = {**made, "settings": {**made["settings"], "answer": [128, 1024]}, "levels": levels}
    jsonschema.validate(several, SERVE)
    page = serve_page(read_serve(json.dumps(several), "several"), (), "made")
    assert page.lead[0].startswith("100 tokens in, 128, 1024 out, 2 runs")
    figures = [section for section in page.sections if section.charts]
    assert [section.title for section in figures] == ["Figures, 128 tokens out", "Figures, 1,024 tokens out"]
    assert [len(section.rows) for section in figures] == [1, 1]
    path = write(tmp_path / "several", [several])
    with pytest.raises(UsageError, match="has several answer lengths"):
        saved_launches(path, path)


def test_the_cells_of_a_figure_are_its_own() -> None:
    found = compare_launches(lines(*sides(1.05)), ("a", "b"), margin=0.02)
    cells = {row.figure.name: table_row(row) for row in found.rows}
    steps, tokens = cells["steps_s"], cells["tok_s"]
    assert len(steps) == len(COMPARE_HEAD)
    assert (steps[0], steps[2], steps[3]) == ("2", "100", "105")
    assert steps[4] == "+5.0 %"
    assert steps[5].startswith("+4.6 to +5.4")
    assert steps[7] == "faster"
    needed = next(row.found.needed for row in found.rows if row.figure.name == "tok_s")
    assert needed
    assert tokens[7] == f"not resolved, {needed} would"
    assert not any("would" in cells[name][7] for name in ("steps_s", "first_token_s"))


@pytest.mark.parametrize(
    ("factor", "kind"), [(1.05, "good"), (0.95, "bad"), (1.0, "unsure")], ids=["faster", "slower", "not resolved"]
)
def test_the_page_of_a_comparison_has_the_colour_of_its_verdict(factor: float, kind: str) -> None:
    page = compare_page(compare_launches(lines(*sides(factor)), ("", "b"), margin=0.02), "now")
    assert page.kind == kind
    assert page.lead[:2] == ("A: as the recipe is", "B: b")
    launches = next(section for section in page.sections if section.title == "Launches")
    assert [row[0] for row in launches.rows] == [str(number) for number in range(1, 11)]
