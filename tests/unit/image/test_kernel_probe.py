"""Which modules a source of FlashInfer can make, read from Python files like its own."""

from pathlib import Path

import pytest

from gb10.image.patches.source_tree import Folder
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.kernel_sets import content, read_sets
from gb10.image.request.kernel_probe import find_function, flaws_of, without

FILES = {
    "flashinfer/jit/__init__.py": "from .norm import gen_norm_module as gen_norm\nfrom .round import *\n",
    "flashinfer/jit/norm.py": "def gen_norm_module():\n    return gen_jit_spec('norm', [])\n",
    "flashinfer/jit/acts.py": "def gen_act(name: str, fast=False):\n    return gen_jit_spec(f'{name}_and_mul', [])\n",
    "flashinfer/jit/more.py": "def gen_more():\n    log.note('b')\n    log('c')\n    return gen_jit_spec('more', [])\n",
    "flashinfer/jit/round.py": "from .about import gen_lost\n",
    "flashinfer/jit/about.py": "from .round import gen_lost\n",
    "flashinfer/jit/broken.py": "def gen_broken(:\n",
    "flashinfer/jit/attention/__init__.py": "from ..norm import gen_norm_module\nfrom .mla import gen_mla\n",
    "flashinfer/jit/attention/mla.py": "async def gen_mla(*sizes): ...\n",
    "flashinfer/aot.py": "def gen_all_modules(one, two, three): ...\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Folder:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Folder(tmp_path)


@pytest.mark.parametrize(
    ("factory", "name"),
    [
        ("flashinfer.jit.norm:gen_norm_module", "gen_norm_module"),
        ("flashinfer.jit:gen_norm", "gen_norm_module"),
        ("flashinfer.jit.attention:gen_norm_module", "gen_norm_module"),
        ("flashinfer.jit.attention:gen_mla", "gen_mla"),
        ("flashinfer.jit.norm:gen_other", None),
        ("flashinfer.jit.nothing:gen_norm_module", None),
        ("flashinfer.jit.broken:gen_broken", None),
        ("flashinfer.jit:gen_lost", None),  # two files import it from each other
    ],
)
def test_a_factory_is_found_where_it_is_defined(tree: Folder, factory: str, name: str | None) -> None:
    found = find_function(tree, factory)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"name": "norm", "factory": "flashinfer.jit.norm:gen_norm_module"}, ""),
        ({"name": "layernorm", "factory": "flashinfer.jit.norm:gen_norm_module"}, "gen_norm_module makes norm"),
        ({"name": "b", "factory": "flashinfer.jit.more:gen_more"}, "gen_more makes more"),
        ({"name": "silu_and_mul", "factory": "flashinfer.jit.acts:gen_act", "arguments": ["silu"]}, ""),
        ({"name": "x", "factory": "flashinfer.jit.acts:gen_act"}, "gen_act takes 1 to 2 arguments, the set gives 0"),
        (
            {"name": "norm", "factory": "flashinfer.jit.norm:gen_norm_module", "arguments": [1]},
            "gen_norm_module takes 0 arguments, the set gives 1",
        ),
        ({"name": "mla", "factory": "flashinfer.jit.attention:gen_mla", "arguments": [1, 2, 3]}, ""),
        ({"name": "all", "factory": "flashinfer.aot:gen_all_modules"}, ""),
        ({"name": "topk", "factory": "flashinfer.jit.topk:gen_topk"}, "flashinfer.jit.topk has no gen_topk"),
    ],
)
def test_why_a_module_cannot_be_made(tree: Folder, entry: dict[str, object], why: str) -> None:
    assert dict(flaws_of(tree, {"module": [entry]})) == ({str(entry["name"]): why} if why else {})


def test_a_set_without_what_a_release_lacks(tree: Folder) -> None:
    kernels = {
        "name": "core",
        "flashinfer": ["9.9"],
        "module": [
            {"name": "norm", "factory": "flashinfer.jit.norm:gen_norm_module"},
            {"name": "topk", "factory": "flashinfer.jit.topk:gen_topk"},
        ],
        "without": {"flashinfer.jit.topk:gen_slow": "slow", "flashinfer.jit.norm:gen_norm_module": "twice"},
    }
    made = without(tree, kernels, dict(flaws_of(tree, kernels)), "0.6.18")
    assert [entry["name"] for entry in made["module"]] == ["norm"]
    assert (made["flashinfer"], made["without"]) == (["0.6.18"], {"flashinfer.jit.norm:gen_norm_module": "twice"})


def test_a_whole_set_has_the_content_that_keys_know(tree: Folder) -> None:
    """The wheel of a release that was probed is the wheel of the same release once it is listed."""
    files = sorted((ROOT / "recipes/kernels").glob("flashinfer-*.toml"))
    for name, kernels in read_sets({f"kernels/{path.name}": path.read_bytes() for path in files}).items():
        if not kernels.get("without"):
            assert content(without(tree, kernels, {}, "0.6.18")) == content(kernels), name
