"""Values by an engine's own registries: how they are read, that each known release has them, lint of them."""

import ast

import pytest
import yaml

from gb10.models.issue import Issue
from gb10.models.lint.engine_registries import REGISTRIES, NamedValues, registered_values
from gb10.models.lint.engine_variables import variable_kinds
from gb10.models.lint.engine_words import ENGINES, FLAGS, known_words, near_ones, releases, words_for
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe

FORMS = {
    "an enum": "class Kinds(Enum):\n  ONE = 'x.y'\n  TWO = ''\n  _HIDDEN = 1\n  def f(self): ...",
    "a Literal": "Kinds = Literal['ONE', 'TWO']",
    "a Literal of Literals": "Kinds = Literal['ONE', More]\nMore = Literal['TWO']",
    "a list": "Kinds = ['ONE', 'TWO']",
    "a list with a type": "Kinds: list[str] = ['ONE', 'TWO']",
    "a table": "Kinds = {'ONE': f, 'TWO': g}",
    "a table of a class": "class Parser:\n  Kinds = {'ONE': f, 'TWO': g}",
    "a sum": "Kinds = A + ['TWO']\nA = ('ONE',)",
    "a copy": "Kinds = list(A)\nA = ['ONE', 'TWO']",
    "keys of a table": "Kinds = list(Parser.A.keys())\nclass Parser:\n  A = {'ONE': f, 'TWO': g}",
    "an alias that says less": "Kinds = Any\nclass Other:\n  Kinds = ['ONE', 'TWO']",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_registry_is_read_in_each_form(form: str) -> None:
    assert NamedValues({"engine/kinds.py": FORMS[form]}).texts_of("Kinds") == ("ONE", "TWO")


def test_a_registry_in_another_file_is_found() -> None:
    values = NamedValues({"a.py": "KINDS = ['ONE', 'TWO']"}, [ast.parse("from a import KINDS")])
    assert values.texts(ast.parse("['auto'] + KINDS", mode="eval").body) == ("auto", "ONE", "TWO")


@pytest.mark.parametrize(
    "text", ["Kinds = make()", "Kinds = [x for x in y]", "Kinds = {**other, 'ONE': 1}", "Kinds = [A, 'ONE']"]
)
def test_what_cannot_be_read_gives_no_values_at_all(text: str) -> None:
    assert NamedValues({"a.py": text}).texts_of("Kinds") == ()


def test_names_in_a_circle_end() -> None:
    assert NamedValues({"a.py": "Kinds = Others\nOthers = Kinds"}).texts_of("Kinds") == ()


@pytest.mark.parametrize("release", [(engine, one) for engine in ENGINES for one in releases(engine)])
def test_each_known_release_has_each_registry(release: tuple[str, str]) -> None:
    words = known_words(*release)
    assert words
    for option in REGISTRIES[release[0]]:
        found = words.values.get(option) if "." in option else words.options.get(option)
        assert found, option
        assert len(found) >= 4


def test_the_releases_of_a_year_are_known_and_their_wheels_named() -> None:
    listed = (FLAGS / "wheels.sha256").read_text(encoding="utf-8")
    for engine, first, last in (("vllm", 25, 33), ("sglang", 10, 23)):
        known = releases(engine)
        wanted = [f"0.{one}.0" if engine == "vllm" else f"0.5.{one}" for one in range(first, last + 1)]
        assert set(wanted) <= set(known)
        assert all(f"  {engine}-{one}-" in listed for one in known)


def test_an_engine_without_files_has_no_values() -> None:
    assert registered_values("vllm", NamedValues({})) == {}


READERS = """
environment_variables: dict = {
    "A_NUMBER": lambda: int(os.getenv("A_NUMBER", "1")),
    "A_SWITCH": lambda: bool(int(os.environ.get("A_SWITCH", "0"))),
    "A_REAL": lambda: float(os.environ["A_REAL"]) if "A_REAL" in os.environ else 1.0,
    "A_TEXT": lambda: os.getenv("A_TEXT", ""),
    "A_GUARDED": lambda: int(os.environ["A_GUARDED"]) if os.getenv("A_GUARDED") else None,
    "A_WORD": env_with_choices("A_WORD", None, ["one", "two"]),
    "A_LIST": env_list_with_choices("A_LIST", [], ["one", "two"]),
    "ANOTHER": lambda: int(os.getenv("A_NUMBER", "1")),
}
"""


def test_what_reads_a_variable_says_what_it_takes() -> None:
    assert variable_kinds("vllm", {"vllm/envs.py": READERS}) == {
        "A_NUMBER": ("int",),
        "A_SWITCH": ("int",),
        "A_REAL": ("float",),
        "A_WORD": ("one", "two"),
    }


def found(options: str = "", env: dict[str, str] | None = None, **keys: object) -> list[Issue]:
    engine = str(keys.pop("engine", "vllm"))
    start = {
        "vllm": "vllm serve org/m --gpu-memory-utilization 0.8",
        "sglang": "python3 -m sglang.launch_server --model-path org/m",
    }[engine]
    recipe = {
        "recipe_version": "2",
        "model": "org/m",
        "container": {"vllm": "vllm/vllm-openai:v0.33.0", "sglang": "lmsysorg/sglang:v0.5.23"}[engine],
        "env": env or {},
        "command": f"{start} {options}",
        **keys,
    }
    return list(lint(load_model_recipe(yaml.safe_dump(recipe), "x.yaml"), load_rules()).issues)


WRONG = {
    "an attention backend of a fork": ("vllm", "--attention-backend B12X_MLA_SPARSE", "B12X"),
    "a misspelt attention backend": ("vllm", "--attention-backend FLASHINFR", "FLASHINFER"),
    "a misspelt quantization": ("vllm", "--quantization modelopt_pf4", "modelopt_fp4"),
    "a misspelt type of the cache": ("vllm", "--kv-cache-dtype fp8_e4m4", "fp8_e4m3"),
    "a type that is none": ("vllm", "--dtype bf16", "bfloat16"),
    "a parser with a dash": ("vllm", "--tool-call-parser qwen3-coder", "qwen3_coder"),
    "a parser of the other engine": ("vllm", "--reasoning-parser deepseek-r1", "deepseek_r1"),
    "a misspelt loader": ("vllm", "--load-format fastsafetensor", "fastsafetensors"),
    "a misspelt method of drafts": ("vllm", """--speculative-config '{"method": "eagel3"}'""", "eagle3"),
    "a backend for experts": ("vllm", "--moe-backend marlinn", "marlin"),
    "the other engine's attention": ("sglang", "--attention-backend flash_infer", "flashinfer"),
    "the other engine's experts": ("sglang", "--moe-runner-backend flashinfer-cutlass", "flashinfer_cutlass"),
    "the other engine's quantization": ("sglang", "--quantization modelopt-fp4", "modelopt_fp4"),
    "the other engine's parser": ("sglang", "--tool-call-parser qwen_25", "qwen25"),
    "the other engine's reasoning": ("sglang", "--reasoning-parser deepseek_r1", "deepseek-r1"),
    "the other engine's drafts": ("sglang", "--speculative-algorithm EAGLE2", "EAGLE"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_value_that_the_release_lacks_gets_the_closest(kind: str) -> None:
    engine, options, meant = WRONG[kind]
    (issue,) = (one for one in found(options, engine=engine) if one.code == "wrong-choice")
    assert issue.level == "error"
    assert meant in issue.fix.partition("(")[0]
    assert f"{engine} 0." in issue.text


RIGHT = (
    ("vllm", "--attention-backend flashinfer"),
    ("vllm", "--attention-backend auto --kv-cache-dtype fp8 --dtype bfloat16"),
    ("vllm", "--tool-call-parser mine --tool-parser-plugin /mine.py"),
    ("vllm", "--quantization $METHOD"),
    ("vllm", """--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""),
    ("sglang", "--attention-backend triton --speculative-algorithm NEXTN --reasoning-parser qwen3"),
)


@pytest.mark.parametrize(("engine", "options"), RIGHT)
def test_a_value_that_the_release_has_is_no_finding(engine: str, options: str) -> None:
    assert [one.text for one in found(options, engine=engine) if one.code == "wrong-choice"] == []


def test_a_value_in_somebodys_image_is_named_as_a_forks() -> None:
    (issue,) = (
        one
        for one in found("--attention-backend B12X_MLA_SPARSE", container="ghcr.io/somebody/vllm:0.33.0")
        if one.code == "wrong-choice"
    )
    assert (issue.level, "a fork may have it" in issue.fix) == ("warning", True)


@pytest.mark.parametrize("asked", ["0.33.1", "0.34.0", "0.31.0rc1", "0.5.0"])
def test_the_nearest_known_release_is_used_and_named(asked: str) -> None:
    words = words_for("vllm", asked)
    assert words
    assert not words.exact
    assert f"the nearest known to {asked}" in words.title
    (issue,) = (
        one
        for one in found("--no-such-option 1", container=f"vllm/vllm-openai:v{asked.partition('rc')[0]}")
        if one.code == "unknown-option"
    )
    assert issue.level == ("error" if asked == "0.31.0rc1" else "warning")


def test_an_option_of_another_release_is_a_note_where_only_the_nearest_is_known() -> None:
    (issue,) = (
        one
        for one in found("--gdn-decode-kernels 1 --max-num-partial-prefills 1", container="vllm/vllm-openai:v0.99.0")
        if one.code == "unknown-option" and "partial" in one.text
    )
    assert issue.level == "note"


EMPTY = {"VLLM_BATCH_INVARIANT", "VLLM_FLOAT32_MATMUL_PRECISION", "FLASHINFER_CUDA_ARCH_LIST", "CUDA_VISIBLE_DEVICES"}


def test_empty_variables_are_named_where_their_reader_refuses_them() -> None:
    env = dict.fromkeys((*EMPTY, "VLLM_HOST_IP", "TORCH_CUDA_ARCH_LIST", "HF_TOKEN", "VLLM_API_KEY"), "")
    issues = [one for one in found(env=env) if one.code == "empty-variable"]
    assert {one.text.partition(" ")[0] for one in issues} == EMPTY
    assert all(one.level == "error" and one.fix for one in issues)


@pytest.mark.parametrize(
    ("value", "wrong"), [("1", False), ("0", False), ("true", True), ("1.5", True), ("$X", False), ("{x}", False)]
)
def test_a_variable_with_a_text_that_its_reader_refuses(value: str, wrong: bool) -> None:
    codes = {one.code for one in found(env={"VLLM_BATCH_INVARIANT": value})}
    assert ("wrong-variable" in codes) == wrong


@pytest.mark.parametrize(
    ("value", "close"),
    [("fp8-e4m3", "fp8_e4m3"), ("FP8", "fp8"), ("bfloat", "bfloat16"), ("qwen", None)],
)
def test_the_closest_name(value: str, close: str | None) -> None:
    assert next(iter(near_ones(value, ["fp8", "fp8_e4m3", "bfloat16", "float16"])), None) == close
