"""The table of public launches is what gb10 chooses now, and none of its choices is worse than what ran."""

from scripts.launch_table import PAGE, differences, page, rows


def test_no_public_launch_is_better_and_the_page_says_what_is_chosen() -> None:
    found = [*rows()]
    told = {row.model: [text for worse, text in differences(row) if worse] for row in found}
    assert {model: texts for model, texts in told.items() if texts} == {}
    assert sum(not isinstance(row.ours, str) for row in found) >= 22
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, found) == text
