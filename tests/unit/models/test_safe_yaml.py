"""YAML read with lines and limits: the values are PyYAML's, the lines are where a person would look."""

import pytest
import yaml

from gb10.models.load import safe_yaml
from gb10.models.load.safe_yaml import DEEPEST, LARGEST, LONGEST, UnreadableError, mapping_of, read_yaml

TEXT = """\
base: &base
  port: 8000
  host: here
one:
  <<: *base
  port: 9000
list:
  - a
  - {b: 1}
command: |
  first
  second
folded: >
  one
  line
010: eight
when: 2026-01-02
plain: text
"""


def test_the_values_are_those_of_pyyaml() -> None:
    assert read_yaml(TEXT).value == yaml.safe_load(TEXT)
    for text in ("", "- 1\n- 2\n", "7\n", "a: [1, {b: ~}]\n", "a: !!binary aGk=\n", "? x\n: y\n"):
        assert read_yaml(text).value == yaml.safe_load(text)


def test_keys_and_values_have_their_lines() -> None:
    found = read_yaml(TEXT)
    assert found.keys[("base",)] == 1
    assert found.lines[("base",)] == 1  # the anchor stands there
    assert found.lines[("base", "port")] == 2
    assert found.keys[("one", "port")] == 6
    assert found.lines[("list", 1)] == found.keys[("list", 1, "b")] == 9
    assert found.lines[("command",)] == 10
    assert found.texts == {("command",): 11, ("folded",): 14}
    assert found.keys[("8",)] == 16
    assert found.lines[()] == 1


def test_a_merged_key_has_the_line_of_its_anchor() -> None:
    assert read_yaml(TEXT).keys[("one", "host")] == 3


def test_a_key_that_stands_twice_is_told_and_the_last_counts() -> None:
    found = read_yaml("a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert found.value == {"a": 2, "b": {"c": 2}}
    assert sorted(found.duplicates, key=str) == [(("a",), 3, 1), (("b", "c"), 2, 2)]
    assert read_yaml(TEXT).duplicates == []
    assert read_yaml("8: a\n010: b\n").duplicates == [(("8",), 2, 1)]
    assert read_yaml("x: &x {a: 1}\ny: {<<: *x, <<: *x}\n").duplicates == []
    assert read_yaml("- &x {a: 1, a: 2}\n- *x\n").duplicates == [((0, "a"), 1, 1)]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\nb: [\n", 3, "this is not YAML"),
        ("a: 1\nb: @x\n", 2, "this is not YAML"),
        ("a: 1\n\x01: 2\n", 2, "is not allowed in YAML"),
        ("a: &x [*x]\n", 1, "inside of what it names"),
        ('a: 1\nb: "\\ud800"\n', 2, "U+D800 is half of a character"),
        ('a: 1\nb: "\\x03"\n', 2, "U+0003 is a control character"),
        ("a: 2026-99-99\n", 0, "this is not YAML"),
        ("a: !!python/name:os.system\n", 1, "this is not YAML"),
        ("--- 1\n--- 2\n", 2, "this is not YAML"),
    ],
)
def test_a_text_that_is_none_has_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_yaml(text)
    assert why in caught.value.text
    assert caught.value.line == line


def test_the_last_character_that_is_allowed() -> None:
    assert read_yaml('a: "\\x04"\n').value == {"a": "\x04"}
    assert read_yaml('a: "\\ud7ff"\n').value == {"a": "\ud7ff"}


def test_nesting_has_a_limit() -> None:
    assert read_yaml("[" * (DEEPEST - 1) + "1" + "]" * (DEEPEST - 1)).value is not None
    with pytest.raises(UnreadableError, match=f"more than {DEEPEST} levels deep") as caught:
        read_yaml("a: 1\nb:\n " + "[" * DEEPEST + "]" * DEEPEST)
    assert caught.value.line == 3


def test_values_and_characters_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_yaml(f"a: '{'x' * (LARGEST - 5)}'").value
    with pytest.raises(UnreadableError, match=f"it has {LARGEST + 1} characters") as caught:
        read_yaml("x" * (LARGEST + 1))
    assert caught.value.line == 0
    monkeypatch.setattr(safe_yaml, "MOST", 6)
    assert read_yaml("a: [1, 2, 3]\n").value == {"a": [1, 2, 3]}
    with pytest.raises(UnreadableError, match="more than 6 values"):
        read_yaml("a: [1, 2, 3, 4]\n")
    with pytest.raises(UnreadableError, match="more than 6 values"):
        read_yaml("[&x [1, 2], *x]\n")


def test_a_number_is_short_and_a_text_may_be_long() -> None:
    assert read_yaml(f"a: {'9' * LONGEST}\n").value == {"a": int("9" * LONGEST)}
    assert read_yaml(f"a: '{'9' * 999}'\n").value == {"a": "9" * 999}
    with pytest.raises(UnreadableError, match="for text, put it in quotes"):
        read_yaml(f"a: {'9' * (LONGEST + 1)}\n")


def test_a_recipe_is_a_mapping() -> None:
    assert mapping_of(read_yaml("a: 1\n")) == {"a": 1}
    assert mapping_of(read_yaml("[a]\n")) is mapping_of(read_yaml("")) is None
