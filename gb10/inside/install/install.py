"""Inside a build stage: install locked wheels for a target platform natively, byte-compile, clamp times.

    install.py --wheels DIR --out ROOT --epoch SECONDS [--platform aarch64-manylinux_2_39]

DIR holds wheels and a requirements.txt with their hashes. Nothing of the target runs: uv unpacks,
the build machine's Python of the same version compiles. Without uv on PATH, its own wheel in DIR is used.
"""

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from py_compile import PycInvalidationMode

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = Path("usr/local/lib") / PYTHON / "dist-packages"
BIN = Path("usr/local/bin")
BATCH = 400  # files; fixed, so that the bytecode does not depend on the number of cores


def main() -> None:
    """Parse, install, compile, clamp."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--platform")
    parser.add_argument("--no-compile", action="store_true", help="leave Python sources as they are")
    options = parser.parse_args()
    site = options.out / SITE
    site.mkdir(parents=True, exist_ok=True)
    install(find_uv(options.wheels), options.wheels, site, options.platform)
    move_scripts(site, options.out / BIN)
    if not options.no_compile:
        compile_all(site, options.out)
    if options.out != Path("/"):
        clamp(options.out, options.epoch)


def find_uv(wheels: Path) -> str:
    """uv on PATH, else unpacked from its wheel beside the others."""
    present = shutil.which("uv")
    if present:
        return present
    target = Path("/") / BIN / "uv"
    with zipfile.ZipFile(next(wheels.glob("uv-*.whl"))) as wheel:
        member = next(name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
        target.write_bytes(wheel.read(member))
    target.chmod(0o755)
    return str(target)


def install(uv: str, wheels: Path, site: Path, platform: str | None) -> None:
    """Unpack every wheel into ``site``; hashes are checked again, nothing is resolved, no network."""
    scratch = site / ".uv"  # on the same file system, so that files are linked and not copied
    argv = [
        uv,
        "pip",
        "install",
        "--offline",
        "--no-index",
        "--no-deps",
        "--require-hashes",
        "--link-mode",
        "hardlink",
        "--cache-dir",
        str(scratch),
        "--only-binary",
        ":all:",
        "--python",
        f"/usr/bin/{PYTHON}",
        "--find-links",
        str(wheels),
        "--target",
        str(site),
        "-r",
        str(wheels / "requirements.txt"),
    ]
    if platform:
        argv += ["--python-platform", platform]
    subprocess.run(argv, check=True)
    shutil.rmtree(scratch)
    remove_uv_notes(site)


def remove_uv_notes(site: Path) -> None:
    """Remove uv's lock, and the notes with time stamps that uv adds to each dist-info and lists in RECORD."""
    (site / ".lock").unlink(missing_ok=True)
    for note in site.glob("*.dist-info/uv_cache.json"):
        note.unlink()
        record = note.with_name("RECORD")
        lines = record.read_bytes().splitlines(keepends=True)
        own = f"{note.parent.name}/{note.name},".encode()
        record.write_bytes(b"".join(line for line in lines if not line.startswith(own)))


def move_scripts(site: Path, target: Path) -> None:
    """``--target`` puts scripts beside the packages; they belong on PATH."""
    source = site / "bin"
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for script in sorted(source.iterdir()):
            script.rename(target / script.name)
        source.rmdir()


def compile_all(site: Path, root: Path) -> None:
    """Byte-compile for the paths in the image; the log names files that do not parse, which stay sources.

    Each batch has a fresh process: bytecode depends on what the process compiled before (marshal's references).
    """
    files = sorted(site.rglob("*.py"))
    batches = [files[at : at + BATCH] for at in range(0, len(files), BATCH)]
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        failed = [file for batch in pool.map(compile_batch, batches, [root] * len(batches)) for file in batch]
    print(f"byte-compiled {len(files) - len(failed)} of {len(files)} files", flush=True)
    for file in failed:
        print(f"kept as source (does not parse as {PYTHON}): {file}", flush=True)


def compile_batch(files: list[Path], root: Path) -> list[Path]:
    """Compile the files; those that do not parse. Bytecode has the hash of its source, so times do not matter."""
    return [
        file
        for file in files
        if not compileall.compile_file(
            file, stripdir=str(root), prependdir="/", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )
    ]


def clamp(root: Path, epoch: int) -> None:
    """Set every time stamp to the lock's date, so that the same lock gives the same layer."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


if __name__ == "__main__":
    main()
