"""The third result: a part that was not looked at is a row, is counted, and is exit 13 when nothing wrong was found."""

import pytest

from gb10.core.checked import (
    LISTED,
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
    assert "no words of vllm 0.1" in str(raised.value)
    refuse_unchecked([OPTIONS], allowed=True)
    refuse_unchecked([])


def test_an_error_names_so_many_rows_and_the_number_of_the_rest() -> None:
    rows = [NotChecked(what=f"part {number}", reason="a reason") for number in range(LISTED + 3)]
    with pytest.raises(UncheckedError) as raised:
        refuse_unchecked(rows)
    assert raised.value.where is not None
    assert raised.value.where.splitlines()[-1] == "and 3 more"


def test_a_row_prints_what_others_wrote_without_control_characters() -> None:
    assert "\x1b" not in str(NotChecked(what="image", reason="\x1b[31mred"))


def test_the_list_for_a_help_is_aligned() -> None:
    assert looked_at({"keys": "of the file", "options": "its own"}) == "keys     of the file\noptions  its own"
