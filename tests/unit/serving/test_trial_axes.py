"""Axes and commands: rows in order, settings that cannot be, and our own axes against the engines' options."""

import json
import shlex
from pathlib import Path
from typing import cast

import pytest

from gb10.cli.machine.bench_sides import starting_of
from gb10.core.journal import Journal
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.plan.catalog import ROOT
from gb10.image.request.recipe_mods import load_file
from gb10.models.lint.engine_words import declared, known_words, releases
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import Variant, own_section
from gb10.models.registries.recipe_file import find_recipe
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.benchmark import launch_journal
from gb10.serving.benchmark.launch_journal import keep_texts, launches_of, open_journal, run_and_record
from gb10.serving.benchmark.launch_line import LaunchLine, Outcome, Result
from gb10.serving.benchmark.launcher import (
    Launched,
    MakeLauncher,
    Starting,
    _ending,
    fill,
    keep_ranks,
    parameters_of,
    with_parameters,
    words_of,
)
from gb10.serving.benchmark.matrix import (
    MatrixRow,
    as_changed,
    drafting,
    read_matrix,
    refusals,
    rows_of,
    run_rows,
    without_effect,
)
from gb10.serving.benchmark.measuring import Measure, cause_in
from gb10.serving.doctor.masking import masked_environment
from gb10.serving.run.prepare_service import ServiceRequest
from tests.recipes import SHIPPED

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
    assert len(rows) == 72
    assert {row.values["graphs"] for row in rows} >= {"eager", "piecewise"}
    assert {row.values["drafts"] for row in rows} > {"without"}
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


SGLANG = read_matrix((ROOT / "recipes/bench/axes/sglang.yaml").read_text(encoding="utf-8"), "sglang.yaml")


def starting(variant: str | None = None) -> Starting:
    return starting_of(recipe="qwen3.5-397b-nvfp4-sglang-0.5.10", variant=variant)


NEXTN3 = SGLANG.axes["drafts"]["nextn3"]
DRAFT, OTHER = Variant(what="x", set={"speculative": "--x"}), Variant(what="x", set={"expert_parallel": 4})


@pytest.mark.parametrize(
    ("variants", "chosen", "expected"),
    [
        ({"mtp": DRAFT, "ep4": OTHER, "ep4-mtp": DRAFT}, None, {"variant": "mtp"}),
        ({"nextn": DRAFT, "nextn-triton": DRAFT}, None, {"variant": "nextn"}),
        ({"mtp": DRAFT, "ep4": OTHER, "ep4-mtp": DRAFT}, "ep4", {"variant": "ep4-mtp"}),
        ({"mtp": DRAFT, "ep4": OTHER}, "ep4", NEXTN3),
        ({}, None, NEXTN3),
        ({"mtp": DRAFT}, "mtp", None),
        ({"mtp-triton": DRAFT}, "mtp-triton", None),
        ({"ep4-mtp": DRAFT}, "ep4-mtp", None),
    ],
)
def test_a_row_that_drafts_takes_the_recipes_own_way(
    variants: dict[str, Variant], chosen: str | None, expected: dict[str, str] | None
) -> None:
    found = drafting(SGLANG.axes, variants, chosen)
    assert found.get("drafts", {}).get("nextn3") == expected
    assert ("drafts" in found) is (expected is not None)
    assert found["graphs"] == SGLANG.axes["graphs"]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("qwen3.5-397b-nvfp4-sglang-0.5.10", "--disable-piecewise-cuda-graph"),
        ("glm-4.7-nvfp4-sglang-0.5.10", "--disable-piecewise-cuda-graph"),
        ("glm-4.7-nvfp4-sglang", "--disable-prefill-cuda-graph"),
    ],
)
def test_a_row_with_piecewise_graphs_lacks_the_option_that_switches_them_off(name: str, option: str) -> None:
    recipe = load_file(find_recipe(name))
    assert without_effect(SGLANG.axes, recipe.defaults) == {}
    given = {
        row.values["graphs"]: render_recipe(
            as_changed(recipe, starting(), row.settings), RenderRequest(nodes=tuple("abcd"))
        ).serve
        or ""
        for row in rows_of(SGLANG.model_copy(update={"axes": {"graphs": SGLANG.axes["graphs"]}}))
    }
    assert {value: option in command for value, command in given.items()} == {
        "fixed": True,
        "eager": True,
        "piecewise": False,
    }
    assert "--disable-cuda-graph" in given["eager"]


def test_a_row_that_would_be_the_same_as_another_is_not_run() -> None:
    """A recipe without the parameter `graphs` has no piecewise rows."""
    recipe = load_file(find_recipe("qwen3-30b-a3b-nvfp4-sglang"))
    assert without_effect(SGLANG.axes, recipe.defaults) == {("graphs", "piecewise"): "graphs"}


def test_no_row_is_refused_for_settings_of_drafts_that_its_recipe_has() -> None:
    """Qwen3.5 wants settings of Mamba beside drafts, and a variable."""
    recipe = load_file(find_recipe("qwen3.5-397b-nvfp4-sglang-0.5.10"))
    axes = drafting(SGLANG.axes, own_section(recipe).variants, None)
    rows = rows_of(SGLANG.model_copy(update={"axes": axes}))
    refused = refusals(starting(), rows)
    drafts = [row.name for row in rows if row.values["drafts"] == "nextn3"]
    assert len(drafts) == 36
    assert not [name for name in drafts if "mamba" in refused.get(name, "")]
    assert {why.partition(": ")[2].partition(":")[0] for why in refused.values()} == {"cutlass-experts-attention"}


def test_piecewise_rows_of_glm_are_refused_as_they_were_published() -> None:
    """12 of 12 ended on SGLang 0.5.10; with drafts that release makes no such graphs."""
    rows = rows_of(SGLANG.model_copy(update={"axes": {**SGLANG.axes, "drafts": {"without": {}}}}))
    refused = refusals(starting_of(recipe="glm-4.7-nvfp4-sglang-0.5.10"), rows)
    assert len([row for row in rows if row.values["graphs"] == "piecewise" and row.name in refused]) == 12


def test_a_variable_of_a_variant_is_a_variable_of_the_row() -> None:
    recipe = load_file(find_recipe("qwen3-30b-a3b-nvfp4-trtllm"))
    changed = as_changed(recipe, starting_of(recipe=recipe.name, variant="moe-cutlass"), {})
    assert changed.env["TRTLLM_MOE_BACKEND"] == changed.defaults["moe_backend"] == "CUTLASS"
    assert not [name for name in changed.defaults if name.startswith("env.")]


def test_axes_of_trtllm_set_what_its_recipes_have() -> None:
    recipe = load_file(find_recipe("qwen3-30b-a3b-nvfp4-trtllm"))
    rows = rows_of(read_matrix((ROOT / "recipes/bench/axes/trtllm.yaml").read_text(encoding="utf-8"), "trtllm.yaml"))
    assert len(rows) == 8
    names = {name for row in rows for name in row.settings}
    assert {name for name in names if not name.startswith("env.")} <= set(recipe.defaults)
    assert refusals(starting_of(recipe=recipe.name), rows) == {}


HEAD, WORKER = ["all is well"], ["starting", "RuntimeError: CUDA error: an illegal instruction was encountered"]


@pytest.mark.parametrize(
    ("logs", "ended", "cause"),
    [
        ({"rank 0 on a": HEAD, "rank 1 on b": WORKER}, "", f"rank 1 on b: {WORKER[1]}"),
        (
            {"rank 0 on a": ["ValueError: of the head"], "rank 1 on b": WORKER},
            "rank 1 on b: it ended with code 1",
            f"rank 1 on b: {WORKER[1]}",
        ),
        ({"rank 0 on a": ["ValueError: of the head"], "rank 1 on b": HEAD}, "", "rank 0 on a: ValueError: of the head"),
        ({"rank 0 on a": WORKER}, "", WORKER[1]),
        ({"rank 0 on a": HEAD}, "", ""),
        ({}, "", "KeyError: of a command"),
    ],
)
def test_the_cause_is_looked_for_in_every_ranks_log(logs: dict[str, list[str]], ended: str, cause: str) -> None:
    launched = Launched(url="http://x", log=lambda: ["KeyError: of a command"], logs=lambda: logs)
    assert cause_in(launched, ended) == cause


def test_logs_answers_and_errors_of_a_row_are_kept_without_secrets(tmp_path: Path) -> None:
    line = "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    keep_ranks(tmp_path / "logs/3", {"rank 0 on a": ["one", "two"], "rank 1 on user@b": [line]})
    answers = ("alone: right: Paris", "alone: wrong: !!!!")
    outcome = Outcome(result=Result.FAIL, facts={}, answers=answers, error="error: x")
    keep_texts(tmp_path / "logs", "3", outcome)
    found = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "logs").iterdir()}
    assert found["3-rank-0-on-a.log"] == "one\ntwo\n"
    assert "hf_abc" not in found["3-rank-1-on-user-b.log"]
    assert found["3-answers.txt"] == "alone: right: Paris\nalone: wrong: !!!!\n"
    assert found["3-error.txt"] == "error: x\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1 b='two words' env.X=", {"a": "1", "b": "two words", "env.X": ""}),
        ("vllm:1 a=b=c", {"image": "vllm:1", "a": "b=c"}),
        ("registry.example/x:1", {"image": "registry.example/x:1"}),
    ],
)
def test_parameters_are_settings_and_an_image(text: str, found: dict[str, str]) -> None:
    assert parameters_of(text) == found


@pytest.mark.parametrize("text", ["a=1 a=2", "image:1 image:2", "a='x", "a/b:1=2"])
def test_parameters_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a setting|has no partner"):
        parameters_of(text)


def test_arguments_with_an_open_quotation_mark_are_one_error() -> None:
    with pytest.raises(UsageError, match="a quotation mark has no partner in"):
        words_of("--speculative-config '{")


def test_the_end_of_a_server_by_a_signal_is_told_as_a_shell_does() -> None:
    assert [_ending(code) for code in (-9, 137, 1, 0)] == [
        "it was ended by SIGKILL",
        "it was ended by SIGKILL",
        "it ended with code 1",
        "it ended with code 0",
    ]


def test_rows_are_run_once_and_again_only_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=0), catalog=SHIPPED)
    rows = rows_of(read_matrix(TEXT, "axes.yaml"))
    ran: list[str] = []
    failing = {"moe=triton graphs=off"}

    def make(row: MatrixRow) -> MakeLauncher:
        ran.append(row.name)
        if row.name in failing:
            raise UsageError("it cannot be", where="line 1\nline 2")
        return cast("MakeLauncher", lambda *_: None)

    def measured(*_: object) -> Outcome:
        return Outcome(result=Result.STABLE, why="", facts={}, seconds=1.5, answers=("how it began",))

    monkeypatch.setattr(launch_journal, "measure_launch", measured)

    def run(*, retry: bool) -> list[tuple[str, int] | None]:
        ran.clear()
        journal = open_journal(ctx, tmp_path / "r", {"axes": "x"})
        done = run_rows(ctx, rows, make, cast("Measure", None), journal, retry=retry)
        return [(str(one.line.result), one.line.number) if one.line else None for one in done]

    stable = str(Result.STABLE)
    first = [(stable, 0), (str(Result.FAIL), 1), (stable, 2), None]
    assert (run(retry=False), ran) == (first, [row.name for row in rows[:3]])
    assert (run(retry=False), ran) == (first, [])
    failing.clear()
    assert (run(retry=True), ran) == ([(stable, 0), (stable, 1), (stable, 2), None], [rows[1].name])
    assert (tmp_path / "r/logs/0-answers.txt").read_text(encoding="utf-8") == "how it began\n"
    with pytest.raises(UsageError, match="another job"):
        open_journal(ctx, tmp_path / "r", {"axes": "y"})


def test_a_row_that_failed_says_why_and_a_secret_begins_no_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=0), catalog=SHIPPED)
    journal = open_journal(ctx, tmp_path / "r", {"axes": "x"})

    def refuse(**more: str) -> LaunchLine:
        def make() -> MakeLauncher:
            raise UsageError("it cannot be", **more)

        return run_and_record(ctx, make, cast("Measure", None), journal, name="row", number=7)

    line = refuse(where="line 1\nline 2")
    assert (line.result, line.why, line.cause, line.number, line.block) == (Result.FAIL, "it cannot be", "line 1", 7, 0)
    assert capsys.readouterr().err.endswith(f"{Result.FAIL}: it cannot be\n  line 1\n")
    assert (refuse(hint="try x").cause, refuse().cause) == ("try x", "")
    assert len(launches_of(Journal(journal.path, json.loads(journal.path.read_text("utf-8").splitlines()[0])))) == 3
    for head in (
        {"launch": "serve --api-key sk-abcdefghijklmnop"},
        {"a": [{"b": ("x", "HF_TOKEN=hf_abcdefghijklmnop")}]},
    ):
        with pytest.raises(UsageError, match="a secret in the command line"):
            open_journal(ctx, tmp_path / "other", head)
    ended: list[int] = []
    monkeypatch.setattr(launch_journal, "end_session", ended.append)
    journal.append(json.dumps({"kind": "begun", "pid": 4711, "started": 5}))
    for started, gone in ((6, []), (5, [4711])):
        monkeypatch.setattr(launch_journal, "started", lambda _, started=started: started)
        open_journal(ctx, tmp_path / "r", {"axes": "x"})
        assert ended == gone, "another process has that number" if not gone else ""


@pytest.mark.parametrize(
    ("parameters", "unknown"),
    [
        ({"port": "1", "env.MODE": "x", "image": "i:1", "variant": "v", "args": "--a 'b c'"}, ""),
        ({"port.x": "1"}, ""),
        ({"prot": "1"}, "prot"),
        ({"zz": "1", "ab": "2"}, "ab"),
    ],
)
def test_a_side_sets_what_its_recipe_has(parameters: dict[str, str], unknown: str) -> None:
    text = "model: org/m\ncontainer: c:1\ndefaults: {port: 8000, host: a}\ncommand: vllm serve {model} --port {port}\n"
    recipe = load_model_recipe(text, "x.yaml")
    request = ServiceRequest(render=RenderRequest(overrides=(("host", "b"),), variant="old"), image="old:1")
    if unknown:
        with pytest.raises(UsageError, match=f"{recipe.name} has no parameter '{unknown}'") as caught:
            with_parameters(request, recipe, parameters, "side")
        assert caught.value.hint == "its parameters: port, host; args='…' gives the server more arguments"
        return
    found = with_parameters(request, recipe, parameters, "side")
    own = [(name, value) for name, value in parameters.items() if name not in ("image", "variant", "args")]
    assert found.render.overrides == (("host", "b"), *own)
    whole = "image" in parameters
    assert (found.image, found.render.variant) == (("i:1", "v") if whole else ("old:1", "old"))
    assert found.render.arguments == (("--a", "b c") if whole else ())
    assert found.name == "side"
