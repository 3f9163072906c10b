"""vllm/0004 on the real release: its C++ gate and dispatch evaluated, its lines of CMake run; nothing is compiled."""

import re
from functools import lru_cache
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.patches.verdict import Verdict, ask, judge
from gb10.image.plan.catalog import ROOT
from tests.integration.patches.releases import opened, original, variants

pytestmark = pytest.mark.integration

PATCH = "0004-sm120-fp8-moe-in-tree"
VERSIONS = ("0.32.0", "0.33.0")
CUTLASS = "csrc/quantization/w8a8/cutlass"
ENTRY = f"{CUTLASS}/scaled_mm_entry.cu"
OURS, NVFP4 = "ENABLE_CUTLASS_FP8_MOE_SM120", "ENABLE_CUTLASS_MOE_SM120"
OTHERS = {"ENABLE_CUTLASS_MOE_SM90", "ENABLE_CUTLASS_MOE_SM100", NVFP4}
CAPABILITIES = (89, 90, 100, 103, 109, 120, 121, 129, 130)
KERNELS = ROOT / "kernels/moe"
UNITS = {path.name for path in KERNELS.glob("*.cu")}


@lru_cache
def applied(version: str) -> Verdict:
    """The patch on a release."""
    (patch,) = variants("vllm", PATCH)
    release = opened("vllm", version)
    verdict = judge(patch, release.version, release.tree)
    assert verdict.outcome == "applies", verdict.why
    return verdict


def changed(version: str, path: str) -> str:
    content = applied(version).changes[path]
    assert content is not None
    return content.decode()


def arms(text: str, function: str, macros: set[str]) -> list[tuple[str, str]]:
    """The branches of a C++ function that these macros leave: condition and what is done, both as Python."""
    body = re.search(rf"^\w+ {function}\(.*?^\}}", text, re.MULTILINE | re.DOTALL)
    assert body is not None
    lines, stack = [], []
    for line in body[0].splitlines():
        if found := re.match(r"\s*#if defined (\w+)( && \1)?$", line):
            stack.append(found[1] in macros)
        elif line.strip() == "#endif":
            stack.pop()
        elif all(stack):
            assert "#" not in line, f"the test does not know {line!r}"
            lines.append(line)
    branches = re.findall(r"if \(([^()]+)\) \{\s*(?:return )?([^;(]+)", "\n".join(lines))
    return [(condition.replace("&&", "and"), done) for condition, done in branches]


def first(found: list[tuple[str, str]], names: dict[str, int]) -> str | None:
    """What the first branch does whose condition holds."""
    return next((done for condition, done in found if eval(condition, {}, names)), None)  # noqa: S307 - a pinned release


def supported(text: str, macros: set[str], cuda: int) -> set[int]:
    """The capabilities for which the library says that it has grouped FP8 kernels."""
    found = arms(text, "cutlass_group_gemm_supported", {*macros, "CUDA_VERSION"})
    answers = {c: first(found, {"cuda_device_capability": c}) for c in CAPABILITIES}
    return {c for c, answer in answers.items() if answer and eval(answer, {}, {"CUDA_VERSION": cuda})}  # noqa: S307


def called(text: str, macros: set[str]) -> dict[int, str | None]:
    """What the operator calls on each capability; None where it throws."""
    found = arms(text, "cutlass_moe_mm", macros)
    return {c: first(found, {"version_num": c}) for c in CAPABILITIES}


BEFORE = {90: "cutlass_moe_mm_sm90", **dict.fromkeys((100, 103, 109), "cutlass_moe_mm_sm100")}
ON_12X = dict.fromkeys((120, 121, 129), "cutlass_moe_mm_sm120")


@pytest.mark.parametrize("version", VERSIONS)
def test_before_the_library_has_nothing_for_12x_and_says_so(version: str) -> None:
    text = original("vllm", version, ENTRY)
    for macros in ({NVFP4}, OTHERS, OTHERS | {OURS}):
        assert not supported(text, macros, 13000) & set(ON_12X)
        assert not any(called(text, macros)[capability] for capability in ON_12X)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_it_has_and_says_so_and_no_other_capability_moves(version: str) -> None:
    before, after = original("vllm", version, ENTRY), changed(version, ENTRY)
    assert supported(after, {OURS, NVFP4}, 13000) == set(ON_12X)
    assert supported(after, OTHERS | {OURS}, 13000) == supported(before, OTHERS, 13000) | set(ON_12X)
    nothing = dict.fromkeys(CAPABILITIES)
    assert called(after, OTHERS | {OURS}) == nothing | BEFORE | ON_12X
    assert called(after, {OURS, NVFP4}) == nothing | ON_12X


@pytest.mark.parametrize("version", VERSIONS)
def test_the_flag_of_nvfp4_alone_and_an_old_cuda_change_nothing(version: str) -> None:
    before, after = original("vllm", version, ENTRY), changed(version, ENTRY)
    assert supported(after, OTHERS, 13000) == supported(before, OTHERS, 13000)
    assert called(after, OTHERS) == called(before, OTHERS) == dict.fromkeys(CAPABILITIES) | BEFORE
    assert not supported(after, OTHERS | {OURS}, 12070) & set(ON_12X)


def configure(cmake: Path, work: Path, version: str, cuda: str, archs: str) -> dict[str, list[str]]:
    """What the lines for FP8 MoE on 12.x append, by the release's own choice of architectures."""
    for path, content in applied(version).changes.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content or b"")
    (work / "utils.cmake").write_text(original("vllm", version, "cmake/utils.cmake"))
    text = (work / "CMakeLists.txt").read_text(encoding="utf-8")
    lines = text[text.index("  # FP8 MoE on SM12x.") : text.index("  # moe_data.cu is used by all")]
    (work / "lines.cmake").write_text(
        "cmake_minimum_required(VERSION 3.26)\ninclude(utils.cmake)\n"
        'function(set_gencode_flags_for_srcs)\n  message(NOTICE "GENCODE=${ARGV}")\nendfunction()\n'
        f'set(CMAKE_CUDA_COMPILER_VERSION {cuda})\nset(CUDA_ARCHS "{archs}")\n{lines}'
        'message(NOTICE "SRC=${VLLM_STABLE_EXT_SRC}\nFLAGS=${VLLM_GPU_FLAGS}")\n'
    )
    told = capture(["/bin/sh", "-c", 'exec "$0" -P lines.cmake 2>&1', str(cmake)], cwd=work)
    return {name: value.split(";") for name, value in re.findall(r"^(\w+)=(.*)$", told, re.MULTILINE)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("13.0.88", "12.0"), "12.0f"),  # what 12.1, 12.1a and 12.1f become
        (("13.0.88", "9.0;12.0f"), "12.0f"),
        (("13.0.88", "12.1a"), "12.1a"),
        (("12.9.86", "12.1"), "12.1a"),
        (("13.0.88", "9.0;10.0f;11.0"), ""),
        (("12.6.85", "12.0"), ""),
    ],
)
def test_every_unit_is_compiled_for_the_family_and_only_then_the_flag_is_set(
    version: str, target: tuple[str, str], expected: str, cmake: Path, tmp_path: Path
) -> None:
    told = configure(cmake, tmp_path, version, *target)
    if not expected:
        assert told == {"SRC": [""], "FLAGS": [""]}
        return
    paths = {f"{tmp_path}/{CUTLASS}/moe/gb10/{name}" for name in UNITS}
    assert set(told["SRC"]) == paths | {f"{CUTLASS}/moe/grouped_mm_c3x_sm120.cu"}
    assert all((tmp_path / path).is_file() for path in told["SRC"])
    assert told["FLAGS"] == [f"-D{OURS}=1"]
    assert told["GENCODE"][-2:] == ["CUDA_ARCHS", expected]
    assert set(told["SRC"]) < set(told["GENCODE"])


def test_every_tile_is_in_one_unit() -> None:
    tiles = re.findall(r"^  X\((\w+), ", (KERNELS / "tiles.h").read_text(encoding="utf-8"), re.MULTILINE)
    texts = [(KERNELS / name).read_text(encoding="utf-8") for name in UNITS]
    assert sorted(tiles) == sorted(re.findall(r"^GB10_UNIT\((\w+)\)$", "".join(texts), re.MULTILINE))


def test_the_kernels_are_the_checkouts_own_without_what_registers_an_operator() -> None:
    (patch,) = variants("vllm", PATCH)
    folder = f"{CUTLASS}/moe/gb10"
    laid = {path for path in patch.files if path.startswith(f"{folder}/")}
    assert laid == {f"{folder}/{path.name}" for path in KERNELS.iterdir()} - {f"{folder}/ops.cpp"}
    assert {f"{folder}/{name}" for name in UNITS} < laid
    assert not any(b"STABLE_TORCH_LIBRARY" in content for content in patch.files.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_half_of_it_is_an_unknown_shape_and_all_of_it_is_there(version: str) -> None:
    verdict, release = applied(version), opened("vllm", version)
    whole = Changed(release.tree, verdict.changes)
    assert judge(verdict.patch, release.version, whole).outcome == "already-upstream"
    shell = f"{CUTLASS}/moe/grouped_mm_c3x_sm120.cu"
    for path in ("CMakeLists.txt", ENTRY, shell, f"{CUTLASS}/moe/gb10/call.h"):
        half = Changed(release.tree, {**verdict.changes, path: release.tree.read(path)})
        assert judge(verdict.patch, release.version, half).outcome == "unknown-shape", path


def test_a_wheel_is_not_compiled_any_more(tmp_path: Path) -> None:
    (patch,) = variants("vllm", PATCH)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").touch()
    assert ask(patch.record, open_tree(tmp_path)).answer == "absent"
    assert not patch.installable
