"""gb10 without a checkout: the wheel that a release publishes, taken from an index by `uvx gb10` and `pipx install`.

The steps of release.yml build it and bring it into the index.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest

from gb10 import __version__
from gb10.core.proc import capture
from gb10.image.plan.catalog import ROOT
from tests.integration.nodes import build_py
from tests.integration.package_index import package_index
from tests.unit.project.test_workflows import run_step

pytestmark = [pytest.mark.integration, pytest.mark.slow]
UV = Path(sys.executable).with_name("uv")
LIBRARY = ROOT / "tests/unit/data/scan"
PUBLISH = ("release", "index", "Publish")


class Silent(SimpleHTTPRequestHandler):
    """The files of a folder, without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - the type of its base
        """Nothing."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with the wheel alone, built and published by the steps of a release; the rest is of the user's index."""
    folder = tmp_path_factory.mktemp("index")
    ran = run_step(("release", "wheel", "Build"), folder)
    assert ran.returncode == 0, ran.stderr
    with package_index(folder) as found:
        without = {name: value for name, value in found.env.items() if not name.startswith("ACTIONS_ID_TOKEN")}
        refused = run_step(PUBLISH, folder, **without)
        assert (refused.returncode != 0, [*found.project.iterdir()]) == (True, []), "a job without the right id-token"
        ran = run_step(PUBLISH, folder, **found.env)
        assert ran.returncode == 0, ran.stderr
    built = {path.name: path.read_bytes() for path in (folder / "dist").glob("gb10-*")}
    assert {path.name: path.read_bytes() for path in found.project.iterdir()} == built
    (wheel,) = found.project.glob("*.whl")
    assert wheel.name == f"gb10-{__version__}-py3-none-any.whl"
    (found.project / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>', encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user who has nothing of gb10 but the store of these tests."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "HOME": str(home), "UV_CACHE_DIR": str(home / "cache"), "GB10_CACHE_DIR": str(home / "store")}


def uvx(index: str, env: dict[str, str], *words: str) -> str:
    return capture(
        [str(UV), "tool", "run", "--quiet", "--index", index, "gb10", *words], env=env, cwd=Path(env["HOME"])
    )


def test_uvx_runs_it_as_the_checkout_does(index: str, env: dict[str, str]) -> None:
    assert uvx(index, env, "--version").startswith(f"gb10 {__version__} ")
    assert "Usage: gb10 [OPTIONS] COMMAND" in uvx(index, env, "--help")
    planned, own = json.loads(uvx(index, env, "plan", "--json")), json.loads(build_py("plan", "--json", env=env))
    assert (planned["key"], planned["tags"]) == (own["key"], own["tags"])


def test_uvx_verifies_a_library_and_says_what_keeps_a_report_out(index: str, env: dict[str, str]) -> None:
    library = next(LIBRARY.rglob("*.cubin"))
    assert library.name in uvx(index, env, "verify", str(library))
    report = Path(env["HOME"], "report.json")
    report.write_text("{}", encoding="utf-8")
    argv = [str(UV), "tool", "run", "--quiet", "--index", index, "gb10", "selftest", "import", str(report)]
    ran = subprocess.run(argv, env=env, cwd=env["HOME"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "is not a valid report of selftest" in ran.stderr


@pytest.mark.long
def test_pipx_installs_it(index: str, env: dict[str, str]) -> None:
    home = Path(env["HOME"])
    env = {
        **env,
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    pipx = [str(UV), "tool", "run", "--quiet", "pipx", "install", "--quiet", "gb10"]
    capture([*pipx, f"--pip-args=--extra-index-url {index}"], env=env, cwd=home)
    assert capture([str(home / "bin/gb10"), "--version"], env=env, cwd=home).startswith(f"gb10 {__version__} ")
    assert "Usage: gb10 plan " in capture([str(home / "bin/gb10"), "plan", "--help"], env=env, cwd=home)


@pytest.mark.long
def test_the_step_of_a_release_that_runs_it_as_users_do(index: str, env: dict[str, str], tmp_path: Path) -> None:
    wheel = f"gb10-{__version__}-py3-none-any.whl"
    (tmp_path / "dist").mkdir()
    with urlopen(f"{index}/gb10/{wheel}") as reply:  # noqa: S310 - our own server
        (tmp_path / "dist" / wheel).write_bytes(reply.read())
    ran = run_step(("release", "wheel", "Run it as users do"), tmp_path, **{**env, "RUNNER_TEMP": str(tmp_path)})
    assert ran.returncode == 0, ran.stderr
    assert f"gb10 {__version__} " in ran.stdout
