"""moe tune without a GPU: what wins, what is timed again, what is counted. The findings are of real runs on an H100."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gb10.core.reporter import Reporter
from gb10.errors import UsageError, VerifyError
from gb10.image.moe.child.launching import grouped
from gb10.image.moe.row_rules import LADDER, candidates, kernel_count, moe_bytes, upstream_space
from gb10.image.moe.tile_findings import Choice, Finding, Machine, Screened, Timed, choose, finished, read_line, spread
from gb10.image.moe.tuning import (
    Job,
    Lane,
    TuningJournal,
    kernel_counts,
    plot,
    rows_for,
    run,
    worker_files,
)
from gb10.image.recipe.arch import SHARED_MEMORY

DATA = Path(__file__).parents[1] / "data/moe"
FP8 = {"E": 128, "N": 768, "dtype": "fp8_w8a8", "block": None, "per_channel": False, "down": False}
ROW = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 4}
OTHER = {**ROW, "num_stages": 2}


def findings(name: str) -> list[Finding]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [found for line in lines if (found := read_line(line))]


def test_a_killed_run_goes_on_and_times_nothing_twice() -> None:
    """Killed by SIGKILL in its second batch size; the line that it left half is passed over."""
    text = (DATA / "killed-and-resumed.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(read_line(line) is None for line in text[1:] if line) == 1
    found = findings("killed-and-resumed.jsonl")
    assert sum(isinstance(one, Machine) for one in found) == 2
    assert finished(found) == {512, 64, 4}
    screened = Counter((one.size, json.dumps(one.row, sort_keys=True)) for one in found if isinstance(one, Screened))
    assert len(screened) == 60
    assert set(screened.values()) == {1}
    failed = [one.why for one in found if isinstance(one, Screened) and one.us is None]
    assert len(failed) == 3
    assert all("OutOfResources" in (why or "") for why in failed)


def test_a_row_with_wrong_numbers_is_no_finalist() -> None:
    """SGLang's kernel with a tile over two blocks of scales: the rule of `moe check` holds on a GPU."""
    found = findings("a-wrong-row.jsonl")
    (wrong,) = [one for one in found if isinstance(one, Screened) and one.us is None]
    assert wrong.row["BLOCK_SIZE_K"] == 256
    assert wrong.error > 0.1
    assert wrong.row not in [one.row for one in found if isinstance(one, Timed)]
    right = [one.error for one in found if isinstance(one, Screened) and one.us is not None]
    assert max(right) < 0.01


def test_the_default_stays_unless_another_clearly_wins() -> None:
    found = findings("killed-and-resumed.jsonl")
    choices = {choice.size: choice for choice in choose(found, dict.fromkeys((512, 64, 4), ROW))}
    assert [choices[size].is_default for size in (4, 64, 512)] == [True, True, False]
    assert choices[512].win > max(0.02, 2 * choices[512].spread)


def timed(row: dict[str, int], routing: str, middle: float, noise: float = 0.001) -> Timed:
    times = [middle * (1 + noise * step) for step in (-2, -1, 0, 1, 2, -1, 1)]
    return Timed(kind="final", size=8, routing=routing, row=row, us=times)


DONE = '{"kind":"done","size":8,"seconds":1.0,"compiled":2}'


@pytest.mark.parametrize(
    ("uniform", "skewed", "noise", "kept"),
    [
        (90.0, 90.0, 0.001, False),
        (98.5, 98.5, 0.001, True),  # less than 2 %
        (90.0, 100.0, 0.001, True),  # no win with skewed routing
        (95.0, 95.0, 0.03, True),  # less than twice its spread
        (110.0, 110.0, 0.001, True),
    ],
)
def test_a_win_must_be_clear_with_each_routing(uniform: float, skewed: float, noise: float, kept: bool) -> None:
    found: list[Finding] = [
        *(timed(ROW, routing, 100.0, noise) for routing in ("uniform", "skewed")),
        timed(OTHER, "uniform", uniform, noise),
        timed(OTHER, "skewed", skewed, noise),
    ]
    done = read_line(DONE)
    assert done
    (choice,) = choose([*found, done], {8: ROW})
    assert choice.is_default == kept
    assert choose(found, {8: ROW}) == ()


def test_one_slow_turn_is_no_spread() -> None:
    assert spread([100.0, 101.0, 99.0, 100.0, 500.0]) == pytest.approx(0.0148, abs=0.001)


def test_fewer_kernels_than_upstream_and_none_of_another_shape() -> None:
    rows = candidates("vllm", FP8)
    assert (len(list(upstream_space())), len(rows)) == (1920, 342)
    assert (kernel_count(rows), kernel_count(upstream_space())) == (684, 3840)
    assert all((moe_bytes("fp8_w8a8", None, row) or SHARED_MEMORY + 1) <= SHARED_MEMORY for row in rows)
    blocked = candidates("vllm", {**FP8, "block": [128, 128]})
    assert {row["BLOCK_SIZE_K"] for row in blocked} == {64, 128}
    assert len(blocked) == len({json.dumps(row) for row in blocked}) == 262
    asked = {"shape": FP8, "topk": 8}
    assert grouped(asked, ROW, 16) is None
    assert grouped(asked, ROW, 4096) == {**ROW, "GROUP_SIZE_M": 16}
    with pytest.raises(UsageError, match="int4_w4a16"):
        rows_for("vllm", {**FP8, "dtype": "int4_w4a16"})


def job(**more: Any) -> Job:  # noqa: ANN401
    made: dict[str, Any] = {
        "engine": "vllm",
        "version": "0.33.0",
        "shape": FP8,
        "hidden": 2048,
        "topk": 8,
        "defaults": dict.fromkeys((1, 16, 256), ROW),
        "rows": (OTHER,),
        "memory": 1 << 30,
        "source": "kernel.py",
    }
    return Job(**{**made, **more})


def test_the_count_covers_what_a_worker_may_compile() -> None:
    assert kernel_counts(job(defaults=dict.fromkeys(LADDER, ROW), rows=candidates("vllm", FP8))) == (684 + 72, 3840)


MACHINE = json.dumps(
    {"kind": "machine", "gpu": "NVIDIA GB10", "capability": [12, 1], "units": 48, "memory": 1 << 37}
    | {"driver": "580.95", "torch": "2.13.0", "triton": "3.8.0", "clock_mhz": None}
)


def test_a_worker_that_does_not_start_says_what_it_lacks(tmp_path: Path) -> None:
    def lane(_: dict[str, Any], on_line: Callable[[str], None]) -> None:
        on_line("Traceback (most recent call last):\n  import torch\nModuleNotFoundError: No module named 'torch'")

    with pytest.raises(VerifyError, match="here cannot tune") as caught:
        run(job(), {"here": lane}, TuningJournal(tmp_path / "findings.jsonl", job()), Reporter({}, verbosity=-1))
    assert caught.value.where == "ModuleNotFoundError: No module named 'torch'"


def works(asked: list[list[int]], stop_at: int | None = None) -> Lane:
    """A worker that screens and finishes each size at once, and one that dies at a size."""

    def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
        asked.append(request["sizes"])
        on_line("some warning of a library")
        on_line(MACHINE)
        for size in request["sizes"]:
            if size == stop_at:
                on_line("Killed")
                return
            known = [one for one in request["known"] if one["size"] == size]
            if not known:
                line = {
                    "kind": "screen",
                    "size": size,
                    "row": OTHER,
                    "us": 1.0,
                    "why": None,
                    "error": 0.0,
                    "seconds": 0.1,
                }
                on_line(json.dumps(line))
            on_line(json.dumps({"kind": "done", "size": size, "seconds": 1.0, "compiled": 2}))

    return lane


def test_machines_share_the_sizes_and_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    asked: list[list[int]] = []
    reporter, path = Reporter({}, verbosity=-1), tmp_path / "findings.jsonl"
    with pytest.raises(VerifyError, match="two ended before batch sizes 16") as caught:
        run(job(), {"one": works(asked), "two": works(asked, 16)}, TuningJournal(path, job()), reporter)
    assert "Killed" in str(caught.value)
    assert sorted(map(sorted, asked)) == [[1, 256], [16]]
    asked.clear()
    again = TuningJournal(path, job(memory=2 << 30))
    assert finished(again.findings) == {1, 256}
    run(job(), {"one": works(asked)}, again, reporter)
    assert asked == [[16]]
    run(job(), {"one": works(asked)}, TuningJournal(path, job()), reporter)
    assert asked == [[16]]


def test_findings_of_another_job_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    TuningJournal(path, job())
    with pytest.raises(UsageError, match="another job"):
        TuningJournal(path, job(hidden=4096))


def test_a_shape_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    def refuses(_: dict[str, Any], on_line: Callable[[str], None]) -> None:
        for line in (DATA / "refused.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
            on_line(line)

    with pytest.raises(VerifyError, match="needs 583 MiB, the limit is 50 MiB"):
        run(job(), {"here": refuses}, TuningJournal(tmp_path / "f.jsonl", job()), Reporter({}, verbosity=-1))


def test_the_picture_is_xml_with_a_bar_for_each_size() -> None:
    wins = [Choice(size=size, row=OTHER, default=ROW, win=0.1, spread=0.01, microseconds=9.0) for size in LADDER]
    found = ElementTree.fromstring(plot("<a & b>", wins))  # noqa: S314
    assert len(list(found.iter("{http://www.w3.org/2000/svg}rect"))) == len(LADDER)


def test_the_worker_travels_with_all_that_it_imports() -> None:
    files = worker_files()
    assert "gb10/image/moe/child/tune_worker.py" in files
    for path, content in files.items():
        for line in content.decode().splitlines():
            if line.startswith("from gb10."):
                module = line.split()[1].replace(".", "/")
                assert f"{module}.py" in files or f"{module}/__init__.py" in files, (path, line)
