"""flashinfer_jit_cache for a FlashInfer before 0.7: it asks the package for the one folder of all modules.

Becomes the package's ``__init__`` in the wheel that pack_wheel.py makes, in place of jit_cache.py.
"""

from importlib.metadata import version
from pathlib import Path

__version__ = version("flashinfer-jit-cache")


def get_jit_cache_dir() -> str:
    """The folder with NAME/NAME.so for each module NAME; FlashInfer (flashinfer.jit.env) looks nowhere else."""
    return str(Path(__file__).parent / "modules")
