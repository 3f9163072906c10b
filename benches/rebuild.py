"""What a change costs: the image removed, one file of vLLM added above it, one patch of vLLM changed below.

    python3 -m bootstrap benches/rebuild.py

Needs the image: run `make image` first. Prints seconds, the bytes of the layers that a client with the old image
must pull (unpacked, an upper bound), and their share of the image.
"""

import json
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.connection import Engine, client
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT

CHANGED = Path("usr/local/lib/python3.13/dist-packages/vllm/gb10_bench.py")
PATCHED, FIRST = "vllm/envs.py", "# SPDX-License-Identifier: Apache-2.0"


def main() -> None:
    """Run both, print one document."""
    ctx = open_context(os.environ, verbosity=-1)
    engine = connect_or_start(ctx.env, ctx.store)
    _, image = timed()
    remove(engine, image["tags"])
    removed, image = timed()
    with tempfile.TemporaryDirectory() as folder:
        changes = {"one_file_changed": overlay(Path(folder)), "one_patch_changed": patch(Path(folder))}
        rows = {name: row(engine, image, *timed(*arguments)) for name, arguments in changes.items()}
    print(json.dumps({"image_removed_s": removed, "image_bytes": image["size"], **rows}, indent=1))


def overlay(folder: Path) -> list[str]:
    """A file that vLLM has not, another one each time."""
    (folder / "overlay" / CHANGED).parent.mkdir(parents=True)
    (folder / "overlay" / CHANGED).write_text(f"stamp = {time.time()}\n", encoding="utf-8")
    return ["--overlay", str(folder / "overlay")]


def patch(folder: Path) -> list[str]:
    """A diff that adds a comment to a Python file of vLLM, another one each time."""
    stamp = f"--- a/{PATCHED}\n+++ b/{PATCHED}\n@@ -1,1 +1,2 @@\n+# {time.time()}\n {FIRST}\n"
    (folder / "stamp.patch").write_text(stamp, encoding="utf-8")
    return ["--patch", f"vllm={folder / 'stamp.patch'}"]


def row(engine: Engine, image: dict[str, Any], seconds: float, changed: dict[str, Any]) -> dict[str, float]:
    """Seconds to the changed image, and what a client that has the first must pull of it."""
    pulled = new_bytes(engine, image["tags"][-1], changed["tags"][-1])
    return {"seconds": seconds, "pulled_bytes": pulled, "pulled_share": pulled / image["size"]}


def timed(*arguments: str) -> tuple[float, dict[str, Any]]:
    """Seconds and result of one ``build.py image``."""
    begin = time.monotonic()
    text = capture([sys.executable, str(ROOT / "build.py"), "image", "--json", "--quiet", *arguments], env=os.environ)
    return round(time.monotonic() - begin, 1), json.loads(text)


def remove(engine: Engine, tags: list[str]) -> None:
    """Untag the image, which removes it: BuildKit's cache stays."""
    with closing(client(engine)) as sdk:
        for tag in tags:
            sdk.images.remove(tag)


def new_bytes(engine: Engine, old: str, new: str) -> int:
    """Unpacked bytes of the layers of ``new`` that ``old`` lacks."""
    with closing(client(engine)) as sdk:
        before, after = (sdk.images.get(tag).attrs["RootFS"]["Layers"] for tag in (old, new))
        sizes = [entry["Size"] for entry in reversed(sdk.images.get(new).history()) if entry["Size"]]
    layers = [layer for layer in after if layer not in set(before)]
    return sum(sizes[-len(layers) :])


if __name__ == "__main__":
    main()
