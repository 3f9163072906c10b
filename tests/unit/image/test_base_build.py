"""Wheels that are added to an image of others: where their files and programs go, and which Python starts these."""

import hashlib
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
import uv

from gb10.core.fetch import store_paths, stored
from gb10.core.files import Artifact
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.base_build import FILES, install_added
from gb10.image.plan.values import Step
from gb10.image.rootfs.added_wheels import script_start
from tests.unit.made_up_base import base

VENV = ("/opt/venv/lib/python3.12/site-packages",)
SCRIPTS = {"own": "#!python\nimport sys\nprint(sys.executable)\n", "plain": "#!/bin/sh\necho hi\n"}


def added(store: Store, folder: Path, scripts: dict[str, str]) -> Step:
    """The step of a wheel with an entry point and scripts."""
    path = folder / "a_b-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a_b/__init__.py", "def main():\n    return 0\n")
        wheel.writestr("a_b-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: a-b\nVersion: 1\n")
        wheel.writestr("a_b-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("a_b-1.dist-info/entry_points.txt", "[console_scripts]\nab = a_b:main\n")
        for name, text in scripts.items():
            wheel.writestr(f"a_b-1.data/scripts/{name}", text)
        wheel.writestr("a_b-1.dist-info/RECORD", "")
    content = path.read_bytes()
    file = Artifact(path.name, hashlib.sha256(content).hexdigest(), len(content))
    stored(store, file).parent.mkdir(parents=True)
    path.rename(stored(store, file))
    return Step(name="added", kind="added", key="0" * 64, files=(file,))


def test_nothing_is_written_outside_the_folder_of_the_step(tmp_path: Path) -> None:
    work = tmp_path / "a/b/c/work"
    work.mkdir(parents=True)
    hostile = base(site_packages=("/../../../../out/lib/python3.12/site-packages",))
    with pytest.raises(BuildError, match="leads out of it"):
        install_added(hostile, [], work)
    assert [path.name for path in tmp_path.rglob("out")] == []


@pytest.mark.parametrize("folder", ["own", "with space", "x" * 120])
@pytest.mark.parametrize("interpreter", ["/opt/venv/bin/python3", f"/opt/{'y' * 150}/python3", "/opt/a b's/python3"])
def test_programs_start_by_the_image_s_python_whatever_the_path_of_ours(
    folder: str, interpreter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / folder
    subprocess.run([uv.find_uv_bin(), "venv", "-q", "--python", sys.executable, str(own)], check=True)
    monkeypatch.setattr(sys, "executable", str(own / "bin/python"))
    store, work = Store(tmp_path / "store"), tmp_path / "work"
    work.mkdir()
    step = added(store, tmp_path, SCRIPTS)
    install_added(base(interpreter=interpreter, site_packages=VENV), store_paths(store, step.files), work)
    programs = work / FILES / "opt/venv/bin"
    assert {path.name for path in programs.iterdir()} == {"ab", "own", "plain"}
    begin = script_start(interpreter)
    assert [(programs / name).read_bytes().startswith(begin) for name in ("ab", "own")] == [True, True]
    assert (programs / "plain").read_text(encoding="utf-8") == SCRIPTS["plain"]
    for path in (work / FILES).rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path
    record = (work / FILES / VENV[0].strip("/") / "a_b-1.dist-info/RECORD").read_text(encoding="utf-8")
    rows = {row.split(",")[0]: row.split(",")[1:] for row in record.splitlines()}
    text = (programs / "ab").read_bytes()
    sha256 = urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    assert rows["../../../bin/ab"] == [f"sha256={sha256}", str(len(text))]


@pytest.mark.parametrize("name", [f"it's a {'y' * 150}", "y" * 150, "a b", "plain"])
def test_a_script_starts_the_python_that_it_names(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    subprocess.run([uv.find_uv_bin(), "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    script = tmp_path / "script"
    script.write_bytes(script_start(f"{folder}/bin/python") + b"import sys\nprint(sys.prefix, sys.argv[1:])\n")
    script.chmod(0o755)
    ran = subprocess.run([script, "a b"], check=True, capture_output=True, text=True)
    assert ran.stdout == f"{folder} ['a b']\n"


def test_a_program_that_names_our_python_elsewhere_is_refused(tmp_path: Path) -> None:
    store, work = Store(tmp_path / "store"), tmp_path / "work"
    work.mkdir()
    step = added(store, tmp_path, {"odd": f"#!/bin/sh\nexec {sys.executable}\n"})
    with pytest.raises(BuildError, match="names the Python of this machine"):
        install_added(base(site_packages=VENV), store_paths(store, step.files), work)
