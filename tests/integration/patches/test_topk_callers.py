"""Which top-k of FlashInfer the engines call: the kernel set `core` has plain top-k alone.

When a release calls another one, the test fails: then the set must hold it, or docs/kernels.md must name its option.
"""

import ast
import functools
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from tests.integration.patches.releases import after_series, opened

pytestmark = pytest.mark.integration

CORE = tomllib.loads((Path(__file__).parents[3] / "recipes/kernels/flashinfer-core.toml").read_text(encoding="utf-8"))
ASKED = [(engine, version) for engine, versions in CORE["asked"].items() for version in versions]
PLAIN = "top_k"
OTHERS = ("top_k_page_table_transform", "top_k_ragged_transform", "topk_varlen", "get_topk_module")
BY_OPTION = {
    # --kernel-config of vllm serve: sparse_indexer_topk_backend, "auto" without it
    "vllm": {"vllm/model_executor/layers/indexer_topk.py": {"top_k_ragged_transform"}},
    "sglang": {
        # --dsa-topk-backend flashinfer: plain top-k there is neither sorted nor deterministic
        "sglang/srt/layers/attention/dsa/dsa_topk_backend.py": {PLAIN, *OTHERS[:2]},
        "sglang/srt/layers/attention/dsv4/indexer.py": {PLAIN, "top_k_page_table_transform"},
        # --enable-deterministic-inference
        "sglang/srt/layers/attention/qsa/kernel.py": {"top_k_ragged_transform"},
    },
}
"""Where an engine calls what is left out, and which option leads there."""
SORTED = {
    "vllm": {"vllm/model_executor/layers/logits_processor.py"},
    "sglang": {
        "sglang/srt/models/dflash.py",
        "sglang/srt/speculative/uno_utils.py",
        "sglang/kernels/ops/speculative/uno_tree.py",
    },
}
"""Where it calls plain top-k, always sorted: FlashInfer then takes its radix kernels, never CUB's."""


def taken_from_flashinfer(source: bytes) -> set[str]:
    """The top-k functions that a file imports from FlashInfer, or names as its attributes."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flashinfer":
            found |= {name.name for name in node.names}
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).partition(".")[0] == "flashinfer":
            found.add(node.attr)
    return found & {PLAIN, *OTHERS}


@pytest.mark.parametrize(("engine", "version"), ASKED)
def test_an_engine_calls_no_other_top_k_than_the_set_holds(engine: str, version: str) -> None:
    tree, callers = opened(engine, version).tree, {}
    for path in tree.paths():
        if path.startswith(f"{engine}/") and path.endswith(".py"):
            source = tree.read(path) or b""
            if b"flashinfer" in source and (taken := taken_from_flashinfer(source)):
                callers[path] = taken
    assert callers == {**BY_OPTION[engine], **{path: {PLAIN} for path in SORTED[engine]}}


@pytest.mark.parametrize(("engine", "version"), ASKED)
def test_plain_top_k_is_asked_for_sorted(engine: str, version: str) -> None:
    for path in SORTED[engine]:
        calls = [
            {word.arg: ast.unparse(word.value) for word in node.keywords}
            for node in ast.walk(ast.parse(opened(engine, version).tree.read(path) or b""))
            if isinstance(node, ast.Call) and {"sorted", "deterministic"} <= {word.arg for word in node.keywords}
        ]
        assert [words["sorted"] for words in calls] == ["True"], path


def test_sorted_calls_take_no_kernels_of_cub_and_no_clusters_on_12_x() -> None:
    tree = ast.parse(after_series("flashinfer", CORE["flashinfer"][-1], "flashinfer/topk.py"))
    own = {node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "if sorted_output or deterministic:\n        return False" in own["can_use_cub_topk"]
    assert "cap[0] == 10" in own["can_use_clusters_topk"]
    assert "can_use_cub_topk(algo, input, tie_break, deterministic, sorted)" in own["top_k"]


def test_every_function_of_the_bindings_is_called_by_its_own_module() -> None:
    source = after_series("flashinfer", CORE["flashinfer"][-1], "flashinfer/topk.py")
    bindings = {
        "gen_topk_module": "flashinfer_topk_binding.cu",
        "gen_topk_transform_module": "flashinfer_topk_transform_binding.cu",
        "gen_topk_cub_module": "flashinfer_cub_topk_binding.cu",
    }
    for module, binding in bindings.items():
        text = after_series("flashinfer", CORE["flashinfer"][-1], f"csrc/{binding}")
        names = [line.partition("(")[2].partition(",")[0] for line in text.splitlines() if "EXPORT_TYPED" in line]
        assert names
        for name in names:
            assert f"({module}).{name}(" in source or f'call({module}, "{name}")' in " ".join(source.split()), name


def test_only_the_module_of_the_called_backend_is_loaded() -> None:
    """The release's own function, over modules that only remember that they were loaded."""
    made = ast.parse(after_series("flashinfer", CORE["flashinfer"][-1], "flashinfer/topk.py"))
    functions = [
        node
        for node in made.body
        if isinstance(node, ast.FunctionDef) and node.name in ("_load_topk_module", "get_topk_module")
    ]
    loaded: list[str] = []

    def factory(name: str) -> Callable[[], SimpleNamespace]:
        def load() -> SimpleNamespace:
            loaded.append(name)
            return SimpleNamespace(can_implement_filtered_topk=lambda: False, cub_topk_workspace_size=lambda *_: 7)

        return lambda: SimpleNamespace(build_and_load=load)

    words = ("", "_transform", "_cub", "_clusters")
    names: dict[str, Any] = {
        **{f"gen_topk{word}_module": factory(f"topk{word}") for word in words},
        **dict.fromkeys(("register_custom_op", "register_fake_op"), lambda *_, **__: lambda function: function),
        "functools": functools,
        "torch": SimpleNamespace(Tensor=object),
        "Optional": Optional,
        "SimpleNamespace": SimpleNamespace,
    }
    exec(ast.unparse(ast.Module(list(functions), [])), names)  # noqa: S102 - it is pinned by its sha256
    module = names["get_topk_module"]()
    assert loaded == []
    assert module.can_implement_filtered_topk() is False
    assert loaded == ["topk"]
    assert [module.cub_topk_workspace_size(None, 1, 0) for _ in range(2)] == [7, 7]
    assert loaded == ["topk", "topk_cub"]
