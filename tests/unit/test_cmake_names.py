"""Names of CMake targets are checked in the project's files, before a stage is prepared."""

import pytest

from gb10.build.cmake_names import is_cmake, require_named
from gb10.errors import UsageError

PROJECT = (
    b"define_extension_target(\n  _C\n  DESTINATION vllm)\n# not here: foo\n",
    b"Python_add_library(spinloop MODULE a.c)\nset(NAMES one_C two_C)\n\xff",
)


def test_a_name_that_a_file_defines_or_lists_is_taken() -> None:
    require_named({"_C", "spinloop", "two_C"}, PROJECT)


def test_a_name_that_only_a_comment_has_is_refused_with_those_that_are_defined() -> None:
    with pytest.raises(UsageError, match="no CMake target _c, foo") as caught:
        require_named({"foo", "_C", "_c"}, PROJECT)
    assert caught.value.where == "defined by name: _C, spinloop"


def test_the_files_that_cmake_reads() -> None:
    assert [name for name in ("CMakeLists.txt", "cmake/a.cmake", "a.txt", "x/CMakeLists.txt.in") if is_cmake(name)] == [
        "CMakeLists.txt",
        "cmake/a.cmake",
    ]
