"""Inside a build stage: write the image's own small files: links for JIT compilers, libcuda's stub, bytecode, caches.

    settings.py --base ROOT --out ROOT --epoch SECONDS --cc COMPILER --workdir DIR

FlashInfer, Triton and CuTe DSL compile at run time: they look for CUDA_HOME/{bin,include,lib64}, for
``libX.so`` names that wheels do not carry, and link libcuda, which only the GPU's driver provides.

The community's launchers mount the host's caches below /root, and their mods name the directory of Python 3.12: links
lead to where this image has them. Each user may write the cache and the working directory.
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
LIBRARY = Path("usr/local/lib")
CACHE = Path("var/cache/gb10")
MOUNTED = {
    ".cache/flashinfer": ".cache/flashinfer",
    ".cache/huggingface": "huggingface",
    ".cache/vllm": "vllm",
    ".tilelang": ".tilelang",
    ".triton": "triton",
}
"""Where eugr's launch-cluster.sh mounts a cache below /root, and its place below CACHE by the image's environment."""


def main() -> None:
    """Write the tree below ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "out", "workdir"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    link_toolchain(options.out, options.cc)
    compile_library(options.base, options.out)
    make_world_writable(options.out / options.workdir.relative_to("/"))
    make_world_writable(options.out / CACHE)
    link_launcher_paths(options.out)
    for folder, names, files in os.walk(options.out):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (options.epoch, options.epoch), follow_symlinks=False)


def link_toolchain(root: Path, cc: str) -> None:
    """Lay out /usr/local/cuda as JIT compilers expect it, with a stub of libcuda."""
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
    """Compile the base's Python library, as Debian's postinst would; the image's user cannot write there."""
    library = Path(f"usr/lib/python3.{sys.version_info.minor}")
    for source in sorted((base / library).rglob("*.py")):
        name = source.relative_to(base)
        cached = out / importlib.util.cache_from_source(str(name))
        py_compile.compile(
            str(source), str(cached), f"/{name}", True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )


def make_world_writable(path: Path) -> None:
    """Make a directory that every user may write, like /tmp: a container can start as any user."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o1777)


def link_launcher_paths(root: Path) -> None:
    """Link the paths at which the community's launchers and mods expect caches and packages."""
    make_world_writable(root / CACHE / ".cache")
    for name, place in MOUNTED.items():
        make_world_writable(root / CACHE / place)
        link = root / "root" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path("/") / CACHE / place)
    (root / "root").chmod(0o700)
    if sys.version_info[:2] != (3, 12):
        (root / LIBRARY / "python3.12").symlink_to(f"python3.{sys.version_info.minor}")


if __name__ == "__main__":
    main()
