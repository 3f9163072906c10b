"""Inside the layer of a mod: put its files in place, run it as the community's tools do, set right what it changed.

    mod.py --name NAME --workdir DIR --epoch SECONDS

The contract: the files lie in /workspace/mods/NAME, which is the current directory, WORKSPACE_DIR is the image's
WORKDIR, the user is root, and ``chmod +x run.sh && ./run.sh`` must end with 0. Mods name site-packages by the path of
Python 3.12: the image has a link there (settings.py).

Python compares the image's bytecode with the hash of its source (install.py): a changed source has an effect, and is
compiled at every start until its bytecode is made anew. That is done for exactly the changed sources. A link has
none: what it leads to may change later, under another name. What changed is told by the time of the last change,
which a program cannot set, and by the bytes, against the root as it was. Bytecode whose source is gone may stay:
Python takes none without its source.
"""

import argparse
import importlib.util
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path("/run/gb10")
MODS = Path("/workspace/mods")
CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
QUIET = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_NO_CACHE_DIR": "1",
    "UV_NO_CACHE": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "UV_BREAK_SYSTEM_PACKAGES": "1",
    "UV_SYSTEM_PYTHON": "1",
}
CLOCK_TICK = 0.05  # seconds, more than the kernel's steps in file times


def main() -> None:
    """Place, run, set right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    root = Path("/")
    marker = mark(root)
    shutil.copytree(HERE / "files", MODS / options.name, symlinks=True)
    code = run(MODS / options.name, mod_environment(os.environ, options.workdir))
    if code:
        print(f"{options.name}: run.sh exited with {code}", file=sys.stderr)
        sys.exit(code if code > 0 else 128 - code)
    finish(root, HERE / "before", marker, options.epoch)


def mark(root: Path) -> Path:
    """A file that is older than whatever changes from now on."""
    handle, name = tempfile.mkstemp(prefix=".gb10-", dir=root)
    os.close(handle)
    time.sleep(CLOCK_TICK)
    return Path(name)


def mod_environment(env: Mapping[str, str], workdir: str, here: Path = HERE) -> dict[str, str]:
    """The image's environment, WORKSPACE_DIR, no bytecode, no caches; with a network, the host's CAs, index, proxy."""
    found = {name: value for name, value in env.items() if name != "PYTHONHASHSEED"}
    if (here / "ca.pem").exists():
        found |= dict.fromkeys(CA_VARIABLES, str(here / "ca.pem"))
    if (here / "index.json").exists():
        found |= json.loads((here / "index.json").read_text(encoding="utf-8"))
    return {**found, **QUIET, "WORKSPACE_DIR": workdir}


def run(folder: Path, env: Mapping[str, str]) -> int:
    """The exit status of the mod's run.sh, whose words all go to stderr: of two streams BuildKit keeps no order."""
    script = 'cd -- "$1" && chmod +x run.sh && ./run.sh'
    argv = ["bash", "-c", script, "bash", str(folder)]
    return subprocess.run(argv, env=env, stdout=sys.stderr, check=False).returncode


def finish(root: Path, before: Path, marker: Path, epoch: int) -> None:
    """Bytecode for the changed sources, times that say nothing."""
    since = marker.lstat().st_mtime_ns
    for path in newer(root, marker):
        if path.suffix == ".py" and is_changed(path, before / path.relative_to(root)):
            compile_again(root, path)
    touched = newer(root, marker)
    marker.unlink()
    for path in touched:
        if path != marker and path.lstat().st_mtime_ns >= since:
            os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def newer(root: Path, marker: Path) -> list[Path]:
    """What changed after the marker was made, mount points left out."""
    argv = ["find", str(root), "-xdev", "-newercc", str(marker), "-print0"]
    found = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout.decode(errors="surrogateescape")
    mounted = mount_points()
    return [Path(name) for name in sorted(filter(None, found.split("\0"))) if name == str(root) or name not in mounted]


def mount_points() -> set[str]:
    """The mount points that this process sees; a space in one is written as in the file, and matches nothing."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return {line.split(" ")[4] for line in lines}


def is_changed(path: Path, old: Path) -> bool:
    """Whether a source is new, is no regular file or was none, or has other bytes than before."""
    return not (is_regular(path) and is_regular(old) and old.read_bytes() == path.read_bytes())


def is_regular(path: Path) -> bool:
    """Whether a file lies there, and not a link to one."""
    return path.is_file() and not path.is_symlink()


def compile_again(root: Path, path: Path) -> None:
    """The bytecode of a source where its neighbours have some; none for a link, or where it does not parse."""
    cached = Path(importlib.util.cache_from_source(str(path)))
    if not cached.parent.is_dir():
        return
    for stale in cached.parent.glob(f"{cached.name.removesuffix('.pyc')}*.pyc"):
        stale.unlink()
    if not is_regular(path):
        return
    try:
        py_compile.compile(
            str(path),
            str(cached),
            f"/{path.relative_to(root)}",
            True,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
    except (py_compile.PyCompileError, SyntaxError, ValueError) as error:
        print(f"left as source, it does not parse: {path}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
