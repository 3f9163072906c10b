"""One compiler call of a build stage: its words, and what is noted of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.inside.compile import launch


def called(folder: Path, compiler: str, *words: str) -> list[str]:
    """What the compiler got; the object is m/a.o."""
    program = folder / compiler
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{folder}/got\n')
    program.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "GB10_LAUNCH_LOG": str(folder / "log")}
    argv = [sys.executable, "-IS", str(Path(launch.__file__)), str(program), *words, "-o", "m/a.o"]
    subprocess.run(argv, check=True, env=env)
    return (folder / "got").read_text().splitlines()


def test_nvcc_names_nothing_after_its_process_so_each_compile_gives_the_same_bytes(tmp_path: Path) -> None:
    assert called(tmp_path, "nvcc", "-c", "a.cu") == ["-c", "a.cu", "-o", "m/a.o", "-frandom-seed=m/a.o"]


def test_another_compiler_gets_its_words_unchanged(tmp_path: Path) -> None:
    assert called(tmp_path, "g++", "-O3", "-c", "a.cc") == ["-O3", "-c", "a.cc", "-o", "m/a.o"]


@pytest.mark.parametrize(
    ("words", "passed"),
    [(["-O3"], ["-O1"]), (["-Xptxas", "-O3"], ["-Xptxas", "-O3"]), (["-lineinfo"], [])],
)
def test_words_for_nvcc_are_exchanged_and_those_for_others_are_not(
    tmp_path: Path, words: list[str], passed: list[str]
) -> None:
    assert called(tmp_path, "nvcc", *words)[: len(passed)] == passed


def test_the_call_is_noted_by_its_object(tmp_path: Path) -> None:
    called(tmp_path, "g++", "-c", "a.cc")
    assert json.loads((tmp_path / "log").read_text())["object"] == "m/a.o"
