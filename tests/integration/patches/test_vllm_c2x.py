"""vllm/0005 on the real release: its C++ dispatch evaluated, its lines of CMake run; nothing is compiled."""

import re
from pathlib import Path

import pytest

from gb10.core.proc import capture
from tests.integration.patches.releases import original, patched

pytestmark = pytest.mark.integration

PATCH = "0005-scaled-mm-c2x-before-sm90"
VERSIONS = ("0.32.0", "0.33.0")
FOLDER = "csrc/quantization/w8a8/cutlass"
ENTRY, GUARDS = f"{FOLDER}/scaled_mm_entry.cu", "csrc/cutlass_extensions/common.hpp"
ON_12X = {"ENABLE_SCALED_MM_C2X", "ENABLE_SCALED_MM_SM120"}
"""What a build for 12.x alone defines, before."""


def called(version: str, function: str, macros: set[str]) -> dict[int, str | None]:
    """The kernels that an operator takes, by capability; None where it stops."""
    body = re.search(rf"^void {function}\(.*?^\}}", original("vllm", version, ENTRY), re.MULTILINE | re.DOTALL)
    assert body is not None
    kept = re.sub(
        r"#if defined (\w+) && \1\n(.*?)#endif",
        lambda part: part[2] if part[1] in macros else "",
        body[0],
        flags=re.DOTALL,
    )
    branches = re.findall(r"if \((version_num [^{]+)\) \{(.*?)\}", kept, re.DOTALL)
    chosen = [
        (condition.replace("&&", "and"), re.findall(rf"\b{function}_sm\d+", done)) for condition, done in branches
    ]
    last = re.findall(rf"\b{function}_sm\d+", re.sub(r"\{[^{}]*\}", "", kept))  # behind all branches
    return {
        capability: next(
            (names[0] for condition, names in chosen if eval(condition, {}, {"version_num": capability})),  # noqa: S307
            last[0] if last else None,
        )
        for capability in (75, 80, 86, 89, 90, 100, 120, 121)
    }


def guarded(version: str, name: str) -> str:
    """The condition under which a kernel of this guard is more than a trap, as Python."""
    text = original("vllm", version, GUARDS)
    found = re.search(rf"struct {name} .*?  #if (.*?)\n(.*?)#else(.*?)#endif", text, re.DOTALL)
    assert found is not None
    assert "::invoke" in found[2]
    assert "trap" in found[3]
    return found[1].replace("&&", "and").strip()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_12x_takes_of_the_unit_is_a_trap(version: str) -> None:
    plain, azp = (called(version, f"cutlass_scaled_mm{suffix}", ON_12X) for suffix in ("", "_azp"))
    assert {plain[120], plain[121]} == {"cutlass_scaled_mm_sm120"}
    assert {azp[120], azp[121]} == {"cutlass_scaled_mm_azp_sm80"}
    assert (azp[89], azp[86], azp[75]) == tuple(f"cutlass_scaled_mm_azp_sm{one}" for one in (89, 80, 75))
    dispatch = original("vllm", version, f"{FOLDER}/scaled_mm_c2x_sm80_dispatch.cuh")
    assert set(re.findall(r"enable_sm\w+", dispatch)) == {"enable_sm80_to_sm89"}
    runs = guarded(version, "enable_sm80_to_sm89")
    assert [eval(runs, {}, {"__CUDA_ARCH__": arch}) for arch in (800, 860, 890, 1200)] == [True, True, False, False]  # noqa: S307


@pytest.mark.parametrize("version", VERSIONS)
def test_without_the_unit_the_operator_stops_by_its_own_error(version: str) -> None:
    alone = ON_12X - {"ENABLE_SCALED_MM_C2X"}
    assert called(version, "cutlass_scaled_mm_azp", alone)[121] is None
    assert called(version, "cutlass_scaled_mm", alone)[121] == "cutlass_scaled_mm_sm120"


def compiled_for(cmake: Path, work: Path, version: str, text: str, archs: str) -> str:
    """The architectures that the release's own lines choose for the unit; empty where it is not compiled."""
    (work / "utils.cmake").write_text(original("vllm", version, "cmake/utils.cmake"))
    begin = text.index("  # For the cutlass_scaled_mm kernels we want to build the c2x")
    lines = text[begin : text.index("\n  #\n", begin)]
    (work / "lines.cmake").write_text(
        "cmake_minimum_required(VERSION 3.26)\ninclude(utils.cmake)\nfunction(set_gencode_flags_for_srcs)\n"
        f'endfunction()\nset(CUDA_ARCHS "{archs}")\nset(SCALED_MM_3X_ARCHS "9.0a;12.0f")\n{lines}\n'
        'message(NOTICE "UNIT=${VLLM_STABLE_EXT_SRC} ARCHS=${SCALED_MM_2X_ARCHS}")\n'
    )
    told = capture(["/bin/sh", "-c", 'exec "$0" -P lines.cmake 2>&1', str(cmake)], cwd=work)
    found = re.search(r"^UNIT=(.*) ARCHS=(.*)$", told, re.MULTILINE)
    assert found is not None
    assert bool(found[1]) == bool(found[2])
    return found[2]


CHOICES = {
    "12.0": ("8.9+PTX", ""),
    "12.1": ("8.9+PTX", ""),
    "9.0;10.0;12.0": ("8.9+PTX", ""),
    "8.9;12.0": ("8.9+PTX", "8.9+PTX"),
    "8.6": ("8.0", "8.0"),
    "8.0;9.0;12.0": ("8.0;8.9+PTX", "8.0"),
    "7.5;8.0;8.6;8.9;9.0;10.0;12.0": ("7.5;8.0;8.9+PTX", "7.5;8.0;8.9+PTX"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("archs", CHOICES)
def test_only_devices_below_9_0_get_the_unit(version: str, archs: str, cmake: Path, tmp_path: Path) -> None:
    lines = (original("vllm", version, "CMakeLists.txt"), patched("vllm", version, PATCH, "CMakeLists.txt"))
    assert tuple(compiled_for(cmake, tmp_path, version, text, archs) for text in lines) == CHOICES[archs]
