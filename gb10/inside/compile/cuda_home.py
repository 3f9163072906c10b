"""Inside a build stage: lay out a CUDA_HOME from unpacked wheels: the build machine's tools, the target's files.

    cuda_home.py --tools DIR --target DIR --out DIR --cc COMPILER

``tools`` and ``target`` are the ``nvidia/cu13`` trees of the build machine's and of the target's wheels (the same
tree twice for a native build). The wheels lack what build scripts link against: unversioned names and libcuda.
"""

import argparse
import subprocess
from pathlib import Path


def main() -> None:
    """Parse, lay out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cc", required=True, help="the target's C compiler: it makes the stub of libcuda")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    for part, tree in (("bin", options.tools), ("nvvm", options.tools), ("include", options.target)):
        (options.out / part).symlink_to((tree / part).resolve(strict=True))
    link_libraries((options.target / "lib").resolve(strict=True), options.out / "lib64")
    stub_driver(options.cc, options.out / "lib64/stubs")


def link_libraries(source: Path, lib: Path) -> None:
    """Every library under its own name, and ``libX.so`` for each ``libX.so.N``."""
    lib.mkdir()
    for library in sorted(source.glob("lib*")):
        (lib / library.name).symlink_to(library)
        plain = lib / f"{library.name.partition('.so')[0]}.so"
        if ".so." in library.name and not plain.is_symlink():
            plain.symlink_to(library)


def stub_driver(cc: str, stubs: Path) -> None:
    """An empty libcuda with the driver's soname: the real one comes with the NVIDIA container runtime."""
    stubs.mkdir()
    argv = [cc, "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null"]
    subprocess.run([*argv, "-o", str(stubs / "libcuda.so")], check=True)


if __name__ == "__main__":
    main()
