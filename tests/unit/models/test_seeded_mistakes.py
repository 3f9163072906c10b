"""Mistakes of every kind that the field makes, one in each recipe: all are caught, with a line and a fix.

``level``: what stops a rendering or an image is an error; what is only unwise is a warning.
"""

from pathlib import Path

import pytest

from gb10.image.request.recipe_mods import linted, load_file
from gb10.models.issue import Issue, errors_of
from gb10.models.lint.rule import load_rules
from gb10.models.registries.recipe_file import RecipeFile, models_folder

FIRST = """\
name: Made up
recipe_version: "1"
model: org/m
container: vllm/vllm-openai:v0.33.0
mods: [mods/there]
env:
  OMP_NUM_THREADS: "4"
defaults: {port: 8000, tensor_parallel: 1, gpu_memory_utilization: 0.8}
command: |
  vllm serve org/m --port {port} --revision main \\
    -tp {tensor_parallel} --gpu-memory-utilization {gpu_memory_utilization} \\
    --max-num-seqs 8
"""
SECOND = """\
recipe_version: "2"
model: org/m
model_revision: "0123456789"
runtime: sglang
container: x/sglang:0.5.10
defaults: {port: 30000, tensor_parallel: 2}
min_nodes: 2
max_nodes: 4
command: |
  python3 -m sglang.launch_server --model-path {model} --port {port} --tp-size {tensor_parallel} \\
    --mem-fraction-static 0.7 --revision {model_revision}
"""
SEEDS: dict[str, tuple[str, str, str, str]] = {
    "a misspelt key": (FIRST, "container:", "contaner:", "misspelt-key"),
    "a key twice": (FIRST, "model: org/m", "model: org/m\nmodel: org/n", "duplicate-key"),
    "a placeholder without a value": (FIRST, "{port}", "{prot}", "missing-placeholder"),
    "{model} in version 1": (FIRST, "serve org/m", "serve {model}", "missing-placeholder"),
    "a placeholder without a name": (FIRST, "{port}", "{}", "positional-placeholder"),
    "a single brace": (FIRST, "--max-num-seqs 8", "--json '{\"a\": 1'", "stray-brace"),
    "both only-flags": (FIRST, "mods:", "solo_only: true\ncluster_only: true\nmods:", "both-only-flags"),
    "a mod that is nowhere": (FIRST, "mods/there", "mods/gone", "missing-mod"),
    "a quotation mark in a variable": (FIRST, '"4"', "'a \"b\"'", "quote-in-env"),
    "a blank after a backslash": (FIRST, "main \\\n", "main \\ \n", "blank-after-backslash"),
    "a section of a wrong type": (FIRST, 'env:\n  OMP_NUM_THREADS: "4"', "env: [A=1]", "wrong-type"),
    "a tab that is no YAML": (FIRST, "mods: [mods/there]", "mods:\n\t- x", "not-yaml"),
    "an option that is gone": (FIRST, "--max-num-seqs 8", "--max-seq-len-to-capture 8192", "unknown-option"),
    "a misspelt option": (FIRST, "--max-num-seqs", "--max-num-seq-s", "unknown-option"),
    "a value that is no choice": (FIRST, "--max-num-seqs 8", "--moe-backend fastest", "wrong-choice"),
    "a misspelt key in JSON": (
        FIRST,
        "--max-num-seqs 8",
        '--speculative-config \'{{"metod": "mtp"}}\'',
        "unknown-json-key",
    ),
    "a variable that is gone": (FIRST, "OMP_NUM_THREADS", "VLLM_NVFP4_GEMM_BACKEND", "moved-linear-backend"),
    "a graph below the batch": (FIRST, "seqs 8", "seqs 8 --max-cudagraph-capture-size 4", "graph-smaller-than-batch"),
    "no share of the memory": (FIRST, "--gpu-memory-utilization {gpu_memory_utilization}", "", "memory-share-missing"),
    "the whole memory": (
        FIRST,
        "gpu_memory_utilization: 0.8",
        "gpu_memory_utilization: 0.95",
        "memory-share-too-large",
    ),
    "more GPUs than nodes": (SECOND, "min_nodes: 2\nmax_nodes: 4", "max_nodes: 1", "too-many-nodes"),
    "fewer GPUs than nodes": (SECOND, "min_nodes: 2", "min_nodes: 3", "parallel-sizes"),
    "another model": (FIRST, "serve org/m", "serve org/n", "other-model-served"),
    "a default that nobody reads": (FIRST, "{port: 8000", "{max_model_length: 1, port: 8000", "unused-default"),
    "a token": (FIRST, 'OMP_NUM_THREADS: "4"', "HF_TOKEN: hf_abcdefghijklmnopqrstuv", "secret-in-env"),
    "an address of one machine": (FIRST, 'OMP_NUM_THREADS: "4"', "VLLM_HOST_IP: 192.168.0.7", "address-in-env"),
    "a rendezvous in the command": (FIRST, "--max-num-seqs 8", "--master-port 29501", "rendezvous-in-command"),
    "a template that is nowhere": (FIRST, "mods: [mods/there]", "mods: []", "chat-template-missing"),
    "a moving tag": (FIRST, ":v0.33.0", ":latest", "moving-tag"),
    "a version that is none": (SECOND, '"2"', '"4"', "recipe-version"),
    "a key that is not supported": (SECOND, "min_nodes: 2", "include: other", "not-supported"),
    "node counts that exclude each other": (SECOND, "max_nodes: 4", "max_nodes: 1", "wrong-node-count"),
    "no runtime of that name": (SECOND, "runtime: sglang", "runtime: sgland", "unknown-runtime"),
    "a model that is missing": (SECOND, "model: org/m\n", "", "missing-key"),
    "NVFP4 by Triton": (SECOND, "x/sglang:0.5.10", "x/sglang:0.5.23", "nvfp4-runner"),
    "an attention backend of a fork": (FIRST, "seqs 8", "seqs 8 --attention-backend B12X_MLA_SPARSE", "wrong-choice"),
    "a parser with a dash": (FIRST, "seqs 8", "seqs 8 --tool-call-parser qwen3-coder", "wrong-choice"),
    "a type that is none": (FIRST, "seqs 8", "seqs 8 --dtype bf16", "wrong-choice"),
    "a method of drafts that is none": (
        FIRST,
        "seqs 8",
        'seqs 8 --speculative-config \'{{"method": "eagel3"}}\'',
        "wrong-choice",
    ),
    "JSON without quotation marks": (FIRST, "seqs 8", "seqs 8 --speculative-config '{{method: mtp}}'", "broken-json"),
    "a size in words": (FIRST, "seqs 8", "seqs eight", "wrong-number"),
    "a share in per cent": (FIRST, "utilization: 0.8", "utilization: 80", "wrong-number"),
    "an empty variable": (FIRST, 'OMP_NUM_THREADS: "4"', 'FLASHINFER_CUDA_ARCH_LIST: ""', "empty-variable"),
    "a switch in words": (FIRST, 'OMP_NUM_THREADS: "4"', 'VLLM_BATCH_INVARIANT: "yes"', "wrong-variable"),
    "an open quotation mark": (FIRST, "seqs 8", "seqs 8 --served-model-name 'mine", "open-quote"),
    "a comment between the lines": (
        FIRST,
        "    --max-num-seqs 8",
        "    # more \\\n    --max-num-seqs 8",
        "comment-in-command",
    ),
    "a backslash that is missing": (
        FIRST,
        "{gpu_memory_utilization} \\",
        "{gpu_memory_utilization}",
        "unfinished-line",
    ),
    "an option twice": (FIRST, "seqs 8", "seqs 8 --max-num-seqs 16", "option-twice"),
    "a value that is missing": (FIRST, "--max-num-seqs 8", "--max-num-seqs --revision x", "missing-value"),
    "the other engine's value": (SECOND, "0.7", "0.7 --attention-backend FLASHINFER", "wrong-choice"),
    "an FP8 cache on an unpatched release": (SECOND, "0.7", "0.7 --kv-cache-dtype fp8_e4m3", "fp8-cache-graphs"),
    "experts in parallel on an unpatched release": (
        SECOND,
        "0.7",
        "0.7 --ep-size 2",
        "cutlass-experts-parallel-sglang",
    ),
}
MORE = {
    "a template that is nowhere": ("--max-num-seqs 8", "--chat-template fixed.jinja"),
    "NVFP4 by Triton": ("--mem-fraction-static 0.7", "--mem-fraction-static 0.7 --moe-runner-backend triton"),
    "experts in parallel on an unpatched release": (
        "--ep-size 2",
        "--ep-size 2 --moe-runner-backend flashinfer_cutlass",
    ),
}
"""What a seed changes beside its mistake."""


def found(text: str, folder: Path) -> tuple[Issue, ...]:
    (folder / "mods/there").mkdir(parents=True, exist_ok=True)
    (folder / "recipes").mkdir(exist_ok=True)
    path = folder / "recipes/x.yaml"
    path.write_text(text, encoding="utf-8")
    return linted(RecipeFile(path), load_rules()).issues


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_mistake_is_caught(seed: str, tmp_path: Path) -> None:
    clean, old, new, code = SEEDS[seed]
    assert old in clean
    text = clean.replace(old, new, 1)
    if seed in MORE:
        assert MORE[seed][0] in text
        text = text.replace(*MORE[seed], 1)
    if seed == "NVFP4 by Triton":
        text = text.replace("org/m", "org/m-NVFP4")
    issues = [issue for issue in found(text, tmp_path) if issue.code == code]
    assert issues, [issue.code for issue in found(text, tmp_path)]
    assert issues[0].fix
    assert issues[0].line or code == "missing-key"


def test_there_are_more_kinds_than_the_peers_know() -> None:
    assert len(SEEDS) >= 24
    assert len({code for _, _, _, code in SEEDS.values()}) >= 24


@pytest.mark.parametrize("clean", [FIRST, SECOND])
def test_the_clean_recipes_have_no_error_and_no_warning(clean: str, tmp_path: Path) -> None:
    assert [issue.text for issue in found(clean, tmp_path) if issue.level != "note"] == []


def test_our_recipes_have_no_error() -> None:
    rules = load_rules()
    for path in sorted(models_folder().glob("*.yaml")):
        assert errors_of((*load_file(RecipeFile(path)).issues, *linted(RecipeFile(path), rules).issues)) == (), (
            path.name
        )
