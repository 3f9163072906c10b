"""``moe check --log``: the names that an engine asked for, against the files that are there."""

from pathlib import Path

import pytest

from gb10.cli.look.moe_show import names_in_log, print_names, refuse_names
from gb10.errors import UsageError, VerifyError
from gb10.image.moe.asked_names import ADVICE, MOST, AskedName, Comparison, asked_names, compare_names
from gb10.image.moe.file_verdict import FileVerdict, TunedRow
from gb10.image.moe.left_out_rows import left_out
from gb10.image.moe.tuned_name import TITLES

PLAIN = "E=256,N=512,device_name=NVIDIA_GB10.json"
FP8 = "E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json"
SPACED = "E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128, 128].json"

LINES = {
    "an engine's own words": (
        f"WARNING Using default MoE config. Config file not found at /moe/{PLAIN}",
        PLAIN,
        "not there",
    ),
    "a list of places": (f"Config file not found at ['/a/b/{FP8}']", FP8, "not there"),
    "the other engine's": (
        f"Config file not found at /x/triton_3_6_0/{SPACED}, you can create them with …",
        SPACED,
        "not there",
    ),
    "a file that was used": (f"INFO Using configuration from /moe/{FP8} for MoE layer.", FP8, "used"),
    "a dense kernel": (
        "Config file not found at /d/N=4096,K=7168,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json",
        "N=4096,K=7168,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json",
        "not there",
    ),
    "a state update": (
        "Config file not found at /m/headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=float16.json",
        "headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=float16.json",
        "not there",
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_the_name_of_a_line(kind: str) -> None:
    line, name, outcome = LINES[kind]
    (found,) = asked_names(["other", f"(EngineCore pid=88) {line}"])
    assert (found.name, found.outcome, found.line, found.count) == (name, outcome, 2, 1)


def test_a_name_counts_once_and_other_files_are_none() -> None:
    line = LINES["an engine's own words"][0]
    found = asked_names([line, "Config file not found at /etc/other.json", line, "x" * 10_000])
    assert [(one.name, one.count) for one in found] == [(PLAIN, 2)]


def test_a_log_names_at_most_so_many_files() -> None:
    line = LINES["an engine's own words"][0]
    found = asked_names(line.replace("E=256", f"E={number}") for number in range(1, MOST + 2))
    assert len(found) == MOST


DIFFERS = {
    "type and block": (PLAIN, FP8, "type fp8_w8a8, asked for none", "dtype"),
    "experts": (FP8, FP8.replace("E=256", "E=128"), "E 128, asked for 256", "E"),
    "width": (FP8, FP8.replace("N=512", "N=1024"), "N 1024, asked for 512", "N"),
    "block": (FP8, FP8.replace("128,128", "64,128"), "block shape [64, 128], asked for [128, 128]", "block"),
    "device": (FP8, FP8.replace("NVIDIA_GB10", "NVIDIA_H100"), "device NVIDIA_H100, asked for NVIDIA_GB10", "device"),
    "spelling": (FP8, SPACED, "means the same, and is written otherwise", "name"),
}


@pytest.mark.parametrize("kind", DIFFERS)
def test_what_differs_between_the_name_and_the_file(kind: str) -> None:
    asked, there, sentence, advice = DIFFERS[kind]
    (found,) = compare_names([AskedName(path=f"/moe/{asked}", outcome="not there", line=1)], [there])
    assert not found.good
    assert sentence in found.differs[0]
    assert found.advice == ADVICE[advice]


def test_a_file_with_the_very_name_is_good_and_so_is_one_that_was_used() -> None:
    (there,) = compare_names([AskedName(path=f"/moe/{FP8}", outcome="not there", line=1)], [f"a/{FP8}"])
    (used,) = compare_names([AskedName(path=f"/moe/{FP8}", outcome="used", line=1)], [])
    assert there.good
    assert used.good


def test_files_of_another_kind_are_not_near() -> None:
    dense = "N=4096,K=7168,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json"
    (found,) = compare_names([AskedName(path=f"/moe/{PLAIN}", outcome="not there", line=1)], [dense])
    assert (found.differs, found.advice) == ((), "")


def test_a_name_that_no_file_has_is_refused_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    names = compare_names([AskedName(path=f"/moe/{PLAIN}", outcome="not there", line=3)], [FP8])
    print_names(names)
    assert "no file that is here has this name" in capsys.readouterr().out
    with pytest.raises(VerifyError, match="1 name that no file has"):
        refuse_names(names)
    refuse_names(compare_names([AskedName(path=f"/moe/{FP8}", outcome="used", line=3)], []))


def test_a_log_is_read_as_bytes_of_any_kind(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"\xff\xfe\n" + LINES["a list of places"][0].encode() + b"\n\x00")
    assert [one.name for one in names_in_log(log)] == [FP8]
    with pytest.raises(UsageError):
        names_in_log(tmp_path / "none.log")


def test_a_hostile_log_takes_no_time() -> None:
    lines = ["/" * 4000 + "E=" + ",E=" * 1000 + ".json", "E=1" * 1300 + ".json", "/E=,N=" * 600 + ".json"] * 200
    assert asked_names(lines) == ()


def verdict(**more: object) -> FileVerdict:
    row = TunedRow(first=1, last=1, config={}, use="triton", shared=None)
    known = {
        "path": "a",
        "family": "moe",
        "verdict": "found",
        "told": "",
        "reasons": (),
        "rows": (row,),
        "expected": "found",
    }
    return FileVerdict(**(known | more))  # type: ignore[arg-type]


def test_rows_that_were_not_weighed_and_files_that_were_not_compiled_are_rows() -> None:
    assert [row.what for row in left_out([verdict()], None, None)] == ["rows"]
    assert [row.what for row in left_out([verdict()], [], None)] == ["rows", "compiled"]
    assert [row.reason for row in left_out([verdict(family="mamba", rows=())], [], None)] == [
        "--compile has no kernel of Mamba state update"
    ]
    assert [row.what for row in left_out([], None, ())] == ["log"]


def test_a_name_that_was_found_or_is_of_no_family_is_compared_with_nothing() -> None:
    found = asked_names([LINES["a file that was used"][0], LINES["an engine's own words"][0]])
    other = AskedName(path="/x/other.json", outcome="not there", line=3)
    assert compare_names([*found, other], [f"/b/{PLAIN}"]) == (
        Comparison(asked=found[0], family=TITLES["moe"], there=""),
        Comparison(asked=found[1], family=TITLES["moe"], there=f"/b/{PLAIN}"),
        Comparison(asked=other, family="", there=""),
    )
