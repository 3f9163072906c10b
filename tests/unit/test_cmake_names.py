"""Names of CMake targets are checked in the project's files, before a stage is prepared."""

import pytest

from gb10.build.cmake_names import is_cmake, require_named
from gb10.errors import UsageError

PROJECT = (
    b"define_extension_target(\n  _C\n  DESTINATION vllm)\n# not here: foo\n",
    b"Python_add_library(spinloop MODULE a.c)\nset(NAMES one_C two_C)\n\xff",
)


def test_a_name_that_a_file_defines_or_lists_is_taken() -> None:
    assert require_named({"_C", "spinloop", "two_C"}, PROJECT) == []


def test_a_name_that_only_a_comment_has_is_refused_with_those_that_are_defined() -> None:
    with pytest.raises(UsageError, match="no CMake target _c, foo") as caught:
        require_named({"foo", "_C", "_c"}, PROJECT)
    assert caught.value.where == "defined by name: _C, spinloop"


@pytest.mark.parametrize(
    "text",
    [
        "add_library(${PROJECT_NAME}_x MODULE a.c)",
        'Python_add_library("${PROJECT}_${part}" a.c)',
        "foreach(part x y)\n  set(NAME my_${part})\n  add_library(${NAME} a.c)\nendforeach()",
        "foreach(name ${A}_x ${A}_y)\n  define_extension_target(${name} DESTINATION a)\nendforeach()",
        "list(APPEND ALL b my_${p})\nadd_library(${ALL} a.c)",
    ],
)
def test_a_name_that_the_files_can_compose_is_left_to_configure(text: str) -> None:
    files = (*PROJECT, text.encode())
    assert require_named({"_C", "my_x"}, files) == ["my_x"]
    with pytest.raises(UsageError, match="no CMake target My-x"):
        require_named({"My-x", "my_x"}, files)


def test_a_variable_that_a_function_gets_composes_no_name() -> None:
    function = b"function(define_extension_target MOD_NAME)\n  Python_add_library(${MOD_NAME} a.c)\nendfunction()"
    with pytest.raises(UsageError, match="no CMake target _D"):
        require_named({"_D"}, (*PROJECT, function, b"add_library(${MOD_NAME}_extra a.c)"))


def test_the_files_that_cmake_reads() -> None:
    assert [name for name in ("CMakeLists.txt", "cmake/a.cmake", "a.txt", "x/CMakeLists.txt.in") if is_cmake(name)] == [
        "CMakeLists.txt",
        "cmake/a.cmake",
    ]
