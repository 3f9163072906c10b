"""The installed package: built as users build it, in an environment of its own, far from any checkout."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from bootstrap.install import PIP
from gb10 import __version__
from gb10.core.proc import capture
from gb10.core.reporter import Reporter
from gb10.image.build.wheels import Wheel, show_in_checkout
from gb10.image.context import Context, open_context
from gb10.image.plan.catalog import ROOT, Catalog
from tests.integration.nodes import build_py

pytestmark = [pytest.mark.integration, pytest.mark.slow]
NEEDED = (
    *("LICENSE", "NOTICE", "README.md", "benches", "docs", "gb10", "kernels", "mods", "patches", "recipes"),
    "templates",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the package; what the package needs comes from the environment of these tests."""
    folder = tmp_path_factory.mktemp("installed")
    for name in (*NEEDED, "pyproject.toml"):
        copied(ROOT / name, folder / "source" / name)
    venv.create(folder / "venv", symlinks=True)
    pip = [str(folder / "venv/bin/python"), "-I", str(PIP / "pip"), "install", "--quiet", "--no-deps"]
    capture([*pip, str(folder / "source")], env=os.environ)
    packages = next((folder / "venv/lib").glob("python3.*/site-packages"))
    ours = next(Path(sys.prefix, "lib").glob("python3.*/site-packages"))
    (packages / "needed.pth").write_text(f"{ours}\n", encoding="utf-8")
    return folder / "venv"


def copied(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(path, target)


def gb10(site: Path, *arguments: str) -> str:
    return capture([str(site / "bin/gb10"), *arguments], env=os.environ, cwd=site)


def test_it_says_its_version_under_its_own_name(site: Path) -> None:
    assert gb10(site, "--version").startswith(f"gb10 {__version__} ")
    assert gb10(site, "plan", "--help").startswith("Usage: gb10 plan ")


def test_it_has_the_limits_of_its_guard_and_a_book_for_its_load(site: Path, tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text("Paris is the capital of France.", encoding="utf-8")
    assert gb10(site, "bench", "guard", str(tmp_path / "answer.txt")).startswith("OK ")
    code = "from gb10.serving.load_generator.benchy import find_book; print(len(find_book(None, {}).text))"
    assert int(capture([str(site / "bin/python"), "-c", code], env=os.environ, cwd=site)) > 100_000


@pytest.mark.parametrize("words", [[], ["image"], ["patches"], ["patches", "status"], ["engine", "up"]])
def test_its_help_names_the_command(site: Path, words: list[str]) -> None:
    page = gb10(site, *words, "--help")
    assert "build.py" not in page
    assert f"gb10 {' '.join(words) or 'image'}" in page.partition("\n")[2]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([], "gb10 image --help"),
        (["help"], "gb10 --help"),
        (["image", "--no-such"], "gb10 image --help"),
        (["cache", "gc"], "gb10 cache gc --keep 50GB"),
        (["plan", "--mod", "./no-such"], "gb10 mods list"),
    ],
)
def test_its_errors_name_the_command(site: Path, words: list[str], command: str) -> None:
    argv = [str(site / "bin/gb10"), *words, *(["--json"] if words else [])]
    run = subprocess.run(argv, cwd=site, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert command in run.stderr
    assert "build.py" not in run.stdout + run.stderr
    assert not words or command in json.loads(run.stdout)["error"]["hint"]


@pytest.mark.parametrize("arguments", [[], ["--mod", "fixed-memory"], ["--targets", "all"]])
def test_it_plans_the_same_keys_as_the_checkout(site: Path, arguments: list[str]) -> None:
    installed, own = (json.loads(text) for text in plans(site, arguments))
    assert keys(installed) == keys(own)
    assert installed["tags"] == own["tags"]


def plans(site: Path, arguments: list[str]) -> tuple[str, str]:
    command = ["plan", "--json", *arguments]
    return gb10(site, *command), build_py(*command, env=dict(os.environ))


def keys(plan: dict[str, Any]) -> dict[str, str]:
    return {"plan": plan["key"], **{step["name"]: step["key"] for step in plan["steps"]}}


def test_it_completes_the_names_of_its_mods(site: Path) -> None:
    env = {**os.environ, "COMP_WORDS": "gb10 image --mod moe", "COMP_CWORD": "3", "_GB10_COMPLETE": "complete_bash"}
    assert "moe-configs" in capture([str(site / "bin/gb10")], env=env)


def test_a_compiled_wheel_is_not_linked_into_it(site: Path, tmp_path: Path) -> None:
    real = open_context(os.environ, verbosity=-1)
    root = next(site.glob("lib/python3.*/site-packages/gb10/_data"))
    ctx = Context(env=real.env, store=real.store, reporter=Reporter({}, verbosity=-1), catalog=Catalog(root))
    show_in_checkout(ctx, Wheel(name="a", key="k", path=tmp_path / "a.whl", sha256="0" * 64, hit=False))
    assert not (root / "wheels").exists()


def test_it_ends_by_sigterm_as_by_ctrl_c(site: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "gb10/config.toml"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    with (
        subprocess.Popen([str(site / "bin/gb10"), "config", "show"], env=env, stderr=subprocess.PIPE, text=True) as run,
        pipe.open("w"),
    ):  # opens when the command reads
        run.terminate()
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (130, "interrupted; run the same command again to continue\n")
