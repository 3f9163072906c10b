"""Inside the layer of a mod: copy its files, run it as the community's tools do, recompile what it changed.

    mod.py --name NAME --workdir DIR --epoch SECONDS

The contract: the files lie in /workspace/mods/NAME, which is the current directory, WORKSPACE_DIR is the image's
WORKDIR, the user is root, and ``chmod +x run.sh && ./run.sh`` must end with 0. Mods name site-packages by the path of
Python 3.12: the image has a link there (settings.py).

Python compares the image's bytecode with the hash of its source (install.py): a changed source takes effect, but Python
compiles it at every start until there is new bytecode. So exactly the changed sources are compiled again. A link gets
no bytecode, because its target may change under another name. A file has changed when its ctime, which a program cannot
set, is newer than the start, and its bytes differ from those of the root before. Bytecode without a source may stay:
Python ignores it.
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
    """Copy the files, run run.sh, recompile, set times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    root = Path("/")
    marker = create_marker(root)
    shutil.copytree(HERE / "files", MODS / options.name, symlinks=True)
    code = run(MODS / options.name, mod_environment(os.environ, options.workdir))
    if code:
        print(f"{options.name}: run.sh exited with {code}", file=sys.stderr)
        sys.exit(code if code > 0 else 128 - code)
    finish(root, HERE / "before", marker, options.epoch)


def create_marker(root: Path) -> Path:
    """Create a file that is older than every later change."""
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
    """Compile the changed sources, and set the times of all changed files to ``epoch``."""
    since = marker.lstat().st_mtime_ns
    for path in changed_since(root, marker):
        if path.suffix == ".py" and is_changed(path, before / path.relative_to(root)):
            recompile(root, path)
    touched = changed_since(root, marker)
    marker.unlink()
    for path in touched:
        if path != marker and path.lstat().st_mtime_ns >= since:
            os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def changed_since(root: Path, marker: Path) -> list[Path]:
    """The paths that changed after the marker was created, without mount points."""
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


def recompile(root: Path, path: Path) -> None:
    """Compile a source where its neighbours have bytecode; a link, or a source that does not parse, gets none."""
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
