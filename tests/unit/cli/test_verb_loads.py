"""What a verb loads before it prints: modules of ours, files of the checkout. Counts, which no busy machine changes.

A number may fall freely. One that must rise says that every start of this verb becomes slower: import what few calls
need where they need it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.containers.embedded.daemon import Place
from gb10.core.store import Store
from gb10.image.plan.catalog import ROOT

COUNT = """
import contextlib, io, json, os, sys
root, reads = os.getcwd() + os.sep, []
sys.path.insert(0, root)

def note(event, given):
    if event == "open" and str(given[0]).startswith(root) and not str(given[0]).endswith((".py", ".pyc")):
        reads.append(str(given[0])[len(root):])

sys.addaudithook(note)
from gb10.cli import main
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    code = main(sys.argv[1:])
print(json.dumps({"code": code, "modules": list(sys.modules), "reads": reads}))
"""
CLIENTS = {"docker", "requests", "urllib3", "http.client"}
"""What talks to an engine and to servers: a tenth of a second and more to load."""
LOG = "tests/unit/data/doctor/healthy/made-kernel.log"


def loaded(tmp_path: Path, verb: str) -> tuple[set[str], list[str]]:
    """The modules that a verb loads, and the files of the checkout that it opens. The store is empty at the first."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GB10_", "DOCKER_", "XDG_"))}
    env = own | {
        "HOME": str(tmp_path),
        "GB10_CACHE_DIR": str(tmp_path / "store"),
        "DOCKER_HOST": Place(Store(tmp_path / "store")).endpoint.host,  # known not to run
        "GB10_DEBIAN_MIRROR": "http://mirror.invalid/debian",
    }
    call = [sys.executable, "-c", COUNT, *verb.split()]
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["code"] == 0, done.stderr
    return set(found["modules"]), found["reads"]


@pytest.mark.parametrize(
    ("verb", "modules", "files"),
    [
        ("patches show sglang/0001-jit-arch-suffix", 60, 18),
        ("run qwen3-0.6b --dry-run --no-gpus", 139, 5),
        ("recipe list", 92, len(list((ROOT / "recipes/models").glob("*.yaml"))) + 1),
        ("recipe lint qwen3-0.6b", 103, 6),
        ("recipe memory qwen3-0.6b", 92, 5),
        ("recipe render qwen3-0.6b", 160, 5),
    ],
)
def test_a_verb_loads_what_it_needs(tmp_path: Path, verb: str, modules: int, files: int) -> None:
    names, reads = loaded(tmp_path, verb)
    ours = {name for name in names if name.startswith("gb10.")}
    assert len(ours) <= modules, sorted(ours)
    assert len(set(reads)) <= files, sorted(set(reads))
    assert not names & CLIENTS


@pytest.mark.parametrize(
    ("verb", "first", "again"),
    [("plan", 111, 70), ("image --dry-run", 112, 71), ("wheels --rebuild flashinfer --dry-run", 111, 70)],
)
def test_a_plan_that_is_shown_again_is_not_made(tmp_path: Path, verb: str, first: int, again: int) -> None:
    made, _ = loaded(tmp_path, verb)
    kept, reads = loaded(tmp_path, verb)
    assert len([name for name in made if name.startswith("gb10.")]) <= first
    assert len([name for name in kept if name.startswith("gb10.")]) <= again
    assert not (made | kept) & CLIENTS
    assert not kept & {"jinja2", "yaml", "packaging.requirements", "gb10.image.request.planning"}
    again_read = {name for name in reads if reads.count(name) > 1}  # once for the digest, once to be parsed
    assert len(again_read) <= 3, again_read


def test_doctor_loads_what_it_needs(tmp_path: Path) -> None:
    names, reads = loaded(tmp_path, f"doctor --log {LOG}")
    assert len([name for name in names if name.startswith("gb10.")]) <= 107
    assert not names & {*CLIENTS, "detect_secrets"}
    assert len(set(reads)) <= 12


def test_cache_ls_plans_once(tmp_path: Path) -> None:
    first, _ = loaded(tmp_path, "cache ls")
    again, reads = loaded(tmp_path, "cache ls")
    assert len([name for name in first if name.startswith("gb10.")]) <= 102
    assert len([name for name in again if name.startswith("gb10.")]) <= 34
    assert sorted(set(reads)) == sorted(reads)
    assert not (first | again) & CLIENTS
    assert "pydantic" not in again


def test_a_plan_builds_nothing_and_asks_no_hub(tmp_path: Path) -> None:
    names, _ = loaded(tmp_path, "image --dry-run")
    others = ("gb10.image.build.image_build", "gb10.models.registries", "gb10.sources.hub", "gb10.serving")
    assert not [name for name in names if name.startswith(others)]


@pytest.mark.parametrize("verb", ["recipe list", "recipe lint qwen3-0.6b", f"doctor --log {LOG}"])
def test_a_file_is_read_once(tmp_path: Path, verb: str) -> None:
    _, reads = loaded(tmp_path, verb)
    assert sorted(set(reads)) == sorted(reads)
