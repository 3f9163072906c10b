"""Names of CMake targets are checked in the project's files, before a stage is prepared."""

from pathlib import Path

import pytest

from gb10.core.fetch import stored
from gb10.errors import UsageError
from gb10.image.build import input_checks
from gb10.image.build.input_checks import is_cmake, require_targets, try_targets
from gb10.image.context import open_context
from gb10.image.plan.values import wheel_inputs
from gb10.image.request.planning import Request, make_plan

PROJECT = (
    b"define_extension_target(\n  _C\n  DESTINATION vllm)\n# not here: foo\n",
    b"Python_add_library(spinloop MODULE a.c)\nset(NAMES one_C two_C)\n\xff",
)


def test_a_name_that_a_file_defines_or_lists_is_taken() -> None:
    assert require_targets({"_C", "spinloop", "two_C"}, PROJECT) == []


def test_a_name_that_only_a_comment_has_is_refused_with_those_that_are_defined() -> None:
    with pytest.raises(UsageError, match="no CMake target _c, foo") as caught:
        require_targets({"foo", "_C", "_c"}, PROJECT)
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
    assert require_targets({"_C", "my_x"}, files) == ["my_x"]
    with pytest.raises(UsageError, match="no CMake target My-x"):
        require_targets({"My-x", "my_x"}, files)


def test_a_variable_that_a_function_gets_composes_no_name() -> None:
    function = b"function(define_extension_target MOD_NAME)\n  Python_add_library(${MOD_NAME} a.c)\nendfunction()"
    with pytest.raises(UsageError, match="no CMake target _D"):
        require_targets({"_D"}, (*PROJECT, function, b"add_library(${MOD_NAME}_extra a.c)"))


def test_a_plan_names_known_targets_while_the_source_is_not_downloaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    try_targets(ctx, make_plan(ctx, Request(engine="vllm", arch="12.1f")))
    assert capsys.readouterr().err == ""
    try_targets(ctx, make_plan(ctx, Request(engine="vllm", arch="12.1f", targets=("nope",))))
    assert "known from earlier builds: _C_stable_libtorch, _moe_C_" in capsys.readouterr().err
    assert not list(tmp_path.glob("downloads/*"))


def test_a_plan_checks_targets_when_the_source_is_in_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f", targets=("nope",)))
    origin, *_ = wheel_inputs(plan, "vllm").origins
    ctx.store.write_text(stored(ctx.store, origin.file), "an archive")
    checked: list[str] = []
    monkeypatch.setattr(input_checks, "check_targets", lambda *given: checked.append(given[2].name))
    try_targets(ctx, plan)
    assert (checked, capsys.readouterr().err) == (["vllm"], "")


def test_the_files_that_cmake_reads() -> None:
    assert [name for name in ("CMakeLists.txt", "cmake/a.cmake", "a.txt", "x/CMakeLists.txt.in") if is_cmake(name)] == [
        "CMakeLists.txt",
        "cmake/a.cmake",
    ]
