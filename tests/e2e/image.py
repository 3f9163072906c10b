"""The image by the command that README names, and its Python under an emulator."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from gb10.catalog import ROOT
from gb10.engine.connection import Engine, client
from gb10.proc import capture


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
            tag, ["/usr/bin/python3.13", *arguments], entrypoint=["/qemu"], platform="linux/arm64", remove=True,
            network_mode="none", volumes={str(path): {"bind": inside, "mode": "ro"} for path, inside in shown.items()},
        )  # fmt: skip
    return output.decode()
