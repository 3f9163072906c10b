"""The oldest releases of all that the tool says it needs, for real: every verb starts, and some do their work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gb10.containers.embedded.daemon import down
from gb10.core.proc import capture
from gb10.core.store import open_store
from gb10.image.plan.catalog import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
HELP = """\
import io, sys, typer
from contextlib import redirect_stdout
from gb10.cli import main
from gb10.cli.app import app
group = typer.main.get_command(app)
context = typer.Context(group)
names = [[name] for name in group.list_commands(context)]
for (name,) in list(names):
    verb = group.get_command(context, name)
    inner = verb.list_commands(typer.Context(verb)) if hasattr(verb, "list_commands") else []
    names += [[name, one] for one in inner]
for words in names:
    with redirect_stdout(io.StringIO()) as page:
        code = main([*words, "--help"])
    print(code, "Usage: " in page.getvalue(), *words)
"""
"""Starts every verb, and every verb of a group, in one process."""
CALLS = (
    "plan --json",
    "plan --engine sglang",
    "image --dry-run --json",
    "wheels --dry-run",
    "recipe list",
    "recipe lint qwen3-0.6b",
    "recipe show qwen3-0.6b",
    "recipe render qwen3-0.6b --as k8s",
    "recipe memory qwen3-0.6b",
    "run qwen3-0.6b --dry-run",
    "mods list",
    "cache ls",
    "engine status",
    "config show",
    "bench gemm --dry-run",
    "bench guard LICENSE",
)
"""Calls that need neither network nor engine; each loads a good part of what the tool depends on."""
REFUSED = (("plan --no-such", "no option --no-such"), ("stop no-such-service", "no-such-service"))


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the oldest release of each of pyproject's dependencies."""
    folder = tmp_path_factory.mktemp("oldest")
    uv = [str(Path(sys.prefix, "bin/uv"))]
    wanted = ["--resolution", "lowest-direct", "--python-version", PYTHON]
    capture([*uv, "pip", "compile", "--quiet", *wanted, str(ROOT / "pyproject.toml"), "-o", str(folder / "lock")])
    capture([*uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")])
    python = folder / "venv/bin/python"
    capture([*uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(folder / "lock")])
    return python


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A store of its own, without the settings of these tests; `stop` starts an engine there."""
    home = str(tmp_path_factory.mktemp("home"))
    made = {"PATH": os.environ["PATH"], "HOME": home, "GB10_CACHE_DIR": f"{home}/store", "NO_COLOR": "1"}
    yield made
    down(open_store(made))


def gb10(python: Path, env: Mapping[str, str], call: str) -> subprocess.CompletedProcess[str]:
    argv = [str(python), "-m", "gb10", *call.split()]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_every_verb_starts(oldest: Path, env: Mapping[str, str]) -> None:
    rows = capture([str(oldest), "-c", HELP], cwd=ROOT, env=env).splitlines()
    assert len(rows) > 60
    assert [row for row in rows if not row.startswith("0 True ")] == []


@pytest.mark.parametrize("call", CALLS)
def test_a_verb_does_its_work(oldest: Path, env: Mapping[str, str], call: str) -> None:
    run = gb10(oldest, env, call)
    assert (run.returncode, "Traceback" in run.stderr) == (0, False), run.stderr
    assert run.stdout
    if "--json" in call:
        json.loads(run.stdout)


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_a_wrong_call_is_refused_in_our_words(oldest: Path, env: Mapping[str, str], call: str, said: str) -> None:
    run = gb10(oldest, env, call)
    assert run.returncode in (2, 3)
    assert said in run.stderr
    assert "Traceback" not in run.stderr
