"""The locked ninja starts the units of several modules in the order of their time, and runs the same commands."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gb10.core.fetch import store_paths
from gb10.image.context import open_context
from gb10.image.locked_files import fetch_locked
from gb10.image.request.planning import Request, make_plan
from gb10.inside.compile import compile_slots

pytestmark = pytest.mark.integration

RULES = """ninja_required_version = 1.3
rule compile
  command = echo {name}/$out >>{log} && touch $out
rule link
  command = echo {name}/$out $in >>{log} && touch $out
"""
UNITS = {
    "m": {"a.o": {"cpu_s": 3, "peak_mib": 300}, "b.o": {"cpu_s": 9, "peak_mib": 300}},
    "n": {"b.o": {"cpu_s": 5, "peak_mib": 300}},
}


@pytest.fixture(scope="module")
def ninja(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the tools' locked wheel for this machine."""
    ctx = open_context(os.environ, verbosity=0)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    wheels = [file for file in plan.step("tools").files if file.filename.startswith("ninja-")]
    (wheel,) = (file for file in wheels if platform.machine() in file.filename)
    fetch_locked(ctx, [wheel])
    (path,) = store_paths(ctx.store, [wheel])
    folder = tmp_path_factory.mktemp("ninja")
    with zipfile.ZipFile(path) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("/scripts/ninja"))
        opened.extract(name, folder)
    program = folder / "ninja"
    (folder / name).rename(program)
    program.chmod(0o755)
    return program


def write_modules(folder: Path) -> Path:
    """Two modules in FlashInfer's form, and the file above them."""
    top = ["ninja_required_version = 1.3"]
    for name in UNITS:
        (folder / name).mkdir(parents=True)
        (folder / "in").touch()
        objects = [folder / name / f"{unit}.o" for unit in "abc"]
        rules = RULES.format(name=name, log=folder / "log")
        units = "".join(f"build {made}: compile {folder / 'in'}\n" for made in objects)
        library = folder / name / f"{name}.so"
        link = f"\nbuild {library}: link {' '.join(map(str, objects))}\ndefault {library}\n"
        (folder / f"{name}.ninja").write_text(rules + units + link)
        top.append(f"subninja {folder / name}.ninja")
    (folder / "top.ninja").write_text("\n".join([*top, ""]))
    return folder / "top.ninja"


def run(folder: Path, program: Path, path: str) -> list[str]:
    """The commands that ninja ran one after the other, without the folder."""
    argv = [str(program), "-C", str(folder), "-f", str(write_modules(folder)), "-j", "1"]
    subprocess.run(argv, check=True, capture_output=True, env={**os.environ, "PATH": path})
    return (folder / "log").read_text().replace(f"{folder}/", "").splitlines()


def test_ninja_runs_the_same_commands_the_longest_first(
    ninja: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{ninja.parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    (tmp_path / "peaks.json").write_text(json.dumps({"peaks": {}, "units": UNITS, "other": 300}))
    given = [f"--open={tmp_path / 'room'}", f"--pool={tmp_path / 'pool'}", f"--peaks={tmp_path / 'peaks.json'}"]
    subprocess.run([sys.executable, "-IS", compile_slots.__file__, *given, "--jobs=2", "--ninja"], check=True)
    plain = run(tmp_path / "plain", ninja, path)
    ordered = run(tmp_path / "ordered", tmp_path / "room/bin/ninja", path)
    assert [line for line in ordered if ".so" not in line][:3] == ["m/m/b.o", "n/n/b.o", "m/m/a.o"]
    assert sorted(ordered) == sorted(plain)
    assert "m/m/m.so m/a.o m/b.o m/c.o" in ordered
