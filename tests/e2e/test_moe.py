"""``moe check`` against six releases: 200 mistakes on each, and every tuned file that they ship for other GPUs."""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from gb10.cli.look.moe_show import refuse
from gb10.errors import VerifyError
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import load_lock
from gb10.image.moe.compiled_rows import compile_rows
from gb10.image.moe.file_verdict import differing_verdicts, judge_batches, judge_files
from gb10.image.moe.input_files import Batch, InputFile, Sizes, input_file
from gb10.image.moe.release_lookups import Judge, open_judge
from gb10.image.moe.tuned_name import parse_tuned_name
from gb10.image.patches.release_files import Library, open_release, parse_version
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.locked import LockedWheel
from tests.integration.moe_mistakes import Laid, mistakes
from tests.integration.test_moe_lookups import FEW, bases, batch_of, differing
from tests.integration.test_moe_seed import KINDS as TYPES
from tests.integration.test_moe_seed import SHAPES, seed_of

pytestmark = pytest.mark.e2e
RELEASES = [
    ("vllm", "0.24.0"),
    ("vllm", "0.28.0"),
    ("vllm", "0.33.0"),
    ("sglang", "0.5.10"),
    ("sglang", "0.5.14"),
    ("sglang", "0.5.23"),
]


@pytest.fixture(scope="module", name="judge", params=RELEASES, ids=" ".join)
def of_a_release(ctx: Context, request: pytest.FixtureRequest) -> Judge:
    engine, version = request.param
    return open_judge(ctx, ROOT, engine, version, None)


def test_200_mistakes_and_no_disagreement(judge: Judge) -> None:
    count = -(-200 // len(list(bases(judge))))
    laid = [one for seed, base in enumerate(bases(judge)) for one in mistakes(base, count, seed)]
    assert len(laid) >= 200
    found = [verdict for (verdict,) in judge_batches(judge, [batch_of(one) for one in laid], FEW)]
    assert dict(differing(laid, found)) == {}
    kinds = Counter(verdict.verdict for verdict in found)
    assert min(kinds[kind] for kind in ("found", "not found", "raises")) >= 30
    assert all(verdict.reasons for verdict in found if verdict.verdict != "found")


def test_a_wrong_name_means_what_its_author_meant(judge: Judge) -> None:
    """The engine is asked with the right file's parameters, and finds the misnamed file just as seldom."""
    laid = [one for seed, base in enumerate(bases(judge)) for one in mistakes(base, 12, 90 + seed)]
    right = [base for base in bases(judge) for _ in range(12)]
    pairs = [
        (one, InputFile(one.path, one.path, one.content, parse_tuned_name(base.path)))
        for one, base in zip(laid, right, strict=True)
        if parse_tuned_name(one.path) is not None and not of_another_kind(one)
    ]
    own = judge_batches(judge, [batch_of(one) for one, _ in pairs], FEW)
    asked = judge_batches(judge, [Batch((given,), one.folders) for one, given in pairs], FEW)
    wrong = {
        one.label: (one.path, mine.verdict, theirs.verdict)
        for (one, _), (mine,), (theirs,) in zip(pairs, own, asked, strict=True)
        if mine.verdict != theirs.verdict
    }
    assert wrong == {}


def of_another_kind(laid: Laid) -> bool:
    """Mistakes that make a right file of another kind or GPU: the engine would find it when that one is asked for."""
    return any(word in laid.label for word in ("down", "per channel", "dtype", "device"))


def test_every_shipped_file_as_one_for_a_gb10(ctx: Context, judge: Judge) -> None:
    """Files for other GPUs, renamed: whatever the engine does with them, our rules say the same."""
    library = Library(root=ROOT / "patches", store=ctx.store, env=ctx.env, reporter=ctx.reporter)
    tree = open_release(library, load_releases(ROOT / "patches"), judge.engine, parse_version(judge.version)).tree
    names = [path for path in tree.paths() if path.endswith(".json") and parse_tuned_name(path)]
    files = [input_file(as_gb10(path), tree.read(path) or b"") for path in names]
    once = {given.path: given for given in files}
    found = judge_batches(judge, [Batch((given,), (), "image") for given in once.values()], Sizes(most=300))
    verdicts = [verdict for (verdict,) in found]
    assert len(verdicts) >= 200
    assert differing_verdicts(verdicts) == {}
    assert Counter(verdict.verdict for verdict in verdicts)["found"] >= 150


def as_gb10(path: str) -> str:
    """A path with a GB10's name in place of another GPU's."""
    name = re.sub(r"(device(?:_name)?=)[^,]*?(?=,|\.json|_down)", r"\1NVIDIA_GB10", path)
    return re.sub(r"/(?:nvidia|amd)_\w+\.json$", "/nvidia_gb10.json", name)


def test_seeds_of_all_shapes_keep_every_default_that_fits(ctx: Context, judge: Judge, tmp_path: Path) -> None:
    later = open_judge(ctx, ROOT, judge.engine, {"vllm": "0.33.0", "sglang": "0.5.23"}[judge.engine], None)
    needed = []
    for number, (shape, kind) in enumerate(itertools.product(SHAPES, TYPES)):
        _, made = seed_of(judge, later, tmp_path / str(number), shape, kind)
        assert made.differing == 0
        needed += [kind] if made.needed else []
    assert needed == ([TYPES[0]] * len(SHAPES) if judge.version == "0.5.10" else [])


TILES = [(16, 64, 128, 4, 3), (64, 128, 128, 4, 2), (32, 64, 64, 8, 4), (128, 256, 128, 8, 4)]
KINDS = ["dtype=fp8_w8a8", "dtype=fp8_w8a8,block_shape=[128,128]", "dtype=int4_w4a16", "dtype=int8_w8a16", ""]


@pytest.mark.parametrize("kind", KINDS)
def test_the_formula_is_what_the_compiler_needs(ctx: Context, kind: str) -> None:
    """vLLM 0.33.0 and its Triton, for capability 12.1: equal, or with blocks at most 4 bytes a column above."""
    judge = open_judge(ctx, ROOT, "vllm", "0.33.0", "3.8.0")
    rows = {str(4**number * 1024): tile(*sides) for number, sides in enumerate(TILES)}
    name = ",".join(filter(None, ("E=64,N=512,device_name=NVIDIA_GB10", kind)))
    batch = Batch((input_file(f"{name}.json", json.dumps(rows).encode()),))
    sizes = Sizes(most=1 << 17)
    found = list(compile_rows(judge, ROOT, batch, judge_files(judge, batch, sizes), sizes, nvcc=nvcc()))
    assert len(found) == len(TILES)
    for row in found:
        assert row.found.error is None
        assert len(row.found.kernels) == 2
        slack = 4 * row.config["BLOCK_SIZE_N"] if "block_shape" in kind else 0
        for kernel in row.found.kernels:
            assert row.formula is not None
            assert row.formula - slack <= kernel.shared <= row.formula
            assert all(word.startswith("mma.sync") for word in kernel.mma)
            assert kernel.mma


def test_the_default_that_does_not_fit_is_compiled(ctx: Context) -> None:
    """SGLang 0.5.10's own row for more tokens than experts, by its own Triton and by a newer one."""
    row = {**tile(128, 256, 128, 8, 4), "GROUP_SIZE_M": 32}
    del row["SPLIT_K"]
    for triton, instruction in (("3.5.1", "f16"), ("3.8.0", "e4m3")):
        judge = open_judge(ctx, ROOT, "sglang", "0.5.10", triton)
        name = f"configs/triton_{triton.replace('.', '_')}/E=160,N=384,device_name=NVIDIA_GB10,dtype=fp8_w8a8.json"
        batch = Batch((input_file(name, json.dumps({"1024": row}).encode()),))
        verdicts = judge_files(judge, batch, FEW)
        (found,) = compile_rows(judge, ROOT, batch, verdicts, FEW, nvcc=nvcc())
        assert [kernel.shared for kernel in found.found.kernels] == [147_456, 147_456]
        assert found.found.problem == "it needs 147,456 bytes of shared memory; a GB10 has 101,376"
        assert all(instruction in word for kernel in found.found.kernels for word in kernel.mma)
        with pytest.raises(VerifyError, match="1 of 1 rows do not run"):
            refuse(judge, verdicts, [found])


def tile(rows: int, columns: int, depth: int, warps: int, stages: int) -> dict[str, int]:
    return {
        "BLOCK_SIZE_M": rows,
        "BLOCK_SIZE_N": columns,
        "BLOCK_SIZE_K": depth,
        "GROUP_SIZE_M": 1,
        "SPLIT_K": 1,
        "num_warps": warps,
        "num_stages": stages,
    }


def nvcc() -> LockedWheel:
    tools = load_lock(ROOT / "recipes/images/vllm.lock.json").wheels.tools[build_architecture()]
    return next(wheel for wheel in tools if wheel.name == "nvidia-cuda-nvcc")
