"""Inside a build stage: write the user's overlay as a layer, with bytecode for its Python sources.

    overlay.py --overlay DIR --out ROOT --epoch SECONDS

Python compares bytecode with the hash of its source: a changed source without new bytecode is compiled at every start.
"""

import argparse
import importlib.util
import os
import py_compile
import shutil
from pathlib import Path


def main() -> None:
    """Write the layer below ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--overlay", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    shutil.copytree(options.overlay, options.out, symlinks=True)
    for source in sorted(options.out.rglob("*.py")):
        if is_library(source.relative_to(options.out)) and (source.is_symlink() or source.is_file()):
            compile_source(source, options.out)
    for path in (options.out, *options.out.rglob("*")):
        os.utime(path, (options.epoch, options.epoch), follow_symlinks=False)


def is_library(path: Path) -> bool:
    """Whether a path of the image lies where modules have bytecode: below lib/python3.N."""
    return any(part.startswith("python3") for part in path.parts[:-1])


def compile_source(source: Path, root: Path) -> None:
    """Write the bytecode of a source; a link, or one that does not parse, gets an empty file, which Python ignores."""
    cached = Path(importlib.util.cache_from_source(str(source)))
    cached.parent.mkdir(exist_ok=True)
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    try:
        if source.is_symlink():
            raise ValueError(source)
        py_compile.compile(str(source), str(cached), f"/{source.relative_to(root)}", True, invalidation_mode=mode)
    except (py_compile.PyCompileError, ValueError):
        cached.write_bytes(b"")


if __name__ == "__main__":
    main()
