"""``recipe lint``: each rule hits and does not, seeded mistakes are caught, our own recipes are clean."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.request.recipe_mods import linted as linted_file
from gb10.image.request.recipe_mods import load_file
from gb10.models.issue import Issue, errors_of
from gb10.models.lint.checks import CHECKS
from gb10.models.lint.engine_words import EngineWords, declared, known_words, own_releases, read_engine, releases
from gb10.models.lint.fit import fit_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.lint.served import VERSION, facts_of, patches_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.registries.recipe_file import RecipeFile, models_folder
from gb10.models.render.rendered import RenderRequest

DATA = Path(__file__).parents[1] / "data/lint"
CASES: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "cases.yaml").read_text(encoding="utf-8"))
COMMANDS = {
    "vllm": "vllm serve {model} --gpu-memory-utilization 0.8 --revision {model_revision}",
    "sglang": "python3 -m sglang.launch_server --model-path {model} --mem-fraction-static 0.7"
    " --revision {model_revision}",
    "trtllm": "trtllm-serve {model} --max_batch_size 16",
}
IMAGES = {
    "vllm": "gb10/vllm:0.33.0-cu130-sm121f",
    "sglang": "gb10/sglang:0.5.23-cu130-sm121f",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13",
}


def recipe_text(case: dict[str, Any], engine: str) -> str:
    """A clean recipe with what a case adds to it."""
    model = case.get("model", "org/plain")
    command = COMMANDS[engine].replace("{model}", model).replace(case.get("without", "\0"), "")
    recipe = {
        "recipe_version": "2",
        "model": model,
        "model_revision": "0" * 40,
        "container": case.get("container", IMAGES[engine]),
        "defaults": case.get("defaults", {}),
        "env": case.get("env", {}),
        "command": f"{command} {case.get('options', '')}".strip(),
        **case.get("keys", {}),
    }
    return yaml.safe_dump({key: value for key, value in recipe.items() if value is not None}, sort_keys=False)


def linted(case: dict[str, Any], engine: str = "vllm") -> tuple[Issue, ...]:
    return lint(load_model_recipe(recipe_text(case, engine), "x.yaml"), load_rules()).issues


def test_every_rule_has_a_case_and_every_computed_rule_a_check() -> None:
    rules = load_rules()
    assert {rule.code for rule in rules} == set(CASES)
    assert {rule.code for rule in rules if not rule.when} == set(CHECKS)
    assert len(rules) == len(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_rule_hits_what_it_is_for_and_nothing_else(code: str) -> None:
    case = CASES[code]
    found = [linted(case[kind], case.get("engine", "vllm")) for kind in ("hit", "miss")]
    assert [code in {issue.code for issue in issues} for issues in found] == [True, False]
    (hit, *_) = (issue for issue in found[0] if issue.code == code)
    assert hit.line > 0
    assert "{value}" not in hit.text
    assert hit.fix


@pytest.mark.parametrize("engine", COMMANDS)
def test_a_clean_recipe_has_no_finding(engine: str) -> None:
    assert linted({}, engine) == ()


def test_our_own_recipes_have_no_error() -> None:
    for path in sorted(models_folder().glob("*.yaml")):
        found = lint(load_file(RecipeFile(path)), load_rules()).issues
        assert errors_of(found) == (), path.name
        assert {one.code for one in found if one.level == "warning"} <= {"fp8-cache-graphs"}, path.name


NVFP4 = "--quantization modelopt_fp4"
MATRIX: list[tuple[str, str, str, set[tuple[str, str]]]] = [
    # The format counts, however it is said; MXFP4 is another one.
    ("org/m", f"{NVFP4} --disable-cuda-graph --ep-size 4", "0.5.10", {("nvfp4-graphs-needed", "error")}),
    ("org/m-FP4", "--disable-cuda-graph --ep-size 4", "0.5.10", {("nvfp4-graphs-needed", "error")}),
    ("org/m-MXFP4", "--disable-cuda-graph --ep-size 4", "0.5.10", set()),
    ("org/m-NVFP4", "--quantization fp8 --disable-cuda-graph --ep-size 4", "0.5.10", set()),
    ("org/m-NVFP4", "--disable-cuda-graph --ep-size 4", "0.5.16", set()),
    # Either bound may be left at its default.
    ("org/m-NVFP4", "--cuda-graph-max-bs 32", "0.5.10", {("nvfp4-graph-batch", "note")}),
    ("org/m-NVFP4", "--cuda-graph-max-bs 32 --ep-size 4", "0.5.10", {("nvfp4-graph-batch", "error")}),
    ("org/m-NVFP4", "--max-running-requests 300", "0.5.10", {("nvfp4-graph-batch", "note")}),
    ("org/m-NVFP4", "--max-running-requests 300 --tp-size 4", "0.5.10", set()),
    ("org/m-NVFP4", "--max-running-requests 200", "0.5.10", set()),
    ("org/m-NVFP4", "--cuda-graph-bs 1 256 512 --max-running-requests 512 --ep-size 2", "0.5.10", set()),
    (
        "org/m-NVFP4",
        "--cuda-graph-bs 1 2 4 --max-running-requests 32 --ep-size 2",
        "0.5.10",
        {("nvfp4-graph-batch", "error")},
    ),
    (
        "org/m-NVFP4",
        "--quantization modelopt --disable-cuda-graph --ep-size 4",
        "0.5.10",
        {("nvfp4-graphs-needed", "error")},
    ),
    # Piecewise graphs are on until something switches them off.
    ("nvidia/GLM-4.7-NVFP4", "--max-running-requests 8", "0.5.10", {("nvfp4-piecewise", "error")}),
    ("org/m-NVFP4", "--max-running-requests 8", "0.5.10", {("nvfp4-piecewise", "warning")}),
    ("org/m-NVFP4", "--max-running-requests 8", "0.5.12", set()),
    ("nvidia/Qwen3.5-397B-A17B-NVFP4", "--max-running-requests 8", "0.5.10", set()),
    ("org/m-NVFP4", "--max-running-requests 8 --speculative-algorithm EAGLE", "0.5.10", set()),
    (
        "org/m-NVFP4",
        "--max-running-requests 8 --speculative-algorithm EAGLE",
        "0.5.11",
        {("nvfp4-piecewise", "warning")},
    ),
    # Models with a recurrent state, by config or by name.
    ("Qwen/Qwen3-Next-80B-A3B", "--speculative-algorithm NEXTN", "0.5.13", {("qwen35-mamba-settings", "error")}),
    ("Qwen/Qwen3.6-27B", "--speculative-algorithm NEXTN --disable-radix-cache", "0.5.11", set()),
    ("Qwen/Qwen3-8B", "--speculative-algorithm EAGLE3", "0.5.10", set()),
]


@pytest.mark.parametrize(("model", "options", "release", "wanted"), MATRIX)
def test_nvfp4_and_recurrent_models_on_sglang(
    model: str, options: str, release: str, wanted: set[tuple[str, str]]
) -> None:
    quiet = "" if "piecewise" in str(wanted) or "8" in options.split() else " --disable-piecewise-cuda-graph"
    bound = "" if "max" in options else " --max-running-requests 8"
    case = {"model": model, "options": options + quiet + bound, "container": f"x/sglang:{release}"}
    codes = {"nvfp4-graphs-needed", "nvfp4-graph-batch", "nvfp4-piecewise", "qwen35-mamba-settings"}
    found = {(one.code, one.level) for one in linted(case, "sglang") if one.code in codes}
    assert found == wanted


PARALLEL, ATTENTION = "cutlass-experts-parallel-sglang", "cutlass-experts-attention"


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("0.5.9", {PARALLEL: "error"}),
        ("0.5.10", {PARALLEL: "error", ATTENTION: "error"}),
        ("0.5.10.post1", {PARALLEL: "error", ATTENTION: "error"}),
        ("0.5.11", {f"{ATTENTION}-later": "note"}),
        ("0.5.23", {f"{ATTENTION}-later": "note"}),
    ],
)
def test_the_flashinfer_that_a_release_pins_decides(release: str, wanted: dict[str, str]) -> None:
    """0.5.9 pins 0.6.3, 0.5.10.post1 0.6.7.post3, whose experts lack the flag as well; 0.5.11 pins 0.6.8.post1."""
    options = "--moe-runner-backend flashinfer_cutlass --attention-backend flashinfer --ep-size 4"
    case = {"model": "org/m", "options": options, "container": f"x/sglang:{release}"}
    found = {one.code: one.level for one in linted(case, "sglang") if one.code.startswith("cutlass-experts")}
    assert found == wanted


def test_a_mod_that_brings_a_patch_mends_what_the_patch_mends(tmp_path: Path) -> None:
    """The image is scitrera's, and the mod is ours."""
    options = "--moe-runner-backend flashinfer_cutlass --attention-backend flashinfer --max-running-requests 8"
    text = recipe_text({"model": "org/m-NVFP4", "options": options, "container": "x/sglang:0.5.10"}, "sglang")
    found = {}
    for mods in ("", "mods: [mods/sglang-0.5.10, mods/flashinfer-0.6.7]\n"):
        (tmp_path / "x.yaml").write_text(text + mods, encoding="utf-8")
        issues = linted_file(RecipeFile(tmp_path / "x.yaml"), load_rules()).issues
        found[mods != ""] = {one.code for one in issues} & {"nvfp4-piecewise", "cutlass-experts-attention"}
    assert found == {False: {"nvfp4-piecewise", "cutlass-experts-attention"}, True: set()}


def test_drafts_take_piecewise_graphs_away_in_0_5_10_post1_too() -> None:
    options = "--max-running-requests 8 --speculative-algorithm EAGLE"
    case = {"model": "org/m-NVFP4", "options": options, "container": "x/sglang:0.5.10.post1"}
    assert "nvfp4-piecewise" not in {one.code for one in linted(case, "sglang")}


def test_a_variant_is_looked_at_and_what_it_alone_has_stands_at_its_line() -> None:
    text = recipe_text(
        {"defaults": {"attention_backend": "FLASHINFER"}, "options": "--attention-backend {attention_backend}"}, "vllm"
    )
    own = """
gb10:
  engine: vllm
  variants:
    plain: {what: another backend, set: {attention_backend: TRITON_ATTN}}
    wide: {what: a variable, set: {env.VLLM_USE_V1: "1"}}
"""
    found = {one.code: one for one in lint(load_model_recipe(text + own, "x.yaml"), load_rules()).issues}
    assert set(found) == {"unknown-environment"}
    assert found["unknown-environment"].text.startswith("variant wide: ")
    assert found["unknown-environment"].line == len((text + own).splitlines())


def test_a_file_of_options_that_was_not_read_is_said() -> None:
    case = {"model": "org/m-30B-A3B", "options": "--extra_llm_api_options /etc/mine.yml"}
    (found,) = (one for one in linted(case, "trtllm") if one.code == "trtllm-moe-backend")
    assert (found.level, "was not looked at" in found.text) == ("note", True)


def test_a_patch_in_the_image_mends_what_it_is_for() -> None:
    case = {"container": "theirs:0.5.10", "options": "--kv-cache-dtype fp8_e4m3"}
    recipe = load_model_recipe(recipe_text(case, "sglang"), "x.yaml")
    ours = facts_of({"io.github.gb10.patches.sglang": "0001-jit-arch-suffix@1234 0005-x@1", VERSION: "0.5.10"})
    assert ours.patches == {"sglang/0001", "sglang/0005"}
    theirs = facts_of({VERSION: "0.5.10"})
    found = [{one.code for one in lint(recipe, load_rules(), image=image).issues} for image in (None, theirs, ours)]
    assert ["fp8-cache-graphs" in codes for codes in found] == [True, True, False]


def test_every_patch_that_mends_exists() -> None:
    mending = {rule.mended_by for rule in load_rules() if rule.mended_by}
    assert mending
    assert mending <= patches_of("gb10/vllm:1")


def test_a_size_below_the_least_number_of_nodes_is_an_error() -> None:
    found = linted({"options": "-tp 2", "keys": {"min_nodes": 4}})
    assert "parallel-sizes" in {issue.code for issue in found}
    assert "parallel-sizes" not in {issue.code for issue in linted({"keys": {"min_nodes": 4}})}


def test_an_error_of_the_loader_stands_in_the_same_list() -> None:
    issues = lint(load_model_recipe("model: a/b\nmodel: a/c\ncomand: x\n", "x.yaml"), load_rules()).issues
    assert {"duplicate-key", "misspelt-key"} <= {issue.code for issue in issues}


def test_a_newer_release_silences_and_an_older_one_brings_back() -> None:
    recipe = load_model_recipe(recipe_text({"env": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}}, "vllm"), "x.yaml")
    found = [
        {one.code for one in lint(recipe, load_rules(), release=release).issues} for release in ("0.33.0", "0.20.0")
    ]
    assert ["moved-attention-backend" in codes for codes in found] == [True, False]


def test_the_known_releases_are_those_of_our_images() -> None:
    recipes = {engine: load_recipe(ROOT / f"recipes/images/{engine}.yaml").version for engine in ("vllm", "sglang")}
    assert own_releases() == recipes
    assert all(known_words(engine, release) for engine, release in recipes.items())
    assert releases("vllm")


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("--max_model_len", "--max-model-len"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching"),
        ("--disable-prefix-caching", "--enable-prefix-caching"),
        ("--speculative-config.method", "--speculative-config"),
        ("-tp", "-tp"),
        ("--enable-prefix-cachin", "--enable-prefix-caching"),
        ("--max-seq-len-to-capture", None),
        ("--", None),
    ],
)
def test_options_as_the_parser_takes_them(written: str, known: str | None) -> None:
    words = known_words("vllm", "0.33.0")
    assert words is not None
    assert declared(words, written) == known


@pytest.mark.parametrize(("engine", "known"), [("sglang", False), ("vllm", True)])
def test_underscores_in_an_option_are_refused_by_sglang_alone(engine: str, known: bool) -> None:
    option = {"sglang": "--max_prefill_tokens", "vllm": "--max_num_batched_tokens"}[engine]
    found = [one for one in linted({"options": f"{option} 8192"}, engine) if one.code == "unknown-option"]
    assert (not found) is known
    right = option.replace("_", "-")
    assert all(f"write {right}: its parser takes no underscores" in str(one.document) for one in found)


SOURCE = """
from typing import Literal
Kind = Literal["fast", "slow"]
Both = Literal["auto", Kind]
class ThingConfig:
    kind: Both | None = None
    count: int = 1
    open: Kind | str = "fast"
"""
PARSER = """
class FrontendArgs:
    host_name: str = ""
def add(parser):
    thing_kwargs = get_kwargs(ThingConfig)
    parser.add_argument("--kind", "-k", **thing_kwargs["kind"])
    parser.add_argument("--count", **thing_kwargs["count"])
    parser.add_argument("--open", **thing_kwargs["open"])
    parser.add_argument("--thing-config", type=str)
    parser.add_argument("--level", choices=["a", "b"])
NAME = "VLLM_THING"
"""


def test_the_options_of_a_source_are_read_without_importing_it() -> None:
    words = read_engine("vllm", {"vllm/config/thing.py": SOURCE, "vllm/engine/arg_utils.py": PARSER})
    two, none = ("auto", "fast", "slow"), ()
    assert words == EngineWords(
        options={
            **{"--kind": two, "-k": two, "--count": none, "--open": none},
            **{"--thing-config": none, "--level": ("a", "b"), "--host-name": none},
        },
        keys={"--thing-config": ("count", "kind", "open")},
        environment=frozenset({"VLLM_THING"}),
    )


def test_a_value_that_no_release_takes_does_not_end_the_check_of_the_others() -> None:
    text = recipe_text({"model": "Qwen/Qwen3-0.6B", "options": "--kv-cache-dtype {kv_cache_dtype}"}, "vllm")
    recipe = load_model_recipe(text, "x.yaml")
    assert {"missing-placeholder"} <= {issue.code for issue in lint(recipe, load_rules()).issues}
    assert fit_of(recipe, RenderRequest(lenient=True)).estimate is None


def test_findings_are_data() -> None:
    (issue, *_) = linted({"options": "--max-seq-len-to-capture 1"})
    assert json.loads(json.dumps(issue.document))["code"] == "unknown-option"


FIELDS = """
LEVELS = ["low", "high"]
class ServerArgs:
    port: A[int, "where it listens"]
    kind: A[str, Arg(choices=["a", "b"], cli_name="--kinds", aliases=["-k", "--kind-of"])]
    hidden: A[int, Arg(no_cli=True)]
    shown: A[int, Arg(no_cli=False)]
    bare: A[int]
    plain: int
    other: B[str, Arg(choices=["c"])]
    called: A[str, Other(choices=["d"])]
def add(parser):
    parser.add_argument("--level", choices=LEVELS)
    parser.add_argument("positional", choices=["x"])
    parser.other("--not-an-option")
ENVIRONMENT = "SGLANG_ONE SGLANG_TWO_ XSGLANG_NO VLLM_OTHER"
"""


def test_the_fields_of_sglang_are_options() -> None:
    words = read_engine("sglang", {"sglang/srt/server_args.py": FIELDS, "sglang/srt/other.py": "port: A[int]\n"})
    letters, none = ("a", "b"), ()
    assert words.options == {
        **{"--port": none, "--shown": none, "--bare": none, "--called": none},
        **{"--kinds": letters, "-k": letters, "--kind-of": letters},
        "--level": ("low", "high"),
    }
    assert words.environment == {"SGLANG_ONE"}


def test_types_that_allow_any_text_have_no_choices() -> None:
    config = """
from typing import Literal, Optional, Union
A = Literal["a", 1]
B = B
class C:
    one: Optional[A] = None
    two: Union[A, Literal["b"]] = "a"
    three: "A | str" = "a"
    four: A | str = "a"
    five: B = None
    six: list[A] = None
    seven: Literal[True] = True
class D:
    two: int = 1
    eight: Literal["x", None] = None
class E:
    eight: Literal["x"] = "x"
"""
    names = ["one", "two", "four", "five", "six", "seven", "eight", "absent"]
    parser = "\n    ".join(["def f(p):", *(f"p.add_argument('--{name}')" for name in names)])
    words = read_engine("vllm", {"vllm/config/c.py": config, "vllm/engine/arg_utils.py": parser})
    assert words.options == {
        "--one": ("a", "1"),
        "--two": (),  # another class has a field of this name and another type
        "--four": (),
        "--five": (),
        "--six": (),
        "--seven": (),
        "--eight": ("x",),
        "--absent": (),
    }


@pytest.mark.parametrize(
    ("case", "engine", "hit"),
    [
        ({"options": "--context-length 65536"}, "sglang", True),
        ({"options": "--max-model-len 65536", "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}, "vllm", False),
        ({"options": "--max-model-len 65536", "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}}, "vllm", True),
        ({"options": "--max-model-len 65536 --hf-overrides.rope_parameters.factor 4"}, "vllm", True),
        ({"options": "--max-model-len 65536 --hf-overrides '{}'"}, "vllm", False),
        ({"options": "--max-model-len auto"}, "vllm", False),
    ],
)
def test_a_context_longer_than_the_models(case: dict[str, Any], engine: str, hit: bool) -> None:
    codes = {one.code for one in linted({"model": "Qwen/Qwen3-0.6B", **case}, engine)}
    assert ("longer-than-model" in codes) is hit
