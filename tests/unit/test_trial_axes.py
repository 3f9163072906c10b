"""Axes and commands: rows in order, settings that cannot be, and our own axes against the engines' options."""

import shlex

import pytest

from gb10.doctor.masking import masked_environment
from gb10.errors import UsageError
from gb10.lint.engine_words import declared, known_words, releases
from gb10.plan.catalog import ROOT
from gb10.trial.axes import read_matrix, rows_of
from gb10.trial.template import fill

TEXT = """\
launch: "serve --port {port} --moe {moe} {args}"
axes:
  moe:
    triton: {moe: triton}
    cutlass: {moe: cutlass, args: "--a 1", env.MODE: "x"}
  graphs:
    "on": {}
    "off": {args: --eager, flag: true}
left_out:
  - {when: {moe: cutlass, graphs: "off"}, why: wrong tokens}
"""


def test_rows_are_the_product_and_their_arguments_follow_each_other() -> None:
    rows = rows_of(read_matrix(TEXT, "axes.yaml"))
    assert [row.name for row in rows] == [
        "moe=triton graphs=on",
        "moe=triton graphs=off",
        "moe=cutlass graphs=on",
        "moe=cutlass graphs=off",
    ]
    assert [row.left_out for row in rows] == ["", "", "", "wrong tokens"]
    assert rows[3].settings == {"moe": "cutlass", "args": "--a 1 --eager", "env.MODE": "x", "flag": "true"}


WRONG = {
    "axes:\n  a: {x: {k: 1}}\n  b: {y: {k: 2}}\n": "two axes set 'k'",
    "axes: {}\n": "at least 1",
    "axes:\n  a: {x: {}}\nleft_out: [{when: {a: z}, why: w}]\n": "a=z, which is on no axis",
    "recipe: r\nlaunch: l\naxes:\n  a: {x: {}}\n": "two ways to start a server",
    "axes:\n" + "".join(f"  a{n}: {{x: {{}}, y: {{}}, z: {{}}}}\n" for n in range(6)): "more than 500 rows",
    "axes:\n  a: {x: {}}\nax: 1\n": "ax",
    "axes:\n  a: [x]\n": "mapping",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_axes_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        rows_of(read_matrix(text, "axes.yaml"))
    assert WRONG[text] in str(caught.value)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_our_axes_have_options_that_the_newest_release_knows(engine: str) -> None:
    path = ROOT / f"recipes/bench/axes/{engine}.yaml"
    rows = rows_of(read_matrix(path.read_text(encoding="utf-8"), str(path)))
    words = known_words(engine, releases(engine)[-1])
    assert words is not None
    assert len(rows) == 36
    for row in rows:
        given = shlex.split(row.settings.get("args", ""))
        for option, value in zip(given, [*given[1:], ""], strict=True):
            if option.startswith("--"):
                name = declared(words, option)
                assert name, option
                choices = words.options[name]
                assert not choices or value in choices, (option, value)


def test_a_command_takes_its_values_and_keeps_its_own_braces() -> None:
    values = {"model": "org/m", "args": "--a 'two words'", "env.MODE": "x"}
    filled = fill('serve {model} --port={port} --json \'{"a": {"b": 1}}\' {args}', values, 8123)
    assert filled.argv == ("serve", "org/m", "--port=8123", "--json", '{"a": {"b": 1}}', "--a", "two words")
    assert filled.environment == {"MODE": "x"}


@pytest.mark.parametrize(
    ("template", "values", "said"),
    [
        ("serve {modle}", {}, "{modle}, which has no value"),
        ("serve", {"model": "m"}, "no place for 'model'"),
        ("serve 'x", {}, "not complete"),
        ("{args}", {}, "empty"),
    ],
)
def test_a_command_that_cannot_be_is_refused(template: str, values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=r".") as caught:
        fill(template, values, 1)
    assert said in str(caught.value)


def test_what_sounds_secret_is_in_no_result() -> None:
    environment = {"HF_TOKEN": "hf_x", "OPENAI_API_KEY": "sk-x", "MODE": "fast"}
    assert masked_environment(environment) == {"HF_TOKEN": "***", "OPENAI_API_KEY": "***", "MODE": "fast"}
