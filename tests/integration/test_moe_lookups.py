"""``moe check`` against the engines: on six releases our rules and the engine's own look-up never differ."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.cli.look.moe_show import refuse
from gb10.core.proc import capture
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.image.moe.child.question import Question
from gb10.image.moe.file_verdict import (
    FileVerdict,
    differing_verdicts,
    judge_batches,
    judge_files,
    write_layer,
)
from gb10.image.moe.input_files import Batch, Sizes, input_file, read_input_files
from gb10.image.moe.release_lookups import SITE, EngineAnswer, Judge, ask, open_judge
from gb10.image.moe.row_rules import moe_bytes
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.arch import SHARED_MEMORY
from tests.integration.moe_mistakes import Laid, mistakes

pytestmark = pytest.mark.integration

RELEASES = [("vllm", "0.33.0"), ("sglang", "0.5.10"), ("sglang", "0.5.23")]
FEW = Sizes(most=64)
TILE = {
    "BLOCK_SIZE_M": 16,
    "BLOCK_SIZE_N": 64,
    "BLOCK_SIZE_K": 128,
    "GROUP_SIZE_M": 1,
    "num_warps": 4,
    "num_stages": 3,
}
ROWS = json.dumps({str(size): TILE for size in (1, 2, 4, 8, 16, 64, 512, 4096)}).encode()
DOWN = ROWS.replace(b'"BLOCK_SIZE_M": 16', b'"BLOCK_SIZE_M": 64')  # as the default of the first GEMM
LORA = json.dumps({str(size): {"BLOCK_N": 16, "BLOCK_K": 256, "num_warps": 4} for size in (16, 32, 64)}).encode()
STATE = json.dumps({"triton_version": "3.8.0", "16": {"BLOCK_SIZE_M": 16, "num_warps": 4}}).encode()
HELION = json.dumps([{"key": {}, "config": {"block_sizes": [1]}}, {"key": {"n": 2}, "config": {}}]).encode()
GB10 = "device_name=NVIDIA_GB10"


@pytest.fixture(scope="module", name="judge", params=RELEASES, ids=" ".join)
def of_a_release(ctx: Context, request: pytest.FixtureRequest) -> Judge:
    engine, version = request.param
    return open_judge(ctx, ROOT, engine, version, None)


def bases(judge: Judge) -> Iterator[Laid]:
    """A right file of each family that the release has."""
    blank = " " if judge.engine == "sglang" else ""
    version = f"triton_{judge.triton.replace('.', '_')}"
    above = f"configs/{version}/" if judge.engine == "sglang" else ""
    block = f"block_shape=[128,{blank}128]"
    yield Laid(f"{above}E=160,N=384,{GB10},dtype=fp8_w8a8.json", ROWS)
    yield Laid(f"{above}E=256,N=512,{GB10},dtype=fp8_w8a8,{block}.json", ROWS)
    yield Laid(f"{above}E=64,N=768,{GB10}.json", ROWS)
    split = b'"SPLIT_K": 1, "BLOCK_SIZE_M"' if judge.engine == "vllm" else b'"BLOCK_SIZE_M"'
    yield Laid(f"{above}E=64,N=768,{GB10},dtype=int4_w4a16.json", ROWS.replace(b'"BLOCK_SIZE_M"', split))
    yield Laid(f"N=512,K=2048,{GB10},dtype=fp8_w8a8,{block}.json", ROWS)
    if judge.engine == "sglang":
        yield Laid(f"{above}E=160,N=384,{GB10},dtype=fp8_w8a8_down.json", DOWN)
    else:
        yield Laid(f"headdim=64,dstate=128,{GB10},cache_dtype=float32.json", STATE)
        yield Laid("silu_mul_fp8/nvidia_gb10.json", HELION)
    if "lora" in judge.families:
        yield Laid(f"csgmv_configs/{version}/lora_shrink,K=1024,R=64,S=3,device=NVIDIA_GB10.json", LORA)


def batch_of(laid: Laid) -> Batch:
    return Batch((input_file(laid.path, laid.content),), laid.folders)


def test_right_files_are_found(judge: Judge) -> None:
    laid = list(bases(judge))
    found = judge_batches(judge, [batch_of(one) for one in laid], FEW)
    assert [(one.path, verdict.verdict, verdict.reasons) for one, (verdict,) in zip(laid, found, strict=True)] == [
        (one.path, "found", ()) for one in laid
    ]
    assert all(verdict.good for (verdict,) in found)


def test_mistakes_and_no_disagreement(judge: Judge) -> None:
    """tests/e2e/test_moe.py has many more, on six releases."""
    laid = [one for seed, base in enumerate(bases(judge)) for one in mistakes(base, 4, seed)]
    found = [verdict for (verdict,) in judge_batches(judge, [batch_of(one) for one in laid], FEW)]
    assert dict(differing(laid, found)) == {}


def differing(laid: list[Laid], found: list[FileVerdict]) -> Iterator[tuple[str, object]]:
    for one, verdict in zip(laid, found, strict=True):
        if differing_verdicts([verdict]):
            yield f"{one.label}: {one.path}", (verdict.verdict, verdict.expected, verdict.told)


def test_files_that_upstream_ships_for_a_gb10_are_good(judge: Judge) -> None:
    site = judge.files / SITE
    paths = sorted(path.relative_to(site).as_posix() for path in site.rglob("*NVIDIA_GB10*.json"))
    files = tuple(input_file(path, (site / path).read_bytes()) for path in paths)
    expected = {("vllm", "0.24.0"): 0, ("sglang", "0.5.10"): 0}.get((judge.engine, judge.version))
    assert len(files) == (expected if expected is not None else 2 if judge.engine == "vllm" else 1)
    folders = tuple(path.relative_to(site).as_posix() for path in site.rglob("triton_*"))
    found = judge_files(judge, Batch(files, folders, "image"), Sizes())
    assert [(one.verdict, one.good, differing_verdicts([one])) for one in found] == [("found", True, {})] * len(files)
    assert all(row.shared and row.shared <= SHARED_MEMORY for one in found for row in one.rows)


def test_the_files_of_both_gemms_lie_together(ctx: Context) -> None:
    for version, verdict in (("0.5.10", "raises"), ("0.5.23", "found")):
        judge = open_judge(ctx, ROOT, "sglang", version, "3.8.0")
        up = f"configs/triton_3_8_0/E=160,N=384,{GB10},dtype=fp8_w8a8.json"
        names = (up, up.replace(".json", "_down.json"))
        alike = judge_files(judge, Batch(tuple(input_file(name, ROWS) for name in names)), FEW)
        assert [one.verdict for one in alike] == ["found", "found"]
        files = tuple(input_file(name, content) for name, content in zip(names, (ROWS, DOWN), strict=True))
        apart = judge_files(judge, Batch(files), FEW)
        assert [one.verdict for one in apart] == ["found", verdict]
        assert differing_verdicts([*alike, *apart]) == {}


DEFAULTS = {
    ("vllm", "0.24.0"): (65_536, 49_664),
    ("vllm", "0.28.0"): (65_536, 49_664),
    ("vllm", "0.33.0"): (65_536, 49_664),
    ("sglang", "0.5.10"): (147_456, 49_664),
    ("sglang", "0.5.14"): (73_728, 49_664),
    ("sglang", "0.5.23"): (73_728, 49_664),
}


def test_the_engines_own_defaults_need_what_was_measured(judge: Judge, tmp_path: Path) -> None:
    """SGLang 0.5.10's default for more tokens than experts is the one that does not fit; later ones do."""
    most = [max(needed(judge, tmp_path, block)) for block in (None, [128, 128])]
    assert tuple(most) == DEFAULTS[judge.engine, judge.version]
    if judge.engine == "sglang":
        beyond = needed(judge, tmp_path, None, first=161)
        assert set(beyond) == ({147_456} if judge.version == "0.5.10" else {49_152})


def needed(judge: Judge, work: Path, block: list[int] | None, first: int = 1) -> list[int]:
    """Bytes of the default rows of 160 experts in FP8, from a batch size on."""
    shape = {"E": 160, "N": 384, "dtype": "fp8_w8a8", "block": block, "per_channel": False, "down": False}
    (work / "empty" / "configs").mkdir(parents=True, exist_ok=True)
    question = Question(
        engine=judge.engine,
        family="moe",
        module=str(work / "none" / (judge.module("moe") or "")),
        user=str(work / "empty"),
        shape=shape,
        most=4096,
        triton=judge.triton,
    )
    (said,) = ask(judge, [question], work).answers
    assert isinstance(said, EngineAnswer)
    assert said.keys is None
    return [moe_bytes("fp8_w8a8", block, span[4]) or 0 for span in said.spans if span[1] >= first]


def test_a_layer_is_read_by_the_engine(ctx: Context, tmp_path: Path) -> None:
    """Dense FP8 files reach an engine in a layer alone: what `--layer` writes is found where an image has it."""
    judge = open_judge(ctx, ROOT, "sglang", "0.5.23", "3.8.0")
    tuned = tmp_path / "tuned/configs/triton_3_8_0"
    tuned.mkdir(parents=True)
    dense = f"N=512,K=2048,{GB10},dtype=fp8_w8a8,block_shape=[128, 128].json"
    experts = f"E=160,N=384,{GB10},dtype=fp8_w8a8.json"
    (tmp_path / "tuned" / dense).write_bytes(ROWS)
    (tuned / experts).write_bytes(ROWS)
    (tuned / experts.replace("160", "161")).write_bytes(b"{}}")
    given = read_input_files(tmp_path / "tuned")
    verdicts = judge_files(judge, given, FEW)
    assert sum(one.good for one in verdicts) == 2
    with pytest.raises(VerifyError, match="1 of 3 tuned files"):
        refuse(judge, verdicts)
    places = write_layer(judge, given, verdicts, tmp_path / "out", "3.11")
    site = tmp_path / "out/usr/local/lib/python3.11/dist-packages"
    laid = tuple(path.relative_to(site).as_posix() for path in sorted(site.rglob("*.json")))
    assert len(places) == len(laid) == 2
    files = tuple(input_file(path, (site / path).read_bytes()) for path in laid)
    again = judge_files(judge, Batch(files, (), "image"), FEW)
    assert [(one.path.rpartition("/")[2], one.good) for one in again] == [(dense, True), (experts, True)]


def test_the_command_prints_and_refuses(tmp_path: Path) -> None:
    (tmp_path / f"E=160,N=384,{GB10},dtype=fp8_w8a8.json").write_bytes(ROWS)
    argv = ["./build.py", "moe", "check", str(tmp_path), "--json"]
    document = json.loads(capture(argv, cwd=ROOT, env=os.environ))
    assert (document["schema"], document["limit"], document["files"][0]["verdict"]) == (
        "gb10/moe-check/v1",
        101_376,
        "found",
    )
