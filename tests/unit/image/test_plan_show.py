"""The table of a plan: plain words, whole keys on a narrow terminal, no blanks at the ends of lines."""

import re
from pathlib import Path

import pytest

from gb10.cli.build.plan_show import print_plan
from gb10.cli.patch.mods import fit, listed
from gb10.image.build.cache_status import CacheStatus
from gb10.image.build.estimate import needs, plan_bytes
from gb10.image.context import open_context
from gb10.image.mods.read import find_mod
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import GEMM, plan_image, plan_program
from gb10.image.plan.values import Plan
from gb10.image.recipe.image_recipe import WheelBuild
from gb10.image.request.planning import Request, make_plan
from tests.recipes import SHIPPED
from tests.unit.image.test_package_plan import PACKAGE, made, of_project


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: int, targets: tuple[str, ...] = ()) -> list[str]:
    env = {"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": str(columns)}
    ctx = open_context(env, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f", targets=targets))
    there = {step.name: False for step in plan.steps}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(columns))
        print_plan(
            ctx, plan, CacheStatus(engine=None, cached=there, needs=needs(ctx, plan, there, None)), as_json=False
        )
    return capsys.readouterr().out.splitlines()


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160])
def test_no_key_is_cut_and_no_line_ends_with_a_blank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    lines = shown(tmp_path, capsys, columns)
    assert all(line == line.rstrip() for line in lines)
    rows = [line for line in lines if re.match(r"\S+ +[0-9a-f]{12}  miss  ", line)]
    assert len(rows) == 19
    assert not any("…" in line.partition("miss")[0] for line in rows)
    assert ("kept" in lines[1], "about s" in lines[1], lines[1].endswith("what")) == (
        columns > 120,
        columns >= 100,
        True,
    )


def test_a_step_that_is_there_moves_nothing_and_keeps_what_it_has(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    every, hits = (plan_bytes(ctx, plan, dict.fromkeys(names(plan), hit), None)[0] for hit in (False, True))
    for step in plan.steps:
        missing, there = every[step.name], hits[step.name]
        assert (there.download, there.written, there.kept) == (0, 0, missing.kept)
        assert missing.download == (0 if step.kind == "graft" else step.download)
        assert missing.written >= missing.kept >= missing.download


def test_totals_have_each_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    there = {step.name: False for step in plan.steps}
    moved, total = plan_bytes(ctx, plan, there, None)
    each = moved.values()
    assert total.download == needs(ctx, plan, there, None).download
    twice = sum(one.download for one in each) - total.download
    assert twice > 1e9  # the tools of each compile, which each of them unpacks again
    assert sum(one.written for one in each) - total.written == twice
    assert sum(one.kept for one in each) - total.kept == twice
    line = next(line for line in shown(tmp_path, capsys, 160) if line.startswith("to write about "))
    assert f"{total.written / 1e9:.1f} GB in all" in line
    assert line.endswith(f"{total.kept / 1e9:.1f} GB in store and engine; what is compiled is not counted")


def test_what_is_kept_is_less_by_what_the_rules_leave_out(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    slim, whole = (
        make_plan(ctx, Request(engine="vllm", arch="12.1f", slim=extent)) for extent in ("publishable", "none")
    )
    kept = []
    for plan in (slim, whole):
        each, _ = plan_bytes(ctx, plan, dict.fromkeys(names(plan), False), None)
        kept.append(sum(each[step.name].kept for step in plan.of_kind("layer")))
    saved = sum(rule.saved for rule in slim.slim) * 1e6
    assert kept[1] - kept[0] == pytest.approx(saved, rel=0.01)


def test_steps_are_in_plain_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(shown(tmp_path, capsys, 160, ("_A", "_B")))
    for words in (
        "FlashInfer kernels, set core, for 12.1f",
        "our kernels, set moe, for 12.1f",
        "vllm's targets _A, _B, for 12.1f",
        "vllm's wheel with 5 patches and what is compiled here",
        "scan and check the GPU code",
        "(the largest compiler process)",
        " s, bound by its ",
        "seconds as on another machine: two x86-64 cores, idle; this one's own are kept from its first build on",
        "s on any number of cores",
    ):
        assert words in text


@pytest.mark.parametrize("width", [40, 80])
def test_a_listed_mod_is_whole_at_any_width(width: int) -> None:
    mod = find_mod(ROOT / "mods", "qwen3.5-autoround")
    lines = listed(mod, fit(SHIPPED, mod.record), width)
    text = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= width
    assert text.startswith("qwen3.5-autoround: Makes vLLM's own Qwen3.5 configs")
    assert "vllm 0.33.0: not needed, already upstream" in text
    assert "no, it is for vllm >=0.17,<0.19" in text


def test_a_program_has_no_layers_to_slim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    plan = plan_program(GEMM, make_plan(ctx, Request(engine="vllm", arch="12.1f")), ctx.catalog.toolkit)
    there = {step.name: False for step in plan.steps}
    print_plan(ctx, plan, CacheStatus(engine=None, cached=there, needs=needs(ctx, plan, there, None)), as_json=False)
    assert "slim" not in capsys.readouterr().out


def test_what_is_cached_takes_no_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "160"}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    there = {step.name: step.kind == "wheel" for step in plan.steps}
    print_plan(ctx, plan, CacheStatus(engine=None, cached=there, needs=needs(ctx, plan, there, None)), as_json=False)
    _, head, *lines = capsys.readouterr().out.splitlines()
    end = head.index("about s") + len("about s")
    rows = dict(zip(there, (line[end - 7 : end].strip() for line in lines), strict=False))
    assert {name: bool(seconds) for name, seconds in rows.items()} == {name: not hit for name, hit in there.items()}


@pytest.mark.parametrize(("release", "known"), [("conv==1.0", False), ("flash-attn==2.8.3.post2", True)])
def test_the_seconds_of_a_package_that_nobody_measured_are_said_not_to_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str, known: bool
) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    plan = plan_image(*of_project(release)(made(WheelBuild.model_validate(PACKAGE))))
    for cached in (False, True):
        there = dict.fromkeys(names(plan), cached)
        print_plan(
            ctx, plan, CacheStatus(engine=None, cached=there, needs=needs(ctx, plan, there, None)), as_json=False
        )
        said = capsys.readouterr().out
        assert ("compile of conv takes is not known" in said) is not (cached or known)
        assert ("longest unit: flash_fwd_split_hdim64_bf16_sm80.cu" in said) is (known and not cached)
