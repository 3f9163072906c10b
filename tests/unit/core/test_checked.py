"""The third result: a part that was not looked at is a row, is counted, and is exit 13 when nothing wrong was found."""

import pytest

from gb10.core.checked import (
    NotChecked,
    counted,
    documents_of,
    in_order,
    looked_at,
    refuse_unchecked,
    rows_of,
)
from gb10.errors import UncheckedError

OPTIONS = NotChecked(what="options", reason="no words of vllm 0.1 are here")
SIZES = NotChecked(what="memory", reason="the sizes of a/b are not known", where="one.yaml")


def test_a_row_names_the_place_the_part_and_the_reason() -> None:
    assert rows_of([OPTIONS, SIZES]) == [
        "not checked: options: no words of vllm 0.1 are here",
        "one.yaml: not checked: memory: the sizes of a/b are not known",
    ]


def test_the_document_has_a_place_only_where_there_is_one() -> None:
    assert documents_of([OPTIONS]) == [{"what": "options", "reason": "no words of vllm 0.1 are here"}]
    assert documents_of([SIZES])[0]["where"] == "one.yaml"


@pytest.mark.parametrize(
    ("rows", "text"), [([], ""), ([OPTIONS], ", 1 part not checked"), ([OPTIONS, SIZES], ", 2 parts not checked")]
)
def test_a_summary_counts_them(rows: list[NotChecked], text: str) -> None:
    assert counted(rows) == text


def test_each_row_once_in_the_order_of_finding() -> None:
    assert in_order([SIZES, OPTIONS, SIZES]) == (SIZES, OPTIONS)


def test_a_part_left_out_is_exit_13_unless_it_is_allowed() -> None:
    with pytest.raises(UncheckedError) as raised:
        refuse_unchecked([OPTIONS])
    assert raised.value.code == 13
    assert raised.value.message == "1 part was not checked, and nothing wrong was found in the rest"
    refuse_unchecked([OPTIONS], allowed=True)
    refuse_unchecked([])


def test_the_error_counts_the_rows_and_repeats_none() -> None:
    rows = [NotChecked(what=f"part {number}", reason="a reason") for number in range(8)]
    with pytest.raises(UncheckedError) as raised:
        refuse_unchecked(rows)
    assert raised.value.message == "8 parts were not checked, and nothing wrong was found in the rest"
    assert "a reason" not in str(raised.value)


def test_a_row_prints_what_others_wrote_without_control_characters() -> None:
    assert "\x1b" not in str(NotChecked(what="image", reason="\x1b[31mred"))


def test_the_list_for_a_help_is_aligned() -> None:
    assert looked_at({"keys": "of the file", "options": "its own"}) == "keys     of the file\noptions  its own"
