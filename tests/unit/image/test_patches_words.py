"""The words that `patches` prints: one for an outcome everywhere, ranges in the order in which people write them."""

import re
from pathlib import Path
from typing import get_args

import pytest
from packaging.version import Version

from gb10.cli import main
from gb10.cli.patch.patches import app, idle_sources, print_rows, range_of, reasons
from gb10.image.context import open_context
from gb10.image.patches.verdict import Answered, Outcome, Row, Verdict, find_patches
from gb10.image.plan.catalog import ROOT


def row(outcome: Outcome, answer: str = "needed") -> Row:
    patch = find_patches(ROOT / "patches", "vllm/0002-stale-cutlass-source")[-1]
    probe = Answered(answer=answer, why="w")  # type: ignore[arg-type]
    verdict = Verdict(patch=patch, outcome=outcome, probe=probe, why="as read")
    return Row(source="vllm", version=Version("1.0"), pinned=True, verdicts=(verdict,))


def test_help_and_docs_have_every_outcome() -> None:
    docs = (ROOT / "docs/patches.md").read_text(encoding="utf-8")
    for word in (*get_args(Outcome), "overdue"):
        assert re.search(rf"^{word} ", app.info.help or "", re.MULTILINE)
        assert f"| {word} |" in docs


def test_a_range_has_its_lowest_bound_first() -> None:
    ranges = [range_of(patch) for patch in find_patches(ROOT / "patches", "vllm/0002-stale-cutlass-source")]
    assert ranges == [">=0.16,<0.24", ">=0.24,<0.34"]


def test_a_patch_of_what_is_compiled_names_the_option(tmp_path: Path) -> None:
    name = "0002-stale-cutlass-source"
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    assert idle_sources(ctx) == {"vllm"}
    (line,) = reasons([row("applies")], name, {"vllm"})
    assert line == "applies on 1.0 (only with --targets: upstream's wheel is compiled already): as read"
    assert reasons([row("applies")], name) == ["applies on 1.0: as read"]
    assert reasons([row("not-applicable")], name)[0].startswith("overdue on 1.0")


def test_a_short_form_has_its_legend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    print_rows(ctx, [row("not-applicable", "absent")])
    out = capsys.readouterr().out
    assert "\n1.0      -\n-  not-applicable: " in out
    print_rows(ctx, [row("conflict")])
    out = capsys.readouterr().out
    assert "1.0      conflict\n" in out
    assert "-  not" not in out


def test_a_tree_needs_its_source_and_one_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    tree = ["--tree", str(tmp_path)]
    for words, problem in (
        (["--ref", "0.33.0"], "--ref and --tree need --source"),
        (tree, "--ref and --tree need --source"),
        (["--source", "vllm", *tree], "--tree needs one --ref"),
        (["--source", "vllm", "--ref", "0.33.0", "--ref", "0.32.0", *tree], "--tree needs one --ref"),
        (["--source", "vllm", "--ref", "0.33.0", "--tree", "/dev/null"], "/dev/null is a special file"),
        (["--source", "vllm", "--ref", "newest"], "'newest' is no version"),
    ):
        assert main(["patches", "status", *words]) == 2
        assert problem in capsys.readouterr().err
    (tmp_path / "vllm").mkdir()
    assert main(["patches", "status", "--source", "vllm", "--ref", "0.33.0", *tree, "--json"]) in (0, 6)
    assert "special file" not in capsys.readouterr().err
