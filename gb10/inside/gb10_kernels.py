"""gb10_kernels: kernels of our own as torch operators; the import registers them in ``torch.ops.gb10``.

Becomes the package's ``__init__`` in the wheel that pack_extension.py makes; manifest.json lies beside it.
"""

from importlib.metadata import version
from pathlib import Path

import torch  # type: ignore[import-not-found]

__version__ = version("gb10-kernels")
for library in sorted(Path(__file__).parent.glob("modules/*/*.so")):
    torch.ops.load_library(str(library))
