"""Inside a build stage: the image's own small files: the JIT toolchain's links, libcuda's stub, bytecode.

    settings.py --base ROOT --out ROOT --epoch SECONDS --cc COMPILER --user UID --workdir DIR

FlashInfer, Triton and CuTe DSL compile at run time: they look for CUDA_HOME/{bin,include,lib64}, for
``libX.so`` names that wheels do not carry, and link libcuda, which only the GPU's driver provides.
"""

import argparse
import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

CUDA = Path(f"usr/local/lib/python3.{sys.version_info.minor}/dist-packages/nvidia/cu13")
LINKS = {
    "libcudart.so": "libcudart.so.13",
    "libcublas.so": "libcublas.so.13",
    "libcublasLt.so": "libcublasLt.so.13",
    "libnvrtc.so": "libnvrtc.so.13",
}


def main() -> None:
    """Write the tree below ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "out", "workdir"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--user", type=int, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    toolchain(options.out, options.cc)
    compile_library(options.base, options.out)
    owned(options.out / options.workdir.relative_to("/"), options.user)
    owned(options.out / "var/cache/gb10", options.user)
    for folder, names, files in os.walk(options.out):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (options.epoch, options.epoch), follow_symlinks=False)


def toolchain(root: Path, cc: str) -> None:
    """/usr/local/cuda as the tools expect it."""
    stubs = root / CUDA / "lib/stubs"
    stubs.mkdir(parents=True)
    for link, target in LINKS.items():
        (root / CUDA / "lib" / link).symlink_to(target)
    (root / CUDA / "lib64").symlink_to("lib")
    (root / "usr/local/cuda").symlink_to(Path("/") / CUDA)
    subprocess.run(
        [
            cc,
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,-soname,libcuda.so.1",
            "-Wl,--build-id=none",
            "-x",
            "c",
            "/dev/null",
            "-o",
            str(stubs / "libcuda.so"),
        ],
        check=True,
    )


def compile_library(base: Path, out: Path) -> None:
    """Bytecode of the base's Python library, which the image's user cannot write: Debian's postinst would make it."""
    library = Path(f"usr/lib/python3.{sys.version_info.minor}")
    for source in sorted((base / library).rglob("*.py")):
        name = source.relative_to(base)
        cached = out / importlib.util.cache_from_source(str(name))
        py_compile.compile(
            str(source), str(cached), f"/{name}", True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


def owned(path: Path, user: int) -> None:
    """A directory that belongs to the image's user."""
    path.mkdir(parents=True)
    os.chown(path, user, user)


if __name__ == "__main__":
    main()
