"""The nested projects of an engine's own, as its .cmake files have them: read, held against what is handed in."""

import argparse
from pathlib import Path

import pytest
from pydantic import ValidationError

from gb10.image.recipe.image_recipe import Source
from gb10.inside.compile import cmake_nested
from gb10.inside.compile.cmake_nested import Nested

SHA, OTHER = "e74319e3405ce6d71965732880f5dc1f52371f64", "1a" * 20
PLAIN = f"""\
if(DEFINED ENV{{FLASH_KDA_SRC_DIR}})
  set(FLASH_KDA_SRC_DIR $ENV{{FLASH_KDA_SRC_DIR}})
endif()
  FetchContent_Declare(
    flashkda
    GIT_REPOSITORY https://git.invalid/FlashKDA.git
    GIT_TAG {SHA} # not GIT_TAG main
    GIT_SUBMODULES cutlass "third-party/deep"
    GIT_PROGRESS TRUE
  )
define_extension_target(
    _flashkda_C
    DESTINATION vllm)
  # add_custom_target(_old_C)
else()
  add_custom_target(_flashkda_C)
"""
BY_VARIABLE = f"""\
if (DEFINED ENV{{TRITON_KERNELS_SRC_DIR}})
  message(STATUS "from $ENV{{TRITON_KERNELS_SRC_DIR}}")
else()
  if (VLLM_TARGET_DEVICE STREQUAL "rocm")
    set(GIT "https://git.invalid/rocm.git")
    set(TAG "{OTHER}")
  else()
    set(GIT "https://git.invalid/triton.git")
    set(TAG "v3.5.1")
  endif()
  FetchContent_Declare(triton_kernels GIT_REPOSITORY ${{GIT}} GIT_TAG "${{TAG}}" GIT_PROGRESS TRUE)
endif()
add_custom_target(triton_kernels)
foreach(_FA_COMPONENT _fa2_C _fa3_C)
endforeach()
"""


def project(tmp_path: Path, *nested: tuple[str, str, str], **files: str) -> argparse.Namespace:
    """A project with these .cmake files, and what is handed in."""
    folder = tmp_path / cmake_nested.FOLDER
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.cmake").write_text(text, encoding="utf-8")
    (tmp_path / "rust").mkdir()
    (tmp_path / "rust/Cargo.toml").touch()
    return argparse.Namespace(source=tmp_path, nested=nested, arch="12.1f", wheel="vllm")


def test_a_file_is_read_without_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "flashkda.cmake"
    path.write_text(PLAIN, encoding="utf-8")
    assert cmake_nested.read(path) == Nested(
        name="flashkda",
        url="https://git.invalid/FlashKDA.git",
        pin=SHA,
        submodules=("cutlass", "third-party/deep"),
        variable="FLASH_KDA_SRC_DIR",
        targets=("_flashkda_C",),
    )


def test_variables_are_followed_and_what_is_for_rocm_is_not(tmp_path: Path) -> None:
    path = tmp_path / "triton_kernels.cmake"
    path.write_text(BY_VARIABLE, encoding="utf-8")
    found = cmake_nested.read(path)
    assert (found.url, found.pin, found.submodules) == ("https://git.invalid/triton.git", "v3.5.1", None)
    assert found.targets == ("triton_kernels", "_fa2_C", "_fa3_C")


def test_what_is_handed_in_stays_and_the_others_are_emptied(tmp_path: Path) -> None:
    asked = project(tmp_path, ("flashkda", SHA, "/nested"), flashkda=PLAIN, triton_kernels=BY_VARIABLE)
    settings, nested = cmake_nested.hand_in(asked)
    assert settings == {"FLASH_KDA_SRC_DIR": "/nested"}
    assert [one.name for one in nested] == ["flashkda", "triton_kernels"]
    folder = tmp_path / cmake_nested.FOLDER
    assert (folder / "flashkda.cmake").read_text() == PLAIN
    assert (folder / "triton_kernels.cmake").read_text() == 'message(STATUS "left out: triton_kernels")\n'


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("flashkda", OTHER, "/n"), f"the engine names flashkda {SHA}, the source brings {OTHER}: "),
        (("triton_kernels", "v3.5.0", "/n"), r"the engine names triton_kernels v3\.5\.1, the source brings v3\.5\.0"),
        (("flash", SHA, "/n"), "the engine nests no project flash; it nests: flashkda, odd, triton_kernels"),
        (("odd", SHA, "/n"), r"odd\.cmake names no GIT_TAG, or reads no \*_SRC_DIR"),
    ],
)
def test_another_pin_or_what_the_engine_does_not_nest_is_an_error(
    tmp_path: Path, given: tuple[str, str, str], said: str
) -> None:
    asked = project(tmp_path, given, flashkda=PLAIN, triton_kernels=BY_VARIABLE, odd="add_custom_target(x)\n")
    with pytest.raises(SystemExit, match=said):
        cmake_nested.hand_in(asked)
    assert (tmp_path / cmake_nested.FOLDER / "flashkda.cmake").read_text() == PLAIN


def test_the_ways_to_a_target_of_a_project_that_is_not_handed_in(tmp_path: Path) -> None:
    asked = project(tmp_path, flashkda=PLAIN, triton_kernels=BY_VARIABLE)
    nested = cmake_nested.hand_in(asked)[1]
    text = cmake_nested.why_absent("_flashkda_C", nested, asked)
    assert f"a git repository of its own: https://git.invalid/FlashKDA.git at {SHA}" in text
    assert (
        f"""
sources:
  flashkda: {{git: "https://git.invalid/FlashKDA.git", commit: {SHA}, submodules: [cutlass, third-party/deep]}}
wheels:
  vllm:
    nested: {{flashkda: [_flashkda_C]}}"""
        in text
    )
    tagged = cmake_nested.why_absent("_fa2_C", nested, asked)
    assert 'triton_kernels: {git: "https://git.invalid/triton.git", tag: v3.5.1}\n' in tagged
    assert "its submodules: not named: CMake would fetch all there are" in tagged
    assert cmake_nested.why_absent("_C", nested, asked) == ""


@pytest.mark.parametrize("pin", ["main", SHA[:12], "v1.0-rc1", "release/2.0"])
def test_for_a_pin_that_a_recipe_does_not_take_the_full_commit_is_asked_for(tmp_path: Path, pin: str) -> None:
    asked = project(tmp_path, flashkda=PLAIN.replace(f"GIT_TAG {SHA}", f"GIT_TAG {pin}"))
    text = cmake_nested.why_absent("_flashkda_C", cmake_nested.hand_in(asked)[1], asked)
    assert f"the recipe, with the full commit that {pin} stands for, all 40 digits, then ./build.py lock:\n" in text
    assert 'git: "https://git.invalid/FlashKDA.git", commit: <40 digits>, submodules: [' in text
    assert "tag:" not in text


@pytest.mark.parametrize("pin", [SHA, "v3.5.1", "2.0", "main", SHA[:12], SHA.upper(), "v1", "v1.0-rc1", ""])
def test_a_pin_is_named_as_the_schema_takes_it_and_by_nothing_else(pin: str) -> None:
    taken = cmake_nested.kind(pin)
    for name in ("tag", "commit"):
        if name == taken:
            assert Source.model_validate({"git": "https://git.invalid/a", name: pin}).pin == pin
        else:
            with pytest.raises(ValidationError):
                Source.model_validate({"git": "https://git.invalid/a", name: pin})


@pytest.mark.parametrize(
    ("pin", "named", "fits"),
    [
        (SHA, SHA, True),
        (SHA, SHA[:12], True),
        (OTHER, SHA[:12], False),
        (SHA, "main", True),
        (SHA, "v1.0-rc1", True),
        ("v1.0", "main", False),
        (SHA, "v1.0", False),
        ("v1.0", "v1.0", True),
    ],
)
def test_a_full_commit_is_what_a_short_one_or_a_branch_names(pin: str, named: str, fits: bool) -> None:
    assert cmake_nested.meets(pin, named) == fits


def test_the_commit_that_stands_for_a_branch_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cmake_nested.hand_in(
        project(tmp_path, ("flashkda", SHA, "/n"), flashkda=PLAIN.replace(f"GIT_TAG {SHA}", "GIT_TAG main"))
    )
    assert capsys.readouterr().out == f"nested flashkda: {SHA} for the engine's main, by the recipe, in /n\n"


def test_a_target_of_a_project_that_is_handed_in_and_not_compiled(tmp_path: Path) -> None:
    asked = project(tmp_path, ("flashkda", SHA, "/n"), flashkda=PLAIN)
    text = cmake_nested.why_absent("_flashkda_C", cmake_nested.hand_in(asked)[1], asked)
    assert "_flashkda_C is a target of flashkda, not compiled by CMake for 12.1f: leave it out" in text


def test_what_is_left_out_of_all_is_told_with_its_reason(tmp_path: Path) -> None:
    asked = project(tmp_path, ("flashkda", SHA, "/n"), flashkda=PLAIN, triton_kernels=BY_VARIABLE)
    nested = cmake_nested.hand_in(asked)[1]
    assert cmake_nested.left_out(["_C", "_flashkda_C"], nested, asked) == {
        **dict.fromkeys(
            ("triton_kernels", "_fa2_C", "_fa3_C"),
            "of triton_kernels, not handed in: upstream's wheel has what there is",
        ),
        "rust": "Rust, no target of CMake's: from upstream's wheel",
    }
    why = cmake_nested.left_out(["_C"], nested, asked)["_flashkda_C"]
    assert why.startswith("of flashkda, not compiled by CMake for 12.1f: ")
