"""The image by the command that README names, and its Python under an emulator."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from gb10.containers.connection import Engine, client
from gb10.core.proc import capture
from gb10.image.plan.catalog import ROOT

KERNELS = """
import json, pathlib
import flashinfer_jit_cache
from importlib.metadata import version
folder = pathlib.Path(flashinfer_jit_cache.__file__).parent
manifest = json.loads((folder / "manifest.json").read_text())
import tvm_ffi
loaded = []
for name in sorted(manifest["modules"]):
    tvm_ffi.load_module(str(folder / "modules" / name / f"{name}.so"))
    loaded.append(name)
print(json.dumps({"version": version("flashinfer-jit-cache"), "loaded": loaded}))
"""
"""Loads every module of the FlashInfer wheel that was compiled here, as FlashInfer itself does."""


def build(*arguments: str) -> dict[str, object]:
    """``build.py image`` with these arguments: its JSON."""
    text = capture([sys.executable, str(ROOT / "build.py"), "image", "--json", "--quiet", *arguments], env=os.environ)
    document: dict[str, object] = json.loads(text)
    return document


def run_python(
    engine: Engine, tag: str, emulator: Path, *arguments: str, files: Mapping[Path, str] | None = None
) -> str:
    """What the image's Python prints under the emulator, without a network; ``files``: shown at a path inside."""
    shown = {emulator: "/qemu", **(files or {})}
    with closing(client(engine)) as sdk:
        output: bytes = sdk.containers.run(
            tag,
            ["/usr/bin/python3", *arguments],
            entrypoint=["/qemu"],
            platform="linux/arm64",
            remove=True,
            network_mode="none",
            volumes={str(path): {"bind": inside, "mode": "ro"} for path, inside in shown.items()},
        )
    return output.decode()


def unmet(python: Callable[..., str]) -> list[str]:
    """What ``pip check`` misses in an image."""
    code = "import runpy, sys; sys.argv = ['pip', 'check']; runpy.run_module('pip', run_name='__main__')"
    script = f"try:\n    exec({code!r})\nexcept SystemExit:\n    pass"
    return [line for line in python("-c", script).splitlines() if line and "No broken requirements" not in line]
