"""What a model recipe needs of an image: each kind of recipe is a request, or one sentence why not."""

import re
from pathlib import Path

import pytest
import yaml

from gb10.errors import UsageError
from gb10.image.mods.declaration import community_mods
from gb10.image.mods.read import mod_names
from gb10.image.plan.catalog import ROOT
from gb10.image.request.from_model_recipe import with_model_recipe
from gb10.image.request.planning import Request
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import own_section
from gb10.models.needs.image_need import ImageNeed, image_need
from gb10.models.registries.recipe_file import RecipeFile, models_folder

ASKED = Request(engine="vllm", arch="12.1f", kernels="core")
VLLM = "vllm serve org/m --port 1"
SGLANG = "sglang serve --model-path org/m"


def need(command: object = VLLM, **keys: object) -> ImageNeed:
    return image_need(load_model_recipe(text_of(command=command, **keys), "x.yaml"))


def text_of(**keys: object) -> str:
    values = {"recipe_version": "1", "name": "x", "model": "org/m", "container": "vllm-node", "command": VLLM, **keys}
    return yaml.safe_dump(values)


@pytest.mark.parametrize(
    ("keys", "engine", "refs", "said"),
    [
        ({}, "vllm", {}, "vllm-node is no release: the newest release of vLLM"),
        ({"container": "ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest"}, "vllm", {}, "newest release"),
        ({"container": "vllm/vllm-openai:nightly"}, "vllm", {}, "newest release"),
        ({"container": "nvcr.io/nvidia/vllm:26.07-py3"}, "vllm", {}, "newest release"),
        ({"container": "my-tag", "build_args": ["--tf5"]}, "vllm", {}, "its own transformers"),
        ({"build_args": ["--rebuild-vllm", "-j", "8", "--full-log"]}, "vllm", {}, "add --rebuild vllm"),
        ({"container": "vllm/vllm-openai:v0.27.1-aarch64"}, "vllm", {"vllm": "0.27.1"}, ""),
        ({"build_args": ["--vllm-ref", "v0.31.0"]}, "vllm", {"vllm": "0.31.0"}, ""),
        ({"build_args": ["--vllm-ref=main", "--flashinfer-ref v0.7.1"]}, "vllm", {"flashinfer": "0.7.1"}, "main"),
        ({"container": "vllm-node:nightly-20260807"}, "vllm", {}, "a build of 2026-08-07"),
        ({"container": "vllm-node-b12x"}, "vllm", {}, "b12x: the release's own kernels"),
        ({"build_args": ["--exp-b12x"], "env": {"VLLM_USE_B12X_MOE": 1}}, "vllm", {}, "read by a fork"),
        ({"container": "gb10/vllm:0.33.0-cu130-sm121f"}, "vllm", {"vllm": "0.33.0"}, ""),
        ({"command": SGLANG, "container": "lmsysorg/sglang:v0.5.10"}, "sglang", {"sglang": "0.5.10"}, ""),
        ({"command": SGLANG, "container": "lmsysorg/sglang:latest"}, "sglang", {}, "newest release of SGLang"),
        (
            {"build_args": ["--torch-version", "2.13.0", "--apply-preset-vllm-prs"]},
            "vllm",
            {},
            "the lock of the release",
        ),
    ],
)
def test_a_kind_of_recipe_is_a_request(keys: dict[str, object], engine: str, refs: dict[str, str], said: str) -> None:
    found = need(**keys)
    assert (found.engine, found.refs) == (engine, refs)
    assert said in " ".join(found.said)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"build_args": ["--vllm-ref", "e1b8dcd"]}, "which moves"),
        ({"build_args": ["--vllm-ref", "some-branch"]}, "vllm=git:https://github.com/vllm-project/vllm@COMMIT"),
        ({"build_args": ["--vllm-repo", "https://example.org/a/vllm", "--vllm-ref", "v0.33.0"]}, "of the fork"),
        ({"build_args": ["--exp-mxfp4"]}, "fork of vLLM for MXFP4"),
        ({"command": f"{VLLM} --mxfp4-backend CUTLASS"}, "gpt-oss-120b"),
        ({"container": "vllm-node-mxfp4"}, "MXFP4"),
        ({"command": f"{VLLM} --load-format b12x"}, "in no release of vLLM"),
        ({"command": f"{VLLM} --attention-backend B12X_MLA_SPARSE"}, "B12X_MLA_SPARSE"),
        ({"build_args": ["--vllm-repo", "https://example.org/a/vllm"]}, "of the fork https://example.org/a/vllm"),
        ({"build_args": ["--vllm-repo", "ext::sh -c x"]}, "no counterpart"),
        ({"container": "ghcr.io/somebody/theirs:1"}, "finished image"),
        ({"runtime": "trtllm-distributed"}, "TensorRT-LLM"),
        ({"runtime": "ds4-cuda"}, "its runtime is 'ds4-cuda'"),
        ({"container": f"vllm-node@sha256:{'0' * 64}"}, "by digest"),
        ({"container": "vllm/vllm-openai:v0.20.0", "command": SGLANG}, "its command starts sglang"),
        ({"command": "trtllm-serve org/m"}, "NVIDIA's own container"),
        ({"command": "llama-server -hf org/m"}, "llama.cpp"),
        ({"runtime": "atlas"}, "Atlas"),
        ({"runtime": "tokenary"}, "tokenary"),
        ({"runtime": "modular-max"}, "Modular MAX"),
        ({"build_args": ["-f", "Dockerfile.other"]}, "no counterpart"),
        ({"build_args": ["--apply-vllm-pr", "main"]}, "no pull request"),
    ],
)
def test_what_cannot_be_built_is_one_sentence(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)) as error:
        need(**keys)
    assert error.value.hint
    assert "\n" not in error.value.message


def test_pull_requests_are_named_with_their_source() -> None:
    texts = ["--apply-vllm-pr", "40898", "--apply-flashinfer-pr https://github.com/flashinfer-ai/flashinfer/pull/3989"]
    assert need(build_args=texts).pulls == (("vllm", 40898), ("flashinfer", 3989))
    assert need(build_args=["--vllm-ref", "refs/pull/41834/head"]).pulls == (("vllm", 41834),)


def test_a_commit_is_built_of_its_own_repository() -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    found = need(build_args=[f"--vllm-ref={commit}"])
    assert found.sources == (f"vllm=git:https://github.com/vllm-project/vllm@{commit}",)
    fork = need(build_args=["--vllm-ref", commit, "--vllm-repo", "https://github.com/somebody/vllm.git"])
    assert fork.sources == (f"vllm=git:https://github.com/somebody/vllm@{commit}",)
    assert fork.refs == {}


def test_the_kernels_are_the_models_and_a_path_has_none() -> None:
    assert need(model_revision="abc").model == "org/m@abc"
    assert need().model == "org/m"
    assert need(model="/models/m").model is None


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("mine", "drop-caches"):
        (tmp_path / "mods" / name).mkdir(parents=True)
        (tmp_path / "mods" / name / "run.sh").write_text("#!/bin/bash\n", encoding="ascii")
    (tmp_path / "recipes").mkdir()
    return tmp_path


def written(checkout: Path, **keys: object) -> Path:
    path = checkout / "recipes/x.yaml"
    path.write_text(text_of(**keys), encoding="utf-8")
    return path


def test_mods_are_ours_by_their_community_names_skipped_with_a_reason_or_beside_the_recipe(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mods = ["mods/fix-qwen3.5-chat-template", "mods/fix-qwen3.5-autoround", "mods/drop-caches", "mods/mine"]
    asked = with_model_recipe(ASKED, RecipeFile(written(checkout, mods=mods)), print)
    assert asked.mods == ("qwen3.5-chat-template", str(checkout / "mods/mine"))
    said = capsys.readouterr().out
    assert "fix-qwen3.5-autoround is left out: already upstream" in said
    assert "drop-caches is left out: it starts a loop" in said


def test_a_mod_that_is_nowhere_is_an_error(checkout: Path) -> None:
    with pytest.raises(UsageError, match="neither beside the recipe nor one of ours"):
        with_model_recipe(ASKED, RecipeFile(written(checkout, mods=["@other/gone"])), print)


def test_a_pull_request_is_a_file_of_the_checkout_or_its_address(checkout: Path) -> None:
    asked = with_model_recipe(ASKED, RecipeFile(written(checkout, build_args=["--apply-vllm-pr", "40898"])), print)
    assert asked.patches == ("vllm=https://github.com/vllm-project/vllm/pull/40898.diff",)


def test_the_users_own_options_win(checkout: Path) -> None:
    path = written(checkout, container="vllm/vllm-openai:v0.27.1")
    asked = with_model_recipe(
        Request(engine="vllm", arch="12.1f", refs={"vllm": "0.28.0"}, model="my/m"), RecipeFile(path), print
    )
    assert (asked.refs, asked.model) == ({"vllm": "0.28.0"}, "my/m")
    said = list[str]()
    own = with_model_recipe(Request(engine="vllm", arch="12.1f", model="my/m"), RecipeFile(path), said.append)
    assert own.model == "my/m"
    assert not any("org/m" in line for line in said)
    with pytest.raises(UsageError, match="is for vllm"):
        with_model_recipe(Request(engine="sglang", arch="12.1f"), RecipeFile(path), print)


def test_a_recipe_with_a_mistake_gets_no_image(checkout: Path) -> None:
    with pytest.raises(UsageError, match="not rendered: 1 error"):
        with_model_recipe(ASKED, RecipeFile(written(checkout, comand="x")), print)


@pytest.mark.parametrize("path", sorted(models_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_our_recipes_ask_for_the_release_that_they_name(path: Path) -> None:
    recipe = load_model_recipe(path.read_text(encoding="utf-8"), str(path))
    if own_section(recipe).engine in ("trtllm", "llama-cpp"):
        with pytest.raises(UsageError, match="gb10 builds vLLM and SGLang"):
            with_model_recipe(ASKED, RecipeFile(path), print)
        return
    asked = with_model_recipe(ASKED, RecipeFile(path), print)
    assert asked.refs == {}
    assert asked.engine == ("sglang-0.5.10" if "0.5.10" in path.stem else "sglang" if "sglang" in path.stem else "vllm")
    assert ("b12x" in asked.without) == (asked.engine == "vllm" and "b12x" not in path.read_text(encoding="utf-8"))


def test_the_table_of_community_mods_names_mods_of_ours() -> None:
    table = community_mods(ROOT / "mods")
    assert {mod.ours for mod in table.values() if mod.ours} <= set(mod_names(ROOT / "mods"))
    assert not set(table) & set(mod_names(ROOT / "mods"))
    assert table["exp-b12x"].holds("vllm", "0.33.0")
    assert not table["exp-b12x"].holds("vllm", "0.32.0")
    assert not table["exp-b12x"].holds("sglang", "0.5.23")


def test_the_words_of_a_recipe_are_all_that_may_name_kernels() -> None:
    found = need(f"{VLLM} --kv-cache-dtype nvfp4", env={"VLLM_USE_B12X_MOE": 1}, defaults={"backend": "flashinfer"})
    assert found.words.split() == [
        *VLLM.split(), "--kv-cache-dtype", "nvfp4", "VLLM_USE_B12X_MOE", "flashinfer",
    ]  # fmt: skip
