"""Exit codes and the words of an error are a contract with scripts."""

from gb10.errors import ERRORS, Gb10Error, exit_codes

CODES = {
    1: "bug",
    2: "usage",
    3: "empty",
    4: "lock",
    5: "fetch",
    6: "patch",
    7: "engine",
    8: "build",
    9: "verify",
    10: "publish",
    11: "endpoint",
    12: "serve",
    13: "unchecked",
}


def test_each_error_has_a_code_and_a_kind_of_its_own() -> None:
    assert {error.code: error.kind for error in ERRORS} == CODES
    assert len(ERRORS) == len(CODES)


def test_no_error_class_is_left_out_of_the_table() -> None:
    assert {Gb10Error, *Gb10Error.__subclasses__()} == set(ERRORS)
    assert not any(error.__subclasses__() for error in ERRORS if error is not Gb10Error)


def test_the_one_table_of_exit_codes_says_what_each_means() -> None:
    assert [*exit_codes()] == [0, *CODES, 130, 141]
    assert all(meaning.endswith(".") and "\n" not in meaning for _, meaning in exit_codes().values())


def test_an_error_says_what_where_and_what_now() -> None:
    error = Gb10Error("it broke", where="file:1\nfile:2", hint="mend it")
    assert str(error) == "error: it broke\n  file:1\n  file:2\nhint: mend it"


def test_an_error_may_be_one_line() -> None:
    assert str(Gb10Error("it broke")) == "error: it broke"
