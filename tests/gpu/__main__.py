"""``make gpu-test``: the CUTLASS that the vLLM image's kernels are compiled with, patched, then run.py with it.

On the machine with the GPU, which also has nvcc. Arguments are handed on to run.py.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gb10.core.files import Artifact
from gb10.image.context import open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.archives import Sdist
from gb10.image.patches.patched import patched_files
from gb10.image.patches.selection import plan_patches
from gb10.image.patches.source_tree import Changed
from gb10.image.plan.catalog import ROOT
from gb10.sources.index.client import fetch_all

RECIPE = ROOT / "recipes/images/vllm.yaml"
BUNDLED = "3rdparty/cutlass/"


def lay_out(target: Path) -> None:
    """The patched tree of CUTLASS, from the locked source archive of FlashInfer. Raises FetchError, PatchError."""
    ctx = open_context(os.environ, verbosity=0)
    lock = load_lock(lock_path(RECIPE))
    sdist = lock.sdists["flashinfer-python"]
    recipe = load_recipe(RECIPE).model_copy(update={"patches": ("cutlass",)})
    (path,) = fetch_all([Artifact(sdist.filename, sdist.sha256, sdist.size)], ctx.store, ctx.env).values()
    uses = plan_patches(ctx.catalog.patches, recipe, lock, "arm64", ())
    tree = Changed(Sdist(path), patched_files(ctx.catalog.patches, path, uses, ctx.reporter.say))
    for name in tree.paths():
        if name.startswith((f"{BUNDLED}include/", f"{BUNDLED}tools/util/include/")):
            place = target / name.removeprefix(BUNDLED)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(tree.read(name) or b"")


def main() -> int:
    """The exit status of run.py."""
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        runner = Path(__file__).with_name("run.py")
        return subprocess.run([sys.executable, str(runner), "--cutlass", folder, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
