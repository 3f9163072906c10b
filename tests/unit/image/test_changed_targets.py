"""Which CMake targets read a changed file, on a small project in vLLM's style, and on damaged ones."""

import random
from pathlib import Path

import pytest

from gb10.image.patches.source_tree import Folder
from gb10.image.request.changed_targets import targets_of, targets_with_sources
from tests.hang import no_hang

CMAKE = """\
# define_extension_target(commented SOURCES csrc/a.cu)
include(${CMAKE_CURRENT_LIST_DIR}/cmake/utils.cmake)
if (NOT VLLM_TARGET_DEVICE STREQUAL "cuda")
  include(${CMAKE_CURRENT_LIST_DIR}/cmake/cpu.cmake)
endif()
set(EXT_SRC
  "csrc/a.cu"
  "csrc/ops.cpp")
if(VLLM_GPU_LANG STREQUAL "CUDA")
  list(APPEND EXT_SRC "csrc/cuda_only.cu")
  cuda_archs_loose_intersection(ARCHS "12.0f" "${CUDA_ARCHS}")
  if(ARCHS)
    set(SRCS "csrc/sm120.cu")
    list(APPEND EXT_SRC "${SRCS}")
  endif()
endif()
define_extension_target(_C DESTINATION vllm LANGUAGE ${VLLM_GPU_LANG} SOURCES ${EXT_SRC} COMPILE_FLAGS ${FLAGS})
set(SRCS "csrc/moe/topk.cu")
file(GLOB GENERATED "csrc/moe/gen/kernel_*.cu")
list(APPEND SRCS ${GENERATED})
define_extension_target(
  _moe_C
  SOURCES ${SRCS}
  WITH_SOABI)
if(VLLM_GPU_LANG STREQUAL "HIP")
  define_extension_target(_rocm_C SOURCES csrc/rocm/attention.cu)
endif()
include(cmake/external_projects/other.cmake)
"""
FILES = {
    "CMakeLists.txt": CMAKE,
    "cmake/utils.cmake": "macro(nothing)\nendmacro()\n",
    "cmake/cpu.cmake": "define_extension_target(_cpu_C SOURCES csrc/cpu/x.cpp)\n",
    "cmake/external_projects/other.cmake": "define_extension_target(_other_C SOURCES csrc/a.cu)\n",
    "csrc/a.cu": '#include "common.h"\n',
    "csrc/ops.cpp": '#include "../csrc/ops.h"\n',
    "csrc/cuda_only.cu": "",
    "csrc/sm120.cu": "#  include <deep/one.cuh>\n",
    "csrc/deep/one.cuh": '#include "two.cuh"\n',
    "csrc/deep/two.cuh": '#include "one.cuh"\n',
    "csrc/common.h": "",
    "csrc/ops.h": "",
    "csrc/moe/topk.cu": '#include "../common.h"\n',
    "csrc/moe/gen/generate.py": "",
    "csrc/moe/gen/template.h": '#include "core/inner.h"\n',
    "csrc/core/inner.h": "",
    "csrc/rocm/attention.cu": '#include "rocm.h"\n',
    "csrc/rocm/rocm.h": "",
    "csrc/cpu/x.cpp": "",
    "csrc/nobody.cu": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Folder:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Folder(tmp_path)


def test_the_targets_for_an_nvidia_gpu(tree: Folder) -> None:
    assert targets_with_sources(tree) == {
        "_C": ("csrc/a.cu", "csrc/ops.cpp", "csrc/cuda_only.cu", "csrc/sm120.cu"),
        "_moe_C": ("csrc/moe/topk.cu", "csrc/moe/gen/kernel_*.cu"),
    }


@pytest.mark.parametrize(
    ("changed", "targets", "unknown"),
    [
        (["csrc/a.cu"], ("_C",), ()),
        (["csrc/deep/two.cuh"], ("_C",), ()),
        (["csrc/common.h"], ("_C", "_moe_C"), ()),
        (["csrc/ops.h"], ("_C",), ()),
        (["csrc/moe/gen/template.h"], ("_moe_C",), ()),
        (["csrc/moe/gen/generate.py"], ("_moe_C",), ()),
        (["csrc/core/inner.h"], ("_moe_C",), ()),
        (["csrc/rocm/rocm.h", "csrc/cpu/x.cpp"], (), ()),
        (["csrc/nobody.cu", "csrc/a.cu"], ("_C",), ("csrc/nobody.cu",)),
        (["CMakeLists.txt"], (), ("CMakeLists.txt",)),
        (["cmake/utils.cmake"], (), ("cmake/utils.cmake",)),
        (["cmake/external_projects/other.cmake"], (), ()),
        (["csrc/README.md"], (), ()),
        ([], (), ()),
    ],
)
def test_what_reads_a_changed_file(
    tree: Folder, changed: list[str], targets: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    found = targets_of(tree, changed)
    assert (found.targets, found.unknown) == (targets, unknown)


LISTED = {
    "_C": {
        "csrc/a.cu": frozenset({"csrc/a.cu", "csrc/common.h"}),
        "csrc/sm120.cu": frozenset({"csrc/sm120.cu", "csrc/deep/one.cuh", "csrc/deep/two.cuh", "csrc/nobody.cu"}),
    }
}


@pytest.mark.parametrize(
    ("changed", "targets", "units"),
    [
        (["csrc/deep/two.cuh"], ("_C",), {"_C": ("csrc/sm120.cu",)}),
        (["csrc/common.h"], ("_C", "_moe_C"), {"_C": ("csrc/a.cu",)}),  # of _moe_C the text decides
        (["csrc/nobody.cu"], ("_C",), {"_C": ("csrc/sm120.cu",)}),  # by a macro, which the text does not show
        (["csrc/ops.h"], ("_C",), {}),  # in no list: the text decides
        (["csrc/moe/gen/generate.py"], ("_moe_C",), {}),
        (["csrc/a.cu", "csrc/deep/one.cuh"], ("_C",), {"_C": ("csrc/a.cu", "csrc/sm120.cu")}),
    ],
)
def test_the_compilers_own_lists_come_before_the_text(
    tree: Folder, changed: list[str], targets: tuple[str, ...], units: dict[str, tuple[str, ...]]
) -> None:
    found = targets_of(tree, changed, LISTED)
    assert (found.targets, found.unknown, found.units) == (targets, (), units)


def test_a_file_that_the_lists_have_is_not_read_by_a_target_whose_text_alone_includes_it(tree: Folder) -> None:
    """Both sides of a condition count in the text; the compiler saw one."""
    listed = {**LISTED, "_moe_C": {"csrc/moe/topk.cu": frozenset({"csrc/moe/topk.cu"})}}
    assert targets_of(tree, ["csrc/common.h"]).targets == ("_C", "_moe_C")
    assert targets_of(tree, ["csrc/common.h"], listed).targets == ("_C",)


@no_hang()
def test_a_hostile_project_ends(tree: Folder) -> None:
    """Loops of includes, unending parentheses and quotes, sets that double: bounded, and no error."""
    main = tree.root / "CMakeLists.txt"
    texts = [
        "include(CMakeLists.txt)\n" * 50,
        "set(" * 100_000,
        'set(A "' * 50_000,
        "((((" * 100_000 + "))" * 100_000,
        'set(A x y)\nset(A "${A};${A}")\n' + 'set(A "${A};${A}")\n' * 60,
    ]
    for text in texts:
        main.write_text(text, encoding="utf-8")
        targets_of(tree, ["csrc/a.cu"])
    rng = random.Random(7)  # noqa: S311 - other bytes, the same each time
    for _ in range(60):
        data = bytearray(CMAKE.encode())
        for _ in range(5):
            data[rng.randrange(len(data))] = rng.randrange(256)
        main.write_bytes(bytes(data))
        targets_of(tree, ["csrc/a.cu"])
