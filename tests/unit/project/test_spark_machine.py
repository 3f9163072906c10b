"""What scripts/spark-machine refuses, and that it touches nothing that is not its machine. No machine is made here."""

import os
from pathlib import Path

import pytest

from gb10.core.proc import CommandFailedError, capture
from gb10.image.plan.catalog import ROOT

SCRIPT = str(ROOT / "scripts/spark-machine")


def refused(*words: str) -> str:
    with pytest.raises(CommandFailedError) as caught:
        capture([SCRIPT, *words])
    assert caught.value.returncode == 2
    return caught.value.tail


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "scripts/spark-machine [--at DIR] make"),
        (("boot",), "unknown word boot"),
        (("--suite", "sid", "make"), "unknown option --suite"),
        (("--at",), "--at wants a directory"),
        (("make", "now"), "make takes no now"),
        (("stop", "--force"), "stop takes no --force"),
    ],
)
def test_what_is_not_meant_is_refused(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_its_help_lists_each_verb_and_nothing_of_its_code() -> None:
    said = capture([SCRIPT, "--help"])
    assert all(f"[--at DIR] {verb} " in said for verb in ("make", "start", "ssh", "stop", "delete"))
    assert "pipefail" not in said


def test_without_a_machine_there_is_none_to_start_and_nothing_to_stop(tmp_path: Path) -> None:
    at = ("--at", str(tmp_path / "none"))
    assert "spark-machine make" in refused(*at, "start")
    assert "it does not run" in refused(*at, "ssh", "true")
    assert capture([SCRIPT, *at, "stop"]) == capture([SCRIPT, *at, "delete"]) == ""
    assert not (tmp_path / "none").exists()


def test_a_machine_is_not_made_twice(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("mine")
    assert "has a machine" in refused("--at", str(tmp_path), "make")
    assert (tmp_path / "disk").read_text() == "mine"


def test_a_process_that_is_no_machine_of_this_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")  # SIGKILL would end this test
    capture([SCRIPT, "--at", str(tmp_path), "stop"])
    assert "it does not run" in refused("--at", str(tmp_path), "ssh")


def test_files_that_are_not_the_machines_stay(tmp_path: Path) -> None:
    for name in ("disk", "key", "mine"):
        (tmp_path / name).write_text(name)
    with pytest.raises(CommandFailedError, match="exited with 1"):
        capture([SCRIPT, "--at", str(tmp_path), "delete"])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
