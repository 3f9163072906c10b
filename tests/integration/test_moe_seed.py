"""``moe seed`` against the engines: each batch size gets the engine's own default, but where that does not fit."""

import json
from pathlib import Path

import pytest

from gb10.cli.look.moe_show import shape_from_options
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.moe.child.question import Question
from gb10.image.moe.expected import nearest
from gb10.image.moe.release_lookups import Judge, ask, open_judge
from gb10.image.moe.seeding import Model, Seed, about, check_read, make_seed
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.arch import SHARED_MEMORY

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SHAPES = [(288, 512), (256, 512), (256, 1024), (128, 704), (128, 768), (128, 1024), (512, 512), (512, 2688)]
SHAPES += [(160, 384), (161, 384)]
KINDS = [("fp8_w8a8", None), ("fp8_w8a8", "128x128"), ("bf16", None), ("int4_w4a16", None), ("int8_w8a16", None)]


def seed_of(
    judge: Judge, later: Judge, work: Path, shape: tuple[int, int], kind: tuple[str, str | None]
) -> tuple[Model, Seed]:
    dtype, block = kind
    model = Model(meant=shape_from_options(*shape, dtype, block, per_channel=False), hidden=4096, topk=8, group=128)
    return model, make_seed(judge, later, model, work)


@pytest.mark.parametrize("shape", SHAPES[-1:])
@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.33.0"), ("sglang", "0.5.23")])
def test_where_every_default_fits_no_file_is_needed(
    ctx: Context, tmp_path: Path, engine: str, version: str, shape: tuple[int, int]
) -> None:
    judge = open_judge(ctx, ROOT, engine, version, "3.8.0")
    for number, kind in enumerate(KINDS):
        _, made = seed_of(judge, judge, tmp_path / str(number), shape, kind)
        assert (made.needed, made.differing) == (False, 0)
        assert all(span.row is span.default for span in made.spans)


@pytest.mark.parametrize("shape", SHAPES[-2:])
def test_sglang_0_5_10_gets_another_row_only_beyond_its_experts(
    ctx: Context, tmp_path: Path, shape: tuple[int, int]
) -> None:
    judge = open_judge(ctx, ROOT, "sglang", "0.5.10", None)
    later = open_judge(ctx, ROOT, "sglang", "0.5.23", None)
    model, made = seed_of(judge, later, tmp_path, shape, KINDS[0])
    experts = shape[0]
    replaced = [(span.first, span.last, span.shared) for span in made.spans if not span.is_default]
    assert replaced == [(experts + 1, 131_072, 147_456)]
    assert made.differing == 0
    assert sorted(made.rows) == [1, experts, experts + 1, 131_072]
    assert "147,456 bytes do not fit" in about(judge, later, model, made)


def test_the_engine_reads_the_seed_as_it_was_meant(ctx: Context, tmp_path: Path) -> None:
    """The written file, through the engine's own look-up, for each batch size to 4,096."""
    judge = open_judge(ctx, ROOT, "sglang", "0.5.10", None)
    later = open_judge(ctx, ROOT, "sglang", "0.5.23", None)
    model, made = seed_of(judge, later, tmp_path / "work", (161, 384), KINDS[0])
    folder = tmp_path / "tuned/configs/triton_3_5_1"
    folder.mkdir(parents=True)
    (folder / made.name).write_text(made.text, encoding="ascii")
    spans = {
        user.name: answered(judge, model, user, tmp_path) for user in (tmp_path / "tuned", tmp_path / "work/own/empty")
    }
    written, default = spans["tuned"], spans["empty"]
    for size in range(1, 4097):
        fits = row_of(default, size)["BLOCK_SIZE_M"] != 128
        assert (row_of(written, size) == row_of(default, size)) == fits
    parsed = {int(key): row for key, row in json.loads(made.text).items()}
    assert parsed[nearest(parsed, 4096)] == row_of(written, 4096)


def answered(judge: Judge, model: Model, user: Path, work: Path) -> list[tuple[int, int, dict[str, int]]]:
    question = Question(
        engine=judge.engine,
        family="moe",
        module=str(work / "none" / (judge.module("moe") or "")),
        user=str(user),
        shape=dict(model.meant.shape),
        most=4096,
        triton=judge.triton,
    )
    (said,) = ask(judge, [question], work).answers
    return [(span[0], span[1], span[2]) for span in said.spans]


def row_of(spans: list[tuple[int, int, dict[str, int]]], size: int) -> dict[str, int]:
    return next(row for first, last, row in spans if first <= size <= last)


def test_a_type_that_the_engine_does_not_name_is_refused(ctx: Context, tmp_path: Path) -> None:
    judge = open_judge(ctx, ROOT, "vllm", "0.33.0", "3.8.0")
    with pytest.raises(UsageError, match="has no default for dtype=int8_w8a8"):
        seed_of(judge, judge, tmp_path, (64, 512), ("int8_w8a8", None))


def test_rows_of_seeds_fit(ctx: Context, tmp_path: Path) -> None:
    judge = open_judge(ctx, ROOT, "sglang", "0.5.10", None)
    later = open_judge(ctx, ROOT, "sglang", "0.5.23", None)
    for number, kind in enumerate(KINDS[:2]):
        _, made = seed_of(judge, later, tmp_path / str(number), (128, 768), kind)
        assert all((span.shared or 0) <= SHARED_MEMORY for span in made.spans if span.is_default)


@pytest.mark.parametrize("version", ["0.5.3.post3", "0.5.4.post2", "0.5.9"])
def test_old_releases_of_sglang_are_asked_and_read_the_seed(ctx: Context, tmp_path: Path, version: str) -> None:
    judge, later = open_judge(ctx, ROOT, "sglang", version, None), open_judge(ctx, ROOT, "sglang", "0.5.23", None)
    model, made = seed_of(judge, later, tmp_path, (160, 384), KINDS[0])
    assert [(span.first, span.last, span.shared) for span in made.spans if not span.is_default] == [
        (161, 131_072, 147_456)
    ]
    check_read(judge, model, made, tmp_path / "read")


@pytest.mark.parametrize("version", ["0.10.2", "0.11.2", "0.17.1"])
def test_old_releases_of_vllm_are_asked_and_read_the_seed(ctx: Context, tmp_path: Path, version: str) -> None:
    judge = open_judge(ctx, ROOT, "vllm", version, "3.8.0")
    model, made = seed_of(judge, judge, tmp_path, (160, 384), KINDS[0])
    assert not made.needed
    check_read(judge, model, made, tmp_path / "read")


@pytest.mark.parametrize(
    ("engine", "version", "why"),
    [
        ("sglang", "0.5.2", "would not read"),
        ("vllm", "0.9.2", "would not read"),
        ("sglang", "0.4.10.post2", "has no look-up of tuned files that gb10 knows"),
    ],
)
def test_older_ones_are_refused_with_the_reason(
    ctx: Context, tmp_path: Path, engine: str, version: str, why: str
) -> None:
    judge = open_judge(ctx, ROOT, engine, version, "3.4.0")
    with pytest.raises(UsageError, match=why):
        model, made = seed_of(judge, judge, tmp_path, (160, 384), KINDS[1])
        check_read(judge, model, made, tmp_path / "read")
