"""Texts made against regular expressions: the time of every rule and mask grows with the text, and no faster.

CPU is counted, of a text and of one four times as long: four times is right, sixteen times is an expression that
begins anew at each place.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import gb10.models.lint
import gb10.serving.checkup
import gb10.serving.doctor
import gb10.serving.guard
from gb10.core.linear_regex import linear
from gb10.models.lint.rule import Rule, load_rules
from gb10.serving.checkup.bundle import EACH
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.log_scan import LONGEST, scan_log
from gb10.serving.doctor.masking import masked
from gb10.serving.doctor.rule_files import load_doctor_rules
from tests.hang import MOST, grown, no_hang

PIECES = [
    "-",
    '"',
    "'",
    "\\",
    " ",
    "\n",
    "a",
    "1",
    "aA1",
    "=",
    ":",
    "@",
    "/",
    "(",
    "[",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
]
NAMES = [
    "token", "token=", "token='$", "key=", "key ", "key1=", 'key="', "key\n", "api key ", "api_key=[", "api_key=(",
    "api_key={", "api_keys: a, ", "--api-key ", "--api-key", '\\"api_key', 'password="', "password:", "password: ",
    "password:\n ", "password:\n  none\n", "password\n", "password |", "<password>", "password>", '"password" : ',
    "password is ", "PASS=", "PASS=\n\n\n", "${PASSWORD:-", "- name: HF_TOKEN\n", "('HF_TOKEN', ", "cookie: ",
    "authorization:", "%22token%22", "&quot;token&quot;", "&amp;token=", "_url=", "otp ", "session:'", "session=1",
]  # fmt: skip
KINDS = [
    "Bearer ", "basic ", "sk-", "hf_", "AKIA", "A3T", "sl.", "key-", "eyJ", "eyJa.", "$1$", "12345678:AA", "://",
    "http://", "http://a@", "http://a:", "user:pw@host.", "a:b@", "x@", "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----", "Private-Lines: 1", "-u ", "-u a:", "echo ", "docker login ", "mysql ",
    "openssl -k", "wandb login ", "identified by ", "AWS4-HMAC-SHA256 ", "discord.com/api/webhooks/", '"d":"',
    "aA1/", "a.b", "1:",
]  # fmt: skip


def literals(pattern: str) -> list[str]:
    """The parts of an expression that stand in a text as they are."""
    return [re.sub(r"\\(.)", r"\1", one) for one in re.findall(r"(?:[\w:/ =,'<>-]|\\[.()\[\]]){1,40}", pattern)]


@pytest.mark.parametrize("piece", [*PIECES, *NAMES, *KINDS])
def test_masks_take_time_as_the_text_has_length(piece: str) -> None:
    assert grown(masked, piece, 10_000) <= MOST


@pytest.mark.parametrize("piece", ["-", '"', "api_key-", "x" * 119 + "\n"])
def test_a_line_of_a_bundle_s_size_is_masked_in_time_as_a_smaller_one(piece: str) -> None:
    assert grown(masked, piece, EACH // 4) <= MOST


@pytest.mark.parametrize("rule", load_doctor_rules(), ids=lambda rule: rule.code)
def test_rules_of_doctor_take_time_as_the_text_has_length(rule: DoctorRule) -> None:
    for sign in rule.log:
        for piece in {sign.has, f"{sign.has} ", *literals(sign.match or ""), *PIECES}:
            assert grown(sign.regex.search, piece, 20_000) <= MOST, piece
    for one in rule.container or ():
        for pattern in filter(None, (one.command, one.value)):
            for piece in {*literals(pattern), *PIECES}:
                assert grown(linear(pattern).search, piece, 20_000) <= MOST, piece


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.code)
def test_rules_of_lint_take_time_as_the_text_has_length(rule: Rule) -> None:
    for condition in rule.when:
        for pattern in filter(None, (condition.model, condition.container, condition.text, condition.holds)):
            for piece in {*literals(pattern), *PIECES}:
                assert grown(linear(pattern, ignore_case=True).search, piece, 20_000) <= MOST, piece


@pytest.mark.parametrize("rule", [one for one in load_doctor_rules() if one.log], ids=lambda rule: rule.code)
def test_a_log_of_one_rule_s_words_is_read_in_time_as_a_shorter_one(rule: DoctorRule) -> None:
    for sign in rule.log:
        line = (f"{sign.has} " * LONGEST)[:LONGEST] + "\n"
        assert grown(lambda text: scan_log([text.encode()], load_doctor_rules()), line, 40_000) <= MOST


def expressions() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Python's own expressions of the rooms that read texts of others, in constants."""
    for package in (gb10.serving.doctor, gb10.serving.checkup, gb10.serving.guard, gb10.models.lint):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(found.name)).items():
                for one in (
                    value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else [value]
                ):
                    if isinstance(one, re.Pattern) and isinstance(one.pattern, str):
                        yield f"{found.name}.{name}", one


@pytest.mark.parametrize(("name", "pattern"), [pytest.param(*one, id=one[0]) for one in expressions()])
@no_hang()
def test_python_s_own_expressions_end_on_a_line(name: str, pattern: re.Pattern[str]) -> None:
    """They are for texts of bounded length: a line of a log, a name. Without end is what grows with two to the text."""
    for piece in {*literals(pattern.pattern), *PIECES}:
        text = piece * (LONGEST // len(piece))
        pattern.search(text)
        pattern.match(text)
