"""The table of docs/explain.md is that of the noted answers, and these are held against what servers printed."""

import json

from scripts.explain_table import BEGIN, END, FOLDER, NOTED, PAGE, PRINTED, agrees, models, table

ANSWERS = json.loads(NOTED.read_text(encoding="utf-8"))
LINES = json.loads(PRINTED.read_text(encoding="utf-8"))


def test_the_page_has_the_noted_answers() -> None:
    made = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert made.strip() == table(ANSWERS, LINES).strip()


def test_both_engines_were_asked_about_every_config() -> None:
    assert {*ANSWERS} == {*models()}
    assert all({*of} == {"vllm", "sglang"} for of in ANSWERS.values())
    assert len(ANSWERS) >= 40


def test_no_answer_is_missing_for_a_fault_of_ours() -> None:
    gaps = {(name, engine) for name, of in ANSWERS.items() for engine, one in of.items() if one.get("exit") == 1}
    assert gaps == set()


def test_fifteen_answers_at_least_are_what_a_server_printed() -> None:
    assert sum(agrees(line) for line in LINES) >= 15
    assert [line["printed"] for line in LINES if not agrees(line) and "differs" not in line] == []


def test_every_config_has_a_source() -> None:
    sources = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert [name for name in models() if name not in sources and "--" not in name] == []
