"""The report of a rehearsal: what is printed of it, and what is refused as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import VerifyError
from gb10.image.build.proving import KEPT, read_report, say_report
from gb10.image.context import open_context
from gb10.image.proof.scans import proof_path
from tests.unit.image.test_rehearsal_plan import OPTIONS, plan

REPORT: dict[str, Any] = {
    "stopped": None,
    "made": [{"compiler": "triton", "kernel": "a:b"}, {"compiler": "triton", "kernel": "a:c"}],
    "left": [{"what": "DeepGEMM one", "why": "its library asks the device"}],
    "flashinfer": ["sampling"],
    "zeroed": {},
}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        json.dumps(REPORT | {"made": 3}).encode(),
        json.dumps(REPORT | {"left": [{"what": "a"}]}).encode(),
        json.dumps(REPORT | {"stopped": "x" * 1001}).encode(),
        json.dumps(REPORT | {"made": [{}] * 4097}).encode(),
        b"[" * 100_000,
    ],
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(VerifyError, match="no report of its rehearsal"):
        read_report(content)


def said(tmp_path: Path, report: dict[str, Any], capsys: pytest.CaptureFixture[str], served: bool = True) -> list[str]:
    """What is printed of a report that lies beside the scans of an image."""
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "200"}, verbosity=0)
    chosen = plan() if served else plan(OPTIONS)
    folder = proof_path(ctx.store, chosen)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / KEPT).write_text(json.dumps(report), encoding="utf-8")
    say_report(ctx.reporter, ctx.store, chosen)
    return capsys.readouterr().err.splitlines()


def test_what_is_ready_and_each_thing_that_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(tmp_path, REPORT, capsys) == [
        "ready for the first request: 2 kernels of Triton, 1 modules of FlashInfer",
        "left: DeepGEMM one: its library asks the device",
    ]


def test_modules_of_the_engine_itself_are_counted_by_their_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [*REPORT["made"], {"compiler": "nvcc", "kernel": "SGLang one"}]
    line = said(tmp_path, REPORT | {"made": made}, capsys)[0]
    assert line.endswith("2 kernels of Triton, 1 modules of FlashInfer, 1 of the engine's own, by nvcc")


def test_kernels_of_b12x_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [*REPORT["made"], {"compiler": "cute", "kernel": "b12x gemm.dense"}]
    assert said(tmp_path, REPORT | {"made": made}, capsys)[0].endswith("1 modules of FlashInfer, 1 kernels of b12x")


def test_a_rehearsal_that_stopped_says_so_and_no_control_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(tmp_path, REPORT | {"stopped": "Value\x1b[31mError: x", "left": []}, capsys)
    assert lines[1].startswith("the rehearsal stopped, so later kernels are not known: Value")
    assert "\x1b" not in lines[1]


def test_an_image_without_a_model_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(tmp_path, REPORT, capsys, served=False) == []
