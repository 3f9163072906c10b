"""Files of other forms become recipes: vLLM's official ones and profiles of Ansible, both made up here."""

import shlex
from pathlib import Path

import pytest
import yaml

from gb10.cli import main
from gb10.cli.models.recipe_import import image_of
from gb10.errors import UsageError
from gb10.models.importing.import_result import ImportChoices, ImportResult, recipe_text
from gb10.models.importing.importing import engine_of_form, import_recipe
from gb10.models.lint.served import lint_case
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import own_section
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe

DATA = Path(__file__).parents[1] / "data/import"
OFFICIAL = (DATA / "official.yaml").read_text(encoding="utf-8")
BY_DIGEST = f"x.io/y@sha256:{'0' * 64}"
PROFILE = (DATA / "profile.yaml").read_text(encoding="utf-8")


def imported(text: str, variant: str | None = None, nodes: int | None = None, *features: str) -> ImportResult:
    return import_recipe(
        text, "x.yaml", ImportChoices(variant=variant, nodes=nodes, features=features, image="gb10/vllm:1")
    )


def words_of(found: ImportResult) -> list[str]:
    return shlex.split(str(found.values["command"]).replace("\\\n", " "))


def test_the_largest_variant_that_fits_is_taken_with_its_arguments_in_the_projects_order() -> None:
    found = imported(OFFICIAL)
    assert (found.values["model"], found.values["max_nodes"]) == ("org/Made-Up-80B-FP8", 1)
    assert words_of(found)[7:] == [
        *("--tensor-parallel-size", "{tensor_parallel}", "--gpu-memory-utilization", "{gpu_memory_utilization}"),
        *("--trust-remote-code", "--block-size", "128", "--kv-cache-dtype", "fp8"),
        *("--attention-backend", "FLASHINFER", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]
    assert found.values["env"] == {"VLLM_LOGGING_LEVEL": "INFO", "B": "2"}


def test_a_variant_has_its_own_hardware_and_a_feature_its_mode() -> None:
    found = imported(OFFICIAL, "nvfp4", None, "spec_decoding")
    words = words_of(found)
    assert words.count("--block-size") == 1
    assert words[words.index("--block-size") + 1] == "64"
    assert words[words.index("--moe-backend") + 1] == "b12x"
    assert words[words.index("--speculative-config") + 1] == '{"method":"mtp","num_speculative_tokens":1}'
    assert found.values["env"] == {"VLLM_LOGGING_LEVEL": "INFO", "A": "1", "B": "2"}
    assert "NCCL_SOCKET_IFNAME" in " ".join(found.said)


def test_several_nodes_take_their_strategy_whose_hardware_replaces_the_recipes() -> None:
    found = imported(OFFICIAL, None, 2)
    words = words_of(found)
    assert (found.values["model"], found.values["min_nodes"]) == ("org/Made-Up-80B", 2)
    assert words[words.index("--max-num-seqs") + 1] == "32"
    assert "--attention-backend" not in words
    assert "--async-scheduling" in words


@pytest.mark.parametrize(("text", "nodes"), [(OFFICIAL, None), (OFFICIAL, 2), (PROFILE, None)])
def test_what_is_imported_is_a_recipe_of_ours_that_renders(text: str, nodes: int | None) -> None:
    found = imported(text, None, nodes)
    recipe = load_model_recipe(recipe_text(found, "theirs.yaml"), "x.yaml")
    assert recipe.issues == ()
    assert recipe.format == "gb10"
    assert "theirs.yaml" in recipe_text(found, "theirs.yaml")
    assert own_section(recipe).sources
    hosts = tuple(f"spark{number}" for number in range(nodes or (4 if text == PROFILE else 1)))
    rendered = render_recipe(recipe, RenderRequest(nodes=hosts))
    assert rendered.script
    assert [issue for issue in rendered.issues if issue.level != "note"] == []


def test_a_profile_of_ansible_is_a_server_of_sglang() -> None:
    found = imported(PROFILE)
    words = words_of(found)
    assert words[:3] == ["python3", "-m", "sglang.launch_server"]
    assert words[words.index("--tp-size") + 1] == "{tensor_parallel}"
    assert words[words.index("--speculative-algorithm") + 1] == "NEXTN"
    assert {"--trust-remote-code", "--moe-runner-backend"} <= set(words)
    assert not {"--disable-cuda-graph", "--mm-attention-backend"} & set(words)
    assert found.values["env"] == {"SGLANG_ENABLE_SPEC_V2": "1", "SGLANG_ENABLE_JIT_DEEPGEMM": "0"}
    assert "nccl_transport" in found.said[0]


@pytest.mark.parametrize(
    ("text", "variant", "nodes", "features", "reason"),
    [
        (OFFICIAL, "int4", None, (), "no variant 'int4'"),
        (OFFICIAL, None, None, ("speed",), "no feature 'speed'"),
        (OFFICIAL.replace("170", "9000").replace("90", "9000").replace("50", "9000"), None, None, (), "fits up to 8"),
        (PROFILE, None, 2, (), "for 4 nodes"),
        (PROFILE, "org/other", None, (), "1 models"),
        ("model: a/b\ncommand: vllm serve a/b\n", None, None, (), "a model recipe already"),
        ("a: 1\n", None, None, (), "none of the forms"),
        ("a: [", None, None, (), "not YAML"),
    ],
)
def test_what_becomes_no_recipe_has_one_reason(
    text: str, variant: str | None, nodes: int | None, features: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        imported(text, variant, nodes, *features)


def test_the_image_is_ours_of_the_locked_release() -> None:
    assert engine_of_form(OFFICIAL, "x") == "vllm"
    assert image_of("vllm").startswith("gb10/vllm:0.")
    assert image_of("sglang").endswith("-cu130-sm121f")


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object], str]:
    """Exit code, the imported recipe and what was said."""
    code = main(["recipe", "import", *arguments])
    out, err = capsys.readouterr()
    return code, yaml.safe_load(out) if code == 0 else {}, err


@pytest.mark.parametrize(
    ("file", "options", "image", "releases"),
    [
        ("profile", (), image_of("sglang"), None),
        ("profile", ("--release", "0.5.10"), image_of("sglang", "0.5.10"), "==0.5.10"),
        ("profile", ("--image", "docker.io/x/sglang:0.5.10"), "docker.io/x/sglang:0.5.10", "==0.5.10"),
        (
            "profile",
            ("--image", f"x.io/y@sha256:{'0' * 64}", "--release", "0.5.11"),
            f"x.io/y@sha256:{'0' * 64}",
            "==0.5.11",
        ),
        ("official", (), image_of("vllm"), ">=0.30.0"),
        ("official", ("--release", "0.32.0"), image_of("vllm", "0.32.0"), ">=0.30.0"),
        (
            "official",
            ("--image", "docker.io/vllm/vllm-openai:v0.31.0"),
            "docker.io/vllm/vllm-openai:v0.31.0",
            ">=0.30.0",
        ),
    ],
)
def test_an_image_and_a_release_count_where_the_file_names_none(
    file: str, options: tuple[str, ...], image: str, releases: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = command(capsys, str(DATA / f"{file}.yaml"), *options)
    section = found["gb10"]
    assert (code, found["container"]) == (0, image)
    assert isinstance(section, dict)
    assert section.get("releases") == releases


def test_a_file_that_names_its_image_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name of Docker Hub gets its registry, since `run` pulls no other."""
    file = tmp_path / "profile.yml"
    text = PROFILE.replace(
        "    tp_size: 4\n", "    tp_size: 4\n    sglang_image: xomoxcc/dgx-spark-sglang:0.5.10-cudnn\n"
    )
    file.write_text(text, encoding="utf-8")
    for options in (("--image", "x.io/y:0.5.23"), ("--release", "0.5.23")):
        code, found, said = command(capsys, str(file), *options)
        assert (code, found["container"]) == (0, "docker.io/xomoxcc/dgx-spark-sglang:0.5.10-cudnn")
        assert f"{options[0]} is for a file that names n" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--image", "A b"), "not an image reference"),
        (("--release", "newest"), "'newest' is no release"),
        (("--image", "x.io/y:0.32.0", "--release", "0.33.0"), "x.io/y:0.32.0 is of 0.32.0, and --release is 0.33.0"),
        (("--release", "0.20.0"), "it needs vLLM 0.30.0"),
        (("--image", "docker.io/vllm/vllm-openai:v0.20.0"), "it needs vLLM 0.30.0"),
    ],
)
def test_an_image_or_a_release_that_cannot_be_is_refused(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, text = command(capsys, str(DATA / "official.yaml"), *options)
    assert code == 2
    assert said in text


def test_an_image_that_no_node_can_pull_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, str(DATA / "official.yaml"), "--image", "me/vllm:0.33.0")[2]
    assert "me/vllm:0.33.0 names no registry" in said
    assert (
        "./build.py image --engine vllm --ref vllm=0.32.0"
        in command(capsys, str(DATA / "official.yaml"), "--release", "0.32.0")[2]
    )


def test_lint_knows_the_release_of_a_recipe_that_is_for_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "import", str(DATA / "profile.yaml"), "--image", BY_DIGEST, "--release", "0.5.11"]) == 0
    case = lint_case(load_model_recipe(capsys.readouterr().out, "x.yaml"), {"sglang": "0.5.23"})
    assert (case.release, case.unknown) == ("0.5.11", "")
