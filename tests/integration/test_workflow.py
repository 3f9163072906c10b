"""The workflows: their schema, and the steps of their jobs, run in the order and environment of a runner.

The recipe is a small one. sudo, gh and apt-get are stand-ins, since the machine of the tests is no runner; git's
origin is a bare repository, the registry Debian's own.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jsonschema
import pytest
import yaml

from gb10.containers.packages import unpack
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.skopeo import open_skopeo
from gb10.core.proc import capture
from gb10.image.context import Context, open_context
from gb10.image.plan.catalog import ROOT
from tests.integration.hub_server import make_signer
from tests.integration.nodes import Registry, ssh_keygen
from tests.integration.pinned import pinned
from tests.recipes import small_recipe

pytestmark = [pytest.mark.integration, pytest.mark.long]

FOLDER = ROOT / ".github/workflows"
EXPRESSION = re.compile(r"\$\{\{ *([\w.]+)(?: *\|\|.*?)? *\}\}")
"""An expression, with what stands for an empty one."""
CROSS = "{amd64: [g++-aarch64-linux-gnu], arm64: []}"
RECIPE = (
    small_recipe(
        "tools: [uv==0.13.8]\n",
        requirements="\n  - pydantic==2.10.0\n  - pydantic-core==2.27.0\n  - typing-extensions==4.12.2",
    )
    .replace("engine: small", "engine: pydantic")
    .replace('version: "1"', "version: 2.10.0")
    .replace("{image: []}", f"{{image: [python3], build: [g++, python3], cross: {CROSS}}}")
)
STANDS_IN = {
    "sudo": 'if [ "$1" = rm ] || [ "$1" = apt-get ]; then echo "sudo $*"; else exec "$@"; fi',
    "gh": 'echo "gh $*" >>"$RUNNER_TEMP/gh.log"; cat "${@: -1}" >>"$RUNNER_TEMP/gh.log"',
    "make": 'echo "make $*"',
}
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What GitHub runs a step with whose shell is bash."""


WORKFLOWS = sorted(FOLDER.glob("*.yml"))


def workflow(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_it_is_what_the_published_schema_wants(path: Path) -> None:
    folder = pinned("check-jsonschema", Path(__file__).with_name("check-jsonschema.txt"))
    schema = json.loads(next(folder.rglob("vendor/github-workflows.json")).read_text(encoding="utf-8"))
    document: dict[Any, Any] = workflow(path)
    document["on"] = document.pop(True)  # YAML 1.1 reads the word as a truth value
    jsonschema.validate(document, schema)


@dataclass(slots=True)
class Runner:
    """A checkout, and what GitHub gives the steps of a job."""

    checkout: Path
    temp: Path
    env: dict[str, str]
    context: Mapping[str, str]
    out: list[str] = field(default_factory=list)

    def job(self, file: str, name: str) -> str:
        """Run every step of a job; what they printed."""
        found = workflow(FOLDER / f"{file}.yml")
        job = found["jobs"][name]
        given = {**self.env, **self.filled(found.get("env", {})), **self.filled(job.get("env", {}))}
        for step in job["steps"]:
            if "run" in step:
                self.step(step, given)
        return "\n".join(self.out)

    def filled(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: EXPRESSION.sub(lambda found: self.context.get(found[1], ""), str(text))
            for name, text in values.items()
        }

    def step(self, step: Mapping[str, Any], given: dict[str, str]) -> None:
        exported = dict(line.split("=", 1) for line in (self.temp / "env").read_text().splitlines() if "=" in line)
        env = {**given, **exported, **self.filled(step.get("env", {})), **self.env}
        run = subprocess.run(
            [*SHELL, "-c", step["run"]], cwd=self.checkout, env=env, capture_output=True, text=True, check=False
        )
        self.out.append(run.stdout)
        assert run.returncode == 0, f"{step['name']}: {run.stdout[-2000:]}\n{run.stderr[-4000:]}"


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def runner(ctx: Context, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A checkout with the small recipe, an origin, and the programs of a runner."""
    folder = tmp_path_factory.mktemp("runner")
    checkout, origin, temp, bin_folder = (folder / name for name in ("checkout", "origin.git", "temp", "bin"))
    for made in (temp, bin_folder, folder / "home"):
        made.mkdir()
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "wheels"))
    shutil.copytree(ROOT / "wheels", checkout / "wheels", ignore=shutil.ignore_patterns("*.whl", "manifest.json"))
    recipe = checkout / "recipes/images/small.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    env = {
        "PATH": f"{bin_folder}:{ssh_keygen(ctx.store, folder / 'ssh')}",
        "HOME": str(folder / "home"),
        "RUNNER_TEMP": str(temp),
        "GITHUB_ENV": str(temp / "env"),
        "GITHUB_STEP_SUMMARY": str(temp / "summary"),
        "GITHUB_OUTPUT": str(temp / "output"),
        "GITHUB_ACTOR": "me",
        "GITHUB_ACTIONS": "true",
        "CI": "true",
        "ENGINE": str(recipe),
        **{
            name: value
            for name, value in os.environ.items()
            if name.startswith(("GB10_", "PIP_", "UV_", "SSL_", "DOCKER_"))
        },
    }
    for name in ("env", "summary", "output"):
        (temp / name).touch()
    for name, text in STANDS_IN.items():
        (bin_folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (bin_folder / name).chmod(0o755)
    programs = unpack(ctx.store, ctx.env)
    (bin_folder / "docker").symlink_to(programs.bin / "docker")
    skopeo = open_skopeo(ctx.store, ctx.env)
    settings = folder / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{place.host}"\ninsecure = true\n', encoding="utf-8")
    own = [word for word in skopeo.command if not word.startswith("--registries-conf")]
    command = shlex.join([*own, f"--registries-conf={settings}"])
    (bin_folder / "skopeo").write_text(f'#!/bin/bash\nexec {command} "$@"\n', encoding="utf-8")
    (bin_folder / "skopeo").chmod(0o755)
    capture([sys.executable, str(checkout / "build.py"), "lock", "--engine", str(recipe)], env=env)
    git = ("git", "-C", str(checkout), "-c", "user.name=me", "-c", "user.email=me@localhost")
    capture(["git", "init", "--quiet", "--bare", str(origin)])
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all", "--force", "recipes", "build.py", "gb10", "bootstrap"),
        ("commit", "--quiet", "--message", "x"),
        ("remote", "add", "origin", str(origin)),
        ("push", "--quiet", "origin", "main"),
    ):
        capture([*git, *words], env=env)
    make_signer(folder, "me", env)
    context = {
        "vars.GB10_REGISTRY": f"{place.host}/night",
        "matrix.engine": str(recipe),
        "github.token": "secret",
        "inputs.tested": "false",
        "secrets.SIGNING_KEY": (folder / "me").read_text(encoding="ascii"),
        "github.ref_name": "main",
    }
    return Runner(checkout=checkout, temp=temp, env=env, context=context)


def test_the_image_is_built_proven_pushed_by_key_and_signed(ctx: Context, place: Registry, runner: Runner) -> None:
    runner.job("images", "image")
    result = runner.temp / "result"
    document = json.loads((result / "image.json").read_text())
    moving, keyed = (tag.rpartition(":")[2] for tag in document["tags"])
    assert place.manifest("night/small", keyed)["config"]["digest"] == document["digest"]
    assert (result / "digest").read_text().strip() == document["digest"]
    assert tags_of(place) == [keyed], "the moving tag waits for the gate"
    pushed = (result / "pushed").read_text().strip()
    summary = (runner.temp / "summary").read_text()
    assert document["digest"] in summary
    assert pushed in summary
    assert pushed.startswith(f"{place.host}/night/small:{keyed}@sha256:")
    output = dict(line.split("=", 1) for line in (runner.temp / "output").read_text().splitlines())
    assert output == {"name": f"{place.host}/night/small", "digest": pushed.partition("@")[2]}
    assert not (runner.temp / "key").exists()
    signers = runner.temp.parent / "me.signers"
    host = connect_or_start(ctx.env, ctx.store).endpoint.host
    words = ("--host", host, "--platform", "linux/arm64", "--require-signer", str(signers))
    pulled = [sys.executable, str(ROOT / "build.py"), "pull", f"{place.host}/night/small:{keyed}", *words]
    assert "sha256:" in capture(pulled, env=runner.env)

    shutil.copytree(result, runner.temp / "image")
    runner.job("tag", "tag")
    assert tags_of(place) == sorted((moving, keyed))
    assert place.manifest("night/small", moving) == place.manifest("night/small", keyed)
    assert "no GB10 tested it" in (runner.temp / "summary").read_text()


def tags_of(place: Registry) -> list[str]:
    """The tags of the image in the registry, without those of its documents."""
    with urlopen(f"http://{place.host}/v2/night/small/tags/list") as reply:
        return sorted(tag for tag in json.load(reply)["tags"] if not tag.startswith("sha256-"))


def test_the_next_release_is_proposed_once(runner: Runner) -> None:
    runner.job("nightly", "upgrade")
    origin = str(runner.temp.parent / "origin.git")
    branches = capture(["git", "-C", origin, "branch", "--list", "upgrade/*"]).split()
    assert len(branches) == 1
    log = (runner.temp / "gh.log").read_text()
    assert f"gh pr create --base main --head {branches[0]}" in log
    assert "2.10.0" in log
    changed = capture(["git", "-C", origin, "diff", "--name-only", "main", branches[0]]).split()
    assert changed == ["recipes/images/small.lock.json", "recipes/images/small.yaml"]
    capture(["git", "-C", str(runner.checkout), "switch", "--quiet", "main"])
    runner.job("nightly", "upgrade")
    assert (runner.temp / "gh.log").read_text() == log
