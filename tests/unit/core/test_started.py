"""Hints and help show commands under the name by which the user started gb10."""

import json
import os
import sys
from pathlib import Path

import pytest

from gb10.cli import main, print_error, tell
from gb10.core.installation import ROOT, as_started, data_root, is_installed, own_command, package_of, program
from gb10.core.proc import capture
from gb10.core.reporter import Reporter
from gb10.errors import UsageError

INSTALLED = "/home/me/.local/bin/gb10"
CHECKOUT = "/home/me/gb10/build.py"


@pytest.mark.parametrize(
    ("started", "name"),
    [
        (INSTALLED, "gb10"),
        ("gb10", "gb10"),
        ("/venv/lib/python3.11/site-packages/gb10/__main__.py", "python3 -m gb10"),
        (CHECKOUT, "./build.py"),
        ("/home/me/gb10/tool.py", "./build.py"),
    ],
)
def test_the_name_of_the_program(started: str, name: str) -> None:
    assert program(started) == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("look at ./build.py engine status, then ./build.py plan", "look at gb10 engine status, then gb10 plan"),
        ('eval "export $(./build.py engine up)"', 'eval "export $(gb10 engine up)"'),
        ("./build.py --help lists the verbs", "gb10 --help lists the verbs"),
        ("no file '../build.py', './build.py'", "no file '../build.py', './build.py'"),
        ("x/./build.py holds nothing", "x/./build.py holds nothing"),
    ],
)
def test_commands_get_the_name_and_paths_stay(text: str, shown: str) -> None:
    assert as_started(text, INSTALLED) == shown
    assert as_started(text, CHECKOUT) == text


def test_errors_and_talk_show_the_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [INSTALLED])
    error = UsageError("a", hint="./build.py lock writes it")
    tell(error, as_json=False)
    print_error(error)
    Reporter({}).say("./build.py plan shows [it]")
    shown = capsys.readouterr()
    assert shown.err == "error: a\nhint: gb10 lock writes it\ngb10 plan shows [it]\n"
    assert json.loads(shown.out)["error"]["hint"] == "gb10 lock writes it"


@pytest.mark.parametrize("words", [[], ["lock"], ["cache", "push"], ["recipe", "lint"], ["engine", "up"]])
def test_help_shows_the_name(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    for started in (INSTALLED, CHECKOUT):
        monkeypatch.setattr(sys, "argv", [started])
        main([*words, "--help"])
        pages.append(capsys.readouterr().out)
    assert "build.py" not in pages[0]
    assert f"./build.py {' '.join(words)}" in pages[1]


def test_the_tool_starts_itself_apart_from_what_python_would_take_by_itself(tmp_path: Path) -> None:
    (tmp_path / "gb10").mkdir()
    module, script = tmp_path / "gb10/__main__.py", tmp_path / "build.py"
    for path in (module, script):
        path.touch()
    assert own_command(str(script))[0] == sys.executable
    assert own_command(str(script))[1] == "-I"
    assert own_command(str(script))[-1] == str(script)
    assert own_command(str(module))[-1] == str(script)
    script.unlink()
    assert own_command(str(module))[-2:] == ["-m", "gb10"]


def test_the_call_by_which_it_starts_itself_takes_no_module_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.py").write_text("raise SystemExit('a module of PYTHONPATH')", encoding="utf-8")
    argv = [*own_command(str(ROOT / "build.py")), "--version"]
    shown = capture(argv, env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert "gb10" in shown


def test_data_lie_beside_the_package_or_in_an_installed_one(tmp_path: Path) -> None:
    package = tmp_path / "gb10"
    package.mkdir()
    assert data_root(package) == tmp_path
    assert package_of(tmp_path) == package
    assert not is_installed(tmp_path)
    (package / "_data").mkdir()
    root = data_root(package)
    assert root == package / "_data"
    assert is_installed(root)
    assert package_of(root) == package


def test_the_call_keeps_how_bytecode_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    for bytecode, places, words in (
        (True, None, ["-I", "-B", "-m"]),
        (False, "/x", ["-I", "-X", "pycache_prefix=/x", "-m"]),
        (False, None, ["-I", "-m"]),
    ):
        monkeypatch.setattr(sys, "dont_write_bytecode", bytecode)
        monkeypatch.setattr(sys, "pycache_prefix", places)
        monkeypatch.setattr(sys, "argv", ["/none/gb10"])
        assert own_command()[1:-1] == words
