"""flashinfer_jit_cache: kernels compiled ahead of time, found by FlashInfer under their module names.

Becomes the package's ``__init__`` in the wheel that pack_wheel.py makes; manifest.json lies beside it.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

DISTRIBUTION = "flashinfer-jit-cache"
HERE = Path(__file__).parent
__version__ = version(DISTRIBUTION)


@dataclass(frozen=True)
class Provider:
    """Modules that hold the same GPU code; FlashInfer (flashinfer.jit.env) asks for these fields."""

    provider_id: str
    distribution: str
    version: str
    jit_cache_dir: str
    cuda_architectures: tuple[str, ...]
    modules: tuple[str, ...]


def get_jit_cache_providers() -> tuple[Provider, ...]:
    """One provider for each set of cubins in the manifest."""
    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    modules: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, module in manifest["modules"].items():
        modules[tuple("sm" + cubin.replace(".", "") for cubin in module["cubins"])].append(name)
    return tuple(
        Provider("-".join(("gb10", *arches)), DISTRIBUTION, __version__, str(HERE / "modules"), arches, tuple(names))
        for arches, names in sorted(modules.items())
    )
