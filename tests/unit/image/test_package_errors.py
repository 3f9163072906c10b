"""One error for each thing that a package's build asks of its stage in vain."""

from pathlib import Path

import pytest

from gb10.errors import BuildError
from gb10.image.build.compile import diagnosed
from gb10.image.build.package_errors import package_error

LOG = Path("/logs/conv.log")


@pytest.mark.parametrize(
    ("line", "says", "hint"),
    [
        (
            "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
            "to download",
            "FORCE",
        ),
        ("fatal: unable to access 'https://github.com/a/b.git/': Could not resolve host", "to download", "submodules"),
        ("build_python.NotThereError: torch.zeros is asked while the package is built, …", "asks torch.zeros", "patch"),
        ("ModuleNotFoundError: No module named 'pybind11'", "imports pybind11, which its stage lacks", "tools"),
    ],
)
def test_each_cause_is_one_error_with_what_to_do(line: str, says: str, hint: str) -> None:
    found = package_error(LOG, ["+ python3 …", line, "the build of the package exited with 1"])
    assert found is not None
    assert says in found.message
    assert hint in (found.hint or "")
    assert "/logs/conv.log" in (found.where or "")


def test_of_many_downloads_the_last_two_are_shown() -> None:
    lines = [f"host{number}: Temporary failure in name resolution" for number in range(4)]
    found = package_error(LOG, lines)
    assert found is not None
    assert (found.where or "").splitlines() == [*lines[2:], "log: /logs/conv.log"]


def test_what_the_stage_states_is_the_error() -> None:
    text = "package: the wheel does not fit:\na needs libx.so\nb: nothing offers y\nhint: name them\nin headers\n+ next"
    found = package_error(LOG, [*text.splitlines(), "more"])
    assert found is not None
    assert (found.message, found.hint) == ("the wheel does not fit", "name them\nin headers")
    assert found.where == "a needs libx.so\nb: nothing offers y\nlog: /logs/conv.log"


def test_the_stages_own_words_come_before_a_traceback() -> None:
    lines = ["ModuleNotFoundError: No module named 'mesonpy'", "package: the backend mesonpy cannot be imported"]
    found = package_error(LOG, lines)
    assert found is not None
    assert found.message.startswith("the backend mesonpy")


def test_another_log_keeps_its_own_error() -> None:
    error = BuildError("build step failed")
    assert package_error(LOG, ["all is well", ""]) is None
    assert diagnosed(error, LOG, "#5 all is well\n", "conv") is error
    assert "imports numpy" in str(diagnosed(error, LOG, "#5 ModuleNotFoundError: No module named 'numpy'\n", "conv"))
