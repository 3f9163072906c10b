"""What a user sets is one word of the command, wherever the recipe has it, and every verb reads the same of it."""

import json
import subprocess
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.models.recipe_render import script_of
from gb10.image.request.recipe_mods import load_file
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import served_model
from gb10.models.lint.served import lint_case
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import find_recipe
from gb10.models.render.placeholders import option_words
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe

HEAD = "model: org/m\nruntime: vllm\ncontainer: gb10/vllm:0.33.0\ndefaults: {x: 1, options: '', names: a b}\n"
ODD = ("a b", 'a"b', "it's", "$HOME $(id) `id`", "a; id", "{a,b}", '{"a": [1, "b c"]}', "a\\b", "*", "# x", "~", "a\nb")
JSON = '{"method":"mtp","num_speculative_tokens":2}'
SPELLINGS = (
    f"--speculative-config {JSON}",
    f"--speculative-config '{JSON}'",
    f"--speculative-config={JSON}",
    "--speculative-config.method mtp --speculative-config.num_speculative_tokens 2",
    "--spec-method mtp --spec-tokens 2",
)


def recipe(command: str) -> ModelRecipe:
    return load_model_recipe(f"{HEAD}command: |\n  {command}\n", "x.yaml")


def words(script: str, *, argument: str = "0") -> list[str]:
    """The words that bash hands to vllm."""
    text = f'vllm() {{ printf "%s\\0" "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", text, "x", argument], check=True, capture_output=True, text=True, cwd="/")
    return done.stdout.split("\0")[:-1]


def started(command: str, name: str, value: str) -> list[str]:
    found = render_recipe(recipe(command), RenderRequest(overrides=((name, value),)))
    assert found.parameters[name] == value
    return words(found.ranks[0].command)


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("place", ["{x}", "'{x}'", '"{x}"'])
def test_a_value_is_one_word(value: str, place: str) -> None:
    assert started(f"vllm serve m --x {place} --y=a", "x", value)[2:5] == ["--x", value, "--y=a"]
    assert started(f"vllm serve m --x={place}", "x", value)[2] == f"--x={value}"


@pytest.mark.parametrize("text", SPELLINGS)
def test_options_keep_their_words_and_every_verb_reads_the_same(text: str) -> None:
    asked = RenderRequest(overrides=(("options", text),))
    one = recipe("vllm serve m --port 1 {options}")
    found = words(render_recipe(one, asked).ranks[0].command)
    assert found[4 : 4 + len(option_words(text))] == option_words(text)
    drafts = served_model(one, asked, own_releases()).launch.drafts
    assert (drafts.tokens, drafts.own) == (2, True) if drafts else False
    after = RenderRequest(arguments=tuple(option_words(text)))
    assert served_model(one, after, own_releases()).launch.drafts == drafts


def test_several_words_stay_where_the_recipe_itself_has_several() -> None:
    assert started("vllm serve m --served-model-name {names}", "names", "c d")[2:] == ["--served-model-name", "c", "d"]
    assert started("vllm serve m {options}", "options", "--a 'b c' --d")[2:5] == ["--a", "b c", "--d"]


@pytest.mark.parametrize(
    ("own", "taken"),
    [('{ "a": 1 }', ["c d"]), ("[1, 2]", ["c d"]), ("a {b}", ["c", "d"]), ("--y", ["c", "d"]), ("one", ["c d"])],
)
def test_json_of_the_recipe_is_one_word_whatever_blanks_it_has(own: str, taken: list[str]) -> None:
    text = f"{HEAD.replace('x: 1', f'x: {json.dumps(own)}')}command: vllm serve m --x {{x}}\n"
    found = render_recipe(load_model_recipe(text, "x.yaml"), RenderRequest(overrides=(("x", "c d"),)))
    assert words(found.ranks[0].command)[2:-2] == ["--x", *taken]


def test_another_launcher_fills_values_in_as_they_are() -> None:
    asked = RenderRequest(peer="sparkrun", overrides=(("x", "a b"),))
    assert "--x a b" in (render_recipe(recipe("vllm serve m --x {x}"), asked).serve or "")


def test_a_command_that_is_made_of_parameters_has_them_as_words() -> None:
    one = load_model_recipe(f"{HEAD.replace('x: 1', 'seed: 1')}", "x.yaml")
    asked = RenderRequest(overrides=(("seed", "1; id"), ("hf_overrides", JSON), ("served_model_name", "a b")))
    found = words(render_recipe(one, asked).ranks[0].command)
    assert [found[found.index(name) + 1] for name in ("--seed", "--hf-overrides", "--served-model-name")] == [
        "1; id",
        JSON,
        "a b",
    ]


def test_what_changes_nothing_is_said() -> None:
    def codes(**values: str) -> list[str]:
        asked = RenderRequest(overrides=tuple(values.items()))
        return [issue.code for issue in render_recipe(recipe("vllm serve m --x {x}"), asked).issues]

    assert codes(y="2") == codes(options="--a") == ["set-without-effect"]
    assert codes(x="2") == codes(x="1") == codes(tensor_parallel="1") == []


def test_draft_tokens_are_a_number() -> None:
    one = load_file(find_recipe("qwen3.5-122b-nvfp4"))
    for overrides, count in (((), 1), ((("draft_tokens", "3"),), 3)):
        asked = RenderRequest(variant="mtp", overrides=overrides)
        found = words(render_recipe(one, asked).ranks[0].command)
        assert found[found.index("--speculative-config.num_speculative_tokens") + 1] == str(count)
        drafts = served_model(one, asked, own_releases()).launch.drafts
        assert drafts is not None
        assert drafts.tokens == count


def test_memory_takes_what_run_takes_after_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    def tokens(*arguments: str) -> int:
        assert main(["recipe", "memory", "qwen3-0.6b", "--json", *arguments]) == 0
        return int(json.loads(capsys.readouterr().out)["stages"][0]["cache"]["tokens"])

    assert tokens("--", "--gpu-memory-utilization", "0.5") > tokens()
    assert main(["recipe", "memory", "qwen3.5-122b-nvfp4", "--set", "draft_tokens=3"]) == 0
    assert "--set draft_tokens changes nothing of what runs" in capsys.readouterr().err
    assert tokens("--", "--gpu-memory-utilization=0.5") == tokens("--set", "gpu_memory_utilization=0.5")


def test_the_script_of_several_nodes_has_the_command_of_each(tmp_path: Path) -> None:
    one = recipe("vllm serve m -tp 2 --x {x}")
    nodes = ("10.0.0.1", "10.0.0.2")
    for loaded in (one, load_file(find_recipe("deepseek-v4-flash"))):
        found = render_recipe(loaded, RenderRequest(nodes=nodes))
        script = script_of(found, None)
        assert script.startswith("#!/bin/bash\n# Each node runs it with its number: 0 on 10.0.0.1, 1 on 10.0.0.2.\n")
        for rank, ours in enumerate(found.ranks):
            assert words(script, argument=str(rank)) == words(ours.command)
    assert script_of(render_recipe(one, RenderRequest(nodes=nodes, peer="sparkrun")), "sparkrun").startswith("vllm")
    for wrong in ("", "2", "x"):
        with pytest.raises(subprocess.CalledProcessError):
            words(script_of(render_recipe(one, RenderRequest(nodes=nodes)), None), argument=wrong)


def test_continued_lines_need_no_indentation() -> None:
    one = recipe("vllm serve m \\\n  --a 1 \\\n  --gpu-memory-utilization 0.9")
    unindented = load_model_recipe(
        f'{HEAD}command: "vllm serve m \\\\\\n--a 1 \\\\\\n--gpu-memory-utilization 0.9"\n', "x.yaml"
    )
    assert lint_case(unindented, {}).options == lint_case(one, {}).options
    assert lint_case(unindented, {}).number("--gpu-memory-utilization") == 0.9
