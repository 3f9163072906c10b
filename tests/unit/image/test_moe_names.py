"""Tuned files by name: what is meant, how each engine spells it, and what our rules expect of an engine."""

import json
from pathlib import Path

import pytest

from gb10.errors import EmptySelectionError, UsageError
from gb10.image.moe import input_files
from gb10.image.moe.expected import Look, expected_verdict, nearest, used_rows
from gb10.image.moe.input_files import read_input_files
from gb10.image.moe.tuned_name import format_tuned_name, parse_tuned_name, read_table
from gb10.image.plan.catalog import ROOT

NAMES = {
    "E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json": "vllm",
    "E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128, 128]_down.json": "sglang",
    "E=256,N=1024,device_name=NVIDIA_GB10,dtype=int8_w8a8,per_channel_quant=True.json": "sglang",
    "E=512,N=2688,device_name=NVIDIA_GB10.json": "both",
    "E=161,N=384,device_name=NVIDIA_GB10,dtype=int4_w4a16.json": "both",
    "N=5120,K=2048,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json": "vllm",
    "N=5120,K=2048,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[32, 32].json": "sglang",
    "headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=float32.json": "vllm",
    "lora_shrink,K=4096,R=64,S=3,device=NVIDIA_GB10.json": "sglang",
    "silu_mul_fp8/nvidia_gb10.json": "vllm",
}


@pytest.mark.parametrize(("name", "engine"), NAMES.items())
def test_a_right_name_is_spelled_as_its_engine_does(name: str, engine: str) -> None:
    meant = parse_tuned_name(f"configs/{name}")
    assert meant is not None
    for one in ("vllm", "sglang") if engine == "both" else (engine,):
        assert format_tuned_name(one, meant) == name
    other = {"vllm": "sglang", "sglang": "vllm"}.get(engine)
    if other and meant.family in ("moe", "dense"):
        assert format_tuned_name(other, meant) != name


@pytest.mark.parametrize(
    "name",
    [
        "e=256, n=512, device_name=NVIDIA_GB10, dtype=FP8_W8A8, block_shape=[128, 128].json",
        "N=512,E=256,device_name=NVIDIA_GB10,dtype=float8,block_shape=(128,128).JSON",
        "E=256,N=512,device_name=NVIDIA GB10,dtype=fp8_w8a8,block_shape=[128,128] (1).json",
    ],
)
def test_a_wrong_name_is_understood(name: str) -> None:
    right, wrong = parse_tuned_name(next(iter(NAMES))), parse_tuned_name(name)
    assert right and wrong
    assert wrong.shape == right.shape


@pytest.mark.parametrize("name", ["config.json", "package.json", "E=256.json", "nvidia_gb10.json", "N=1,K=2.json", ""])
def test_other_files_are_no_tuned_files(name: str) -> None:
    assert parse_tuned_name(name) is None


ROW = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1}
GOOD = json.dumps({"1": ROW, "64": ROW}).encode()
NAME = "E=8,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8.json"


def sglang(version: str, files: dict[str, bytes], *more: str) -> Look:
    folders = {path.split("/")[1] for path in files if path.startswith("configs/")} | set(more)
    return Look(
        engine="sglang",
        version=version,
        triton="3.8.0",
        family="moe",
        files=files,
        folders=sorted(folders),
        dtypes=("fp8_w8a8", None),
        folder="configs",
    )


@pytest.mark.parametrize(
    ("version", "folder", "more", "verdict", "reason"),
    [
        ("0.5.23", "configs/triton_3_8_0", (), "found", ""),
        ("0.5.23", "configs/triton_3_5_0", (), "found", ""),
        ("0.5.10", "configs/triton_3_5_0", (), "not found", "does not take this folder"),
        ("0.5.10", "configs/triton_3_4_0", (), "found", ""),
        ("0.5.23", "configs/triton_3_5_0", ("triton_3_8_0_gb10",), "raises", "every MoE model fails"),
        ("0.5.23", "configs/triton_3_8_0", ("triton_3_8_0_gb10",), "found", ""),
    ],
)
def test_folders_of_triton(version: str, folder: str, more: tuple[str, ...], verdict: str, reason: str) -> None:
    place = f"{folder}/{NAME}"
    found = expected_verdict(sglang(version, {place: GOOD}, *more), parse_tuned_name(place), place)
    assert (found.verdict, reason in " ".join(found.reasons)) == (verdict, True)


def test_the_newest_folder_hides_the_older() -> None:
    old, new = (f"configs/triton_{version}/{NAME}" for version in ("3_5_0", "3_7_1"))
    look = sglang("0.5.23", {old: GOOD, new: GOOD})
    assert expected_verdict(look, parse_tuned_name(new), new).verdict == "found"
    assert expected_verdict(look, parse_tuned_name(old), old).reasons == (f"{new} is read before it",)


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (b'{"triton_version": "3.8.0", "1": {}}', "raises"),
        (b"{}", "found"),
        (b"[]", "raises"),
        (b"\xff", "raises"),
        (b"[" * 100_000, "raises"),
        (b'{" 8 ": {}}', "found"),
    ],
)
def test_contents(content: bytes, verdict: str) -> None:
    place = f"configs/triton_3_8_0/{NAME}"
    assert expected_verdict(sglang("0.5.23", {place: content}), parse_tuned_name(place), place).verdict == verdict


def test_the_nearest_row_is_taken_and_of_two_the_first() -> None:
    rows = {16: "b", 8: "a", 4096: "c"}
    assert [nearest(rows, size) for size in (1, 12, 13, 2052, 2057, 9999)] == [8, 16, 16, 16, 4096, 4096]
    assert used_rows(rows, 64) == {8: "a", 16: "b"}


def test_a_folder_is_read_without_its_links(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.json").write_text("{}", encoding="ascii")
    (tmp_path / "in/a.JSON").write_text("{}", encoding="ascii")
    (tmp_path / "in/link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "in/up").symlink_to(tmp_path)
    assert [given.path for given in read_input_files(tmp_path / "in").files] == ["a.JSON"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        read_input_files(tmp_path / "x.json")
    with pytest.raises(EmptySelectionError, match="no JSON"):
        read_input_files(tmp_path)
    (tmp_path / "large.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_input_files(tmp_path / "large.json")


def test_the_table_knows_two_engines() -> None:
    assert set(read_table(ROOT, "vllm").families) == {"moe", "dense", "mamba", "helion"}
    assert set(read_table(ROOT, "sglang").families) == {"moe", "dense", "lora"}
    with pytest.raises(UsageError, match="does not know the engine 'trt'"):
        read_table(ROOT, "trt")


@pytest.mark.parametrize("kind", ["files", "folders"])
def test_too_many_files_or_folders_are_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "MOST", 2)
    for number in range(2):
        (tmp_path / f"{number}.json").write_text("{}", encoding="ascii")
        (tmp_path / f"{number}").mkdir()
    assert len(read_input_files(tmp_path).files) == 2
    if kind == "files":
        (tmp_path / "more.json").write_text("{}", encoding="ascii")
    else:
        (tmp_path / "more").mkdir()
    with pytest.raises(UsageError, match="holds more than 2 files"):
        read_input_files(tmp_path)
