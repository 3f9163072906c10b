"""gb10_kernels: kernels of our own as torch operators; the import registers them in ``torch.ops.gb10``.

Becomes the package's ``__init__`` in the wheel that pack_extension.py makes; manifest.json lies beside it.
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch  # type: ignore[import-not-found]

FOLDER = Path(__file__).parent
__version__ = version("gb10-kernels")
for library in sorted(FOLDER.glob("modules/*/*.so")):
    torch.ops.load_library(str(library))


def check_device(major: int, minor: int) -> None:
    """Raise RuntimeError when no device of compute capability ``major.minor`` can run the kernels.

    Code for ``12.1f`` runs on 12.1 and on later minors of the family, for ``12.1a`` on 12.1 alone (CUDA C++
    programming guide, "Architecture-specific" and "Family-specific features").
    """
    arch: str = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["arch"]
    family, least = map(int, arch[:-1].split("."))
    if major != family or minor < least or (arch.endswith("a") and minor != least):
        raise RuntimeError(f"the installed gb10-kernels are for {arch}, which a {major}.{minor} device cannot run")
