"""``moe tune`` without a GPU: its requests, its lines, its picture, and the two files that it writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gb10.core.reporter import Reporter
from gb10.errors import VerifyError
from gb10.image.context import open_context
from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.seeding import Seed
from gb10.image.moe.tile_findings import Choice, Finding, read_line
from gb10.image.moe.tuned_name import read_table
from gb10.image.moe.tuning import Job, Lane, TuningJournal, plot, run, tuned_on, write_tuned
from gb10.image.plan.catalog import ROOT
from tests.golden.conftest import Golden, section

ROW: Final = {"BLOCK_SIZE_M": 16, "num_stages": 4}
OTHER: Final = {"BLOCK_SIZE_M": 16, "num_stages": 2}
MACHINE: Final = {
    "kind": "machine", "gpu": "NVIDIA GB10", "capability": [12, 1], "units": 48, "memory": 1 << 37,
    "driver": "580.95", "torch": "2.13.0", "triton": "3.8.0", "clock_mhz": 2400,
}  # fmt: skip


def choice(size: int, win: float, spread: float = 0.004, *, kept: bool = False) -> Choice:
    return Choice(size=size, row=ROW if kept else OTHER, default=ROW, win=win, spread=spread, microseconds=10.0)


def job(**more: Any) -> Job:  # noqa: ANN401
    made: dict[str, Any] = {
        "engine": "vllm", "version": "0.33.0", "shape": {"E": 8}, "hidden": 2048, "topk": 4,
        "defaults": dict.fromkeys((1, 2, 4, 8, 16), ROW), "rows": (OTHER,), "memory": 900 << 20, "source": "kernel.py",
    }  # fmt: skip
    return Job(**{**made, **more})


def judge(tmp_path: Path, engine: str) -> Judge:
    return Judge(
        host=open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1),
        engine=engine,
        version="0.5.4",
        triton="3.5.1",
        table=read_table(ROOT, engine),
        files=tmp_path,
    )


Lines = Callable[[int], list[dict[str, Any] | str]]


def worker(lines: Lines, asked: list[str]) -> Lane:
    """Prints its machine where it has one, then the lines of each batch size."""

    def lane(request: dict[str, Any], on_line: Callable[[str], None]) -> None:
        asked.append(json.dumps(request))
        machine = () if lines in (no_torch, killed, silent) else (MACHINE,)
        for line in [*machine, *(one for size in request["sizes"] for one in lines(size))]:
            on_line(line if isinstance(line, str) else json.dumps(line))

    return lane


def done(size: int) -> list[dict[str, Any] | str]:
    return [{"kind": "done", "size": size, "seconds": 1.5, "compiled": 2 * size}]


def half(size: int) -> list[dict[str, Any] | str]:
    """Size 16 is screened, and size 8 is finished alone."""
    if size == 8:
        return done(size)
    found = {"kind": "screen", "size": size, "row": OTHER, "us": 3.25, "why": None, "error": 0.0, "seconds": 0.1}
    return [found, *(f"line {number} of size {size}" for number in range(12))]


def no_torch(_: int) -> list[dict[str, Any] | str]:
    return ["Traceback (most recent call last):\n  import torch\nModuleNotFoundError: No module named 'torch'"]


def killed(size: int) -> list[dict[str, Any] | str]:
    return [f"line {number} of size {size}" for number in range(6)]


def silent(_: int) -> list[dict[str, Any] | str]:
    return []


def refused(size: int) -> list[dict[str, Any] | str]:
    return [{"kind": "refused", "need": (950 << 20) + size, "memory": 900 << 20}]


def test_requests_and_lines_of_runs(golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: dict[str, tuple[str, dict[str, Lines]]] = {
        "two machines, one of which is ended": ("ended", {"a": done, "b": half}),
        "the rest, on one machine": ("ended", {"a": done}),
        "nothing is left": ("ended", {"a": done}),
        "refused": ("refused", {"a": refused}),
        "refused by one of two": ("both", {"a": done, "b": refused}),
        "one of two has no PyTorch": ("torch", {"a": done, "b": no_torch}),
        "killed before it says what it is": ("killed", {"a": killed}),
        "silent": ("silent", {"a": silent}),
    }
    found = []
    for title, (name, workers) in cases.items():
        asked: list[str] = []
        lanes = {host: worker(lines, asked) for host, lines in workers.items()}
        try:
            run(job(), lanes, TuningJournal(tmp_path / name, job()), Reporter({}))
            ended = "all is finished"
        except VerifyError as error:
            ended = str(error)
        lines = sorted(capsys.readouterr().err.splitlines())
        found.append(section(title, "\n".join([*sorted(asked), *lines, ended])))
    golden("render/tuning-runs.txt", "\n\n".join(found) + "\n")


def test_pictures(golden: Golden) -> None:
    """Open it in a browser."""
    shown = {
        "three sizes & a default": [choice(1, 0.12), choice(16, 0.0, kept=True), choice(2048, 0.051, 0.02)],
        "small wins": [choice(1, 0.021, 0.001), choice(2, 0.03)],
        "no size": [],
    }
    charts = [plot(title, choices).replace("><", ">\n<") for title, choices in shown.items()]
    golden("render/tuning.html", "<!doctype html>\n" + "\n".join(charts))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_is_written(golden: Golden, tmp_path: Path, engine: str) -> None:
    """Rows of sizes that were not tuned stay; a file only where some row won."""
    seed = Seed(name="E=8,N=512.json", spans=(), rows={1: ROW, 16: ROW, 4096: ROW}, differing=0)
    other = {**MACHINE, "gpu": "NVIDIA H100", "units": 132, "clock_mhz": None, "host": "far"}
    lines = [{**MACHINE, "host": "near"}, other, {"kind": "end", "peak": 1, "compiled": 2}]
    findings: list[Finding] = [one for line in lines if (one := read_line(json.dumps(line)))]
    assert len(findings) == 3
    choices = [choice(1, 0.5), choice(16, 0.0, kept=True), choice(64, 0.0213, 0.01)]
    out = tmp_path / "out"
    found = []
    for title, some in (("the default stays", choices[1:2]), ("two won", choices)):
        out.mkdir(exist_ok=True)
        written = write_tuned(judge(tmp_path, engine), seed, some, findings, out)
        named = [str(Path(name).relative_to(out)) for name in written]
        files = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
        texts = [section(name, path.read_text()) for name, path in files.items() if path.suffix != ".svg"]
        found.append(section(title, "\n".join([f"named: {named}", f"written: {[*files]}", *texts])))
    assert f"E=8,N=512.json, {engine} 0.5.4</text>" in (out / "E=8,N=512.svg").read_text(encoding="utf-8")
    assert "H100" not in tuned_on(judge(tmp_path, engine), seed, choices, findings[:1])
    golden(f"render/tuned-by-{engine}.txt", "\n\n".join(found) + "\n")
