"""A profile: Nsight Compute's command line, its table as release 2025.3.1 printed it, and what it may refuse."""

import os
import shlex
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.machine.bench import profile_table
from gb10.errors import VerifyError
from gb10.image.context import open_context
from gb10.image.gemm.gemm_benchmarks import BuiltProgram, read_lines, sort_lines
from gb10.image.gemm.ncu_profile import (
    SECTOR,
    TIME,
    USUAL,
    Profiled,
    find_ncu,
    metrics_of,
    profile,
    read_launches,
    shapes_of,
)

TABLE = (Path(__file__).parents[1] / "data/ncu.csv").read_text(encoding="utf-8")
"""Of an H100: ten launches of a kernel that adds 1 to n floats. n is 2**12 in the launches 0 and 5, 2**24 in 1 to 4,
and 2**25 in 6 to 9: so the bytes that each reads are known."""
GPU = '{"kind": "gpu", "name": "NVIDIA GB10", "capability": "12.1", "multiprocessors": 48, "gb10": true}\n'
RESULT = '{"kind": "result", "kernel": "%s", "error": 1e-3, "limit": 1e-02, "said": "", "ok": true}\n'
SHAPE = '{"kind": "time", "kernel": "%s", "shape": "%s", "experts": 1, "ms": 2.5, "tflops": 178.0, "of_peak": null}\n'
FIRST, SECOND = ("fp8_dense", "dense 4096x14336x4096"), ("nvfp4_grouped", "8 experts, n 256")
PRINTED = GPU + RESULT % FIRST[0] + SHAPE % FIRST + RESULT % SECOND[0] + SHAPE % SECOND
METRICS = metrics_of("12.1")
STAND_IN = """\
#!/bin/sh
printf '%s\\n' "$@" > "$RECORDED/$(date +%s%N)"
for word; do
    case "$before" in --export) report=$word ;; --import) cat "$RECORDED/table" ; exit ;; esac
    before=$word
done
{refuse}
echo '==PROF== Profiling "device_kernel": 0%....50%....100% - 10 passes'
shift $(($# - 3))
"$@" && echo report > "$report"
"""


def program(folder: Path) -> BuiltProgram:
    """One that prints what ours prints on a GPU."""
    path = folder / "gemm"
    path.write_text(f"#!/bin/sh\n[ \"$*\" = '--runs 1' ] || exit 2\ncat <<'END'\n{PRINTED}END\n", encoding="utf-8")
    path.chmod(0o755)
    return BuiltProgram(name="gemm", key="0" * 64, path=path, checks=(), hit=False)


def profiled(folder: Path, refuse: str = "", table: str = TABLE) -> tuple[Profiled, list[list[str]]]:
    """A profile by a stand-in for ncu, found on PATH, that records how it is called."""
    recorded = folder / "recorded"
    recorded.mkdir(exist_ok=True)
    (folder / "ncu").write_text(STAND_IN.replace("{refuse}", refuse), encoding="utf-8")
    (folder / "ncu").chmod(0o755)
    (recorded / "table").write_text(table, encoding="utf-8")
    env = {"GB10_CACHE_DIR": str(folder / "store"), "XDG_CONFIG_HOME": str(folder), "RECORDED": str(recorded)}
    env["PATH"] = f"{folder}:{os.environ['PATH']}"
    found = profile(open_context(env, verbosity=-1), find_ncu(env), program(folder), sort_lines(read_lines(PRINTED)))
    return found, [path.read_text().splitlines() for path in sorted(recorded.iterdir()) if path.name != "table"]


def test_the_program_runs_under_ncu_and_the_report_is_read_back(tmp_path: Path) -> None:
    found, (collect, read) = profiled(tmp_path)
    report = str(found.report)
    assert shlex.join(collect) == (
        "--config-file off --clock-control none --target-processes application-only --kernel-name-base function "
        f"--kernel-name device_kernel --metrics {','.join(METRICS)} --force-overwrite --export {report} "
        f"{tmp_path}/gemm --runs 1"
    )
    assert shlex.join(read) == (
        f"--config-file off --import {report} --page raw --csv --print-units base --metrics {','.join(METRICS)}"
    )
    assert [(one.kernel, one.shape) for one in found.shapes] == [FIRST, SECOND]
    assert [one.values[TIME] for one in found.shapes] == [112_640, 138_112]


def test_the_bytes_are_those_that_the_kernels_read() -> None:
    shapes = shapes_of(read_lines(PRINTED), read_launches(TABLE, METRICS))
    for one, floats in zip(shapes, (1 << 24, 1 << 25), strict=True):
        assert one.memory_bytes == pytest.approx(4 * floats, rel=0.001)
        assert (one.memory_bytes or 1) % SECTOR == 0


def test_what_ncu_could_not_collect_is_blank() -> None:
    lines = TABLE.replace('"2097978","0"', '"(!) n/a","0"').replace('"112640"', '"1,112,640.50"')
    first, second = shapes_of(read_lines(PRINTED), read_launches(lines, METRICS))
    assert (first.memory_bytes, first.values[TIME]) == (None, 1_112_640.5)
    assert second.memory_bytes
    table = profile_table(Profiled(ncu="ncu", report=Path("r"), metrics=METRICS, shapes=(first, second)))
    cells = {str(column.header): list(column.cells) for column in table.columns}
    assert cells["MB read"] == ["", "134.2"]
    assert cells["GB/s"] == ["", "971.9"]
    assert cells["ms"] == ["1.113", "0.138"]


@pytest.mark.parametrize(
    ("refuse", "words"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1", "administrators alone"),
        ("echo '==WARNING== No kernels were profiled.'; exit 0", "No kernels were profiled"),
        ("echo '==ERROR== unknown option'; exit 1", "exit code 1"),
    ],
)
def test_a_profile_without_a_report_says_why(tmp_path: Path, refuse: str, words: str) -> None:
    with pytest.raises(VerifyError) as caught:
        profiled(tmp_path, refuse)
    assert words in str(caught.value)
    assert ".log" in str(caught.value)


def test_launches_that_do_not_fit_the_programs_lines_are_refused(tmp_path: Path) -> None:
    short = "\n".join(TABLE.splitlines()[:-1])
    with pytest.raises(VerifyError, match="saw 9 launches of device_kernel, and the program makes 10"):
        profiled(tmp_path, table=short)
    with pytest.raises(VerifyError, match="printed no table"):
        read_launches("==WARNING== nothing", METRICS)


def test_a_gpu_whose_metrics_nobody_chose_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match=r"compute capability 9\.0"):
        metrics_of("9.0")
    assert "dram__bytes.sum" in metrics_of("12.0")
    assert not [name for name in METRICS if name.startswith("dram")]
    nothing = sort_lines(read_lines('{"kind": "not-run", "what": "times", "why": "there is no GPU"}'))
    with pytest.raises(VerifyError, match="nothing of gemm was profiled"):
        profile(open_context({"GB10_CACHE_DIR": str(tmp_path)}, verbosity=-1), "ncu", program(tmp_path), nothing)


@pytest.mark.skipif(USUAL.exists(), reason="Nsight Compute is installed here")
def test_without_ncu_the_error_comes_first_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "gemm", "--profile"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: Nsight Compute (ncu) is not installed")
    assert "apt install" in said
