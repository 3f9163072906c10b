"""Tuned files: what their names mean, what our rules expect each engine to do with them, and which are near."""

import json
from itertools import product
from typing import Any, Final

from gb10.image.moe.expected import (
    Expected,
    Look,
    difference,
    expected_verdict,
    nearest,
    rows_of,
    stop_reason,
    used_rows,
)
from gb10.image.moe.tuned_name import Family, TunedName, format_tuned_name, nearest_files, parse_tuned_name
from tests.golden.conftest import Golden, section

MOE: Final = "E=8,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8"
NAMES: Final = (
    f"{MOE}.json",
    f"{MOE}_down.json",
    f"{MOE} down .json",
    f"{MOE},block_shape=[128, 64],per_channel_quant=True.json",
    f"{MOE},block_shape=128x64,per_channel_quant=1_down.json",
    f"{MOE},block_shape=[0, 0],per_channel_quant=False.json",
    "E=8,N=512,device_name=NVIDIA_H100.json",
    "E = 8, N = 512.json",
    "e=8,n=512,dtype=BF16.json",
    "E=8,N=512,dtype=int4_down.json",
    "E=1234567890,N=512.json",
    "N=512,K=1024,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128].json",
    "N=512,K=1024,device_name=NVIDIA_GB10.json",
    "headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=bfloat16.json",
    "headdim=64,dstate=128.json",
    "headdim=64.json",
    "lora_shrink,K=4096,R=64,S=3,device=NVIDIA_GB10.json",
    "LORA_EXPAND,K=4096,R=64,S=3.json",
    "lora_shrink,K=4096,R=64.json",
    "silu_mul_fp8/nvidia_gb10.json",
    "silu_mul_fp8/NVIDIA GB10-x.json",
    "silu_mul_fp8/other.json",
    "nvidia_gb10.json",
)


def test_names_of_tuned_files(golden: Golden) -> None:
    found = []
    for name in NAMES:
        meant = parse_tuned_name(f"configs/{name}")
        if meant is None:
            found.append(f"{name}: of no family")
            continue
        spelled = "; ".join(dict.fromkeys(format_tuned_name(engine, meant) for engine in ("vllm", "sglang")))
        found.append(f"{name}: {meant.family} {dict(meant.shape)} on {meant.device!r}\n  {spelled}")
    for asked in (NAMES[0], NAMES[3], NAMES[11], "x.json"):
        near = nearest_files(asked, [f"a/{name}" for name in NAMES if name != NAMES[3]])
        found.append(section(f"near {asked}", "\n".join(near) or "nothing"))
    golden("render/tuned-names.txt", "\n".join(found) + "\n")


ROW: Final[dict[str, Any]] = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "num_warps": 4}
CONTENTS: Final[dict[str, bytes]] = {
    "good": json.dumps({"1": ROW, "64": ROW}).encode(),
    "of no row": b"{}",
    "with a version": json.dumps({"triton_version": "3.8.0", "1": ROW}).encode(),
    "with odd keys": json.dumps({"x": ROW, "1": ROW}).encode(),
    "with a row of another kind": json.dumps({"1": ROW, "9000": 3}).encode(),
    "with a row that lacks keys": json.dumps({"1": {"num_warps": 1}, "9000": ROW}).encode(),
    "with a text as size": json.dumps({"1": ROW, "9000": {**ROW, "BLOCK_SIZE_M": "16"}}).encode(),
    "of a list": b"[]",
    "of entries": b'[{"key": null, "config": {}}, {"key": {}, "config": {}}]',
    "of odd entries": b'[{"key": 3, "config": {}}]',
    "of entries without a config": b'[{"key": {}, "config": 1}]',
    "of no JSON": b"{",
    "of no text": b"\xff",
}
FAMILIES: Final[dict[Family, str]] = {
    "moe": NAMES[0],
    "dense": NAMES[11],
    "mamba": "headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=float32.json",
    "lora": NAMES[16],
    "helion": NAMES[19],
}


def look(engine: str, family: Family, files: dict[str, bytes], version: str = "0.5.23", **more: Any) -> Look:  # noqa: ANN401
    shown = {path.split("/")[1] for path in files if path.startswith("c/")}
    known: dict[str, Any] = {"folders": sorted(shown), "dtypes": ("fp8_w8a8", None), "folder": "c", **more}
    return Look(engine=engine, version=version, triton="3.8.0", family=family, files=files, **known)


def told(found: Expected) -> str:
    return f"{found.verdict}{''.join(f'; {reason}' for reason in found.reasons)}"


def test_what_engines_do_with_tuned_files(golden: Golden) -> None:
    found = []
    for engine, (family, name), (title, content) in product(("vllm", "sglang"), FAMILIES.items(), CONTENTS.items()):
        place = f"c/triton_3_8_0/{name}" if engine == "sglang" and family in ("moe", "lora") else name
        verdict = expected_verdict(look(engine, family, {place: content}), parse_tuned_name(place), place)
        found.append(f"{engine}, {family} {title}: {told(verdict)}")
    down = "E=8,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8_down.json"
    for title, content in CONTENTS.items():
        files = {f"c/triton_3_8_0/{down}": content, f"c/triton_3_8_0/{NAMES[0]}": CONTENTS["good"]}
        place = next(iter(files))
        verdict = expected_verdict(look("sglang", "moe", files), parse_tuned_name(place), place)
        found.append(f"sglang, down {title}: {told(verdict)}")
    golden("render/tuned-files.txt", "\n".join(found) + "\n")


def test_places_that_engines_do_not_look_at(golden: Golden) -> None:
    good, found = CONTENTS["good"], list[str]()
    cases: list[tuple[str, str, str, dict[str, bytes], dict[str, Any]]] = [
        ("sglang", "0.5.23", "c/triton_3_5_0/{}", {}, {}),
        ("sglang", "0.5.11", "c/triton_3_4_0/{}", {}, {}),
        ("sglang", "0.5.11", "c/triton_3_5_0/{}", {}, {}),
        ("sglang", "0.5.12", "c/triton_3_5_0/{}", {}, {}),
        ("sglang", "0.5.23", "c/triton_3_5_0/{}", {"c/triton_3_10_0/{}": good}, {}),
        ("sglang", "0.5.23", "c/triton_3_5_0/{}", {"c/triton_3_x_0/{}": good}, {}),
        ("sglang", "0.5.23", "c/{}", {}, {"folders": None}),
        ("sglang", "0.5.23", "c/triton_3_8_0/{}", {}, {"folders": None}),
        ("vllm", "0.33.0", "c/triton_3_8_0/{}", {}, {}),
        ("vllm", "0.33.0", "{}", {}, {"dtypes": (None, "int8_w8a8", "fp4")}),
    ]
    for family in ("moe", "lora"):
        name = FAMILIES[family]
        for engine, version, place, others, more in cases:
            files = {place.format(name): good, **{path.format(name): text for path, text in others.items()}}
            one = place.format(name)
            verdict = expected_verdict(look(engine, family, files, version, **more), parse_tuned_name(one), one)
            found.append(
                f"{engine} {version}, {family} at {place.format('NAME')} {list(others)} {more}: {told(verdict)}"
            )
    for name in (f"{MOE.lower()}.json", f"{MOE} .json", NAMES[6], NAMES[3]):
        verdict = expected_verdict(look("vllm", "moe", {name: good}), parse_tuned_name(name), name)
        found.append(f"vllm, {name}: {told(verdict)}")
    found.append(f"no family: {told(expected_verdict(look('vllm', 'moe', {}), None, 'x'))}")
    golden("render/tuned-places.txt", "\n".join(found) + "\n")


def test_differences_and_rows() -> None:
    assert difference("ABC", "abc") == "capital letters count"
    assert difference("a b", "ab") == "blanks count"
    assert difference("abX", "abcd") == "from character 3 it has 'X', not 'cd'"
    assert difference("ab", "abc") == "from character 3 it has '', not 'c'"
    rows = {1: "a", 4: "b", 8: "c"}
    assert [nearest(rows, size) for size in (1, 2, 3, 6, 7, 99)] == [1, 1, 4, 4, 8, 8]
    assert used_rows(rows, 5) == {1: "a", 4: "b"}
    assert used_rows(rows, 6) == {1: "a", 4: "b"}
    assert used_rows(rows, 7) == rows
    assert rows_of("vllm", "mamba", {"x": 1, "2": 3}) == {2: 3}
    assert rows_of("sglang", "dense", {"triton_version": 1}) != {}
    dense = TunedName("dense", {"N": 1, "K": 1, "block": [1, 1]}, "")
    far = {1: ROW, 9000: {}}
    assert stop_reason("sglang", "0.5.14", dense, far, 8) == "the row of 9000 has no BLOCK_SIZE_K"
    assert stop_reason("sglang", "0.5.13", dense, far, 8) is None
    assert stop_reason("vllm", "0.33.0", dense, far, 9000) is None
