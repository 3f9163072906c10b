"""Where the time of a cold build goes: an image from an empty store of its own, by phase and by program.

    python3 -m bootstrap benches/cold.py [--case small|short|full] [--folder DIR] [--downloads STORE] [--json]

`full` is `./build.py image`. `short` takes one module of FlashInfer instead of the set `core`: what is not compiling is
the same. `small` is the image of tests/integration/test_pipeline.py: the real bases, that module, a dozen wheels.

The store is made in DIR (default: the temporary folder) and removed afterwards with the engine that ran in it: `full`
needs 22 GB there, `small` 4. `--downloads` links the files that another store has: the network is then not measured.
CPU seconds and bytes can be compared on a machine that does other work, too; wall seconds cannot.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.embedded.daemon import Place, down
from gb10.core.proc import stream
from gb10.core.store import Store, open_store
from gb10.image.plan.catalog import ROOT
from tests.integration.own_store import keep_verified

SMALL: Final = """\
import os, sys
sys.path.insert(0, os.getcwd())
from gb10.cli.build.results import built
from gb10.image.context import open_context
from tests.integration.test_pipeline import small_plan
ctx = open_context(os.environ, verbosity=0)
built(ctx, small_plan(ctx), (), None, timings=True)
"""
CASES: Final[Mapping[str, tuple[str, ...]]] = {
    "small": (sys.executable, "-c", SMALL),
    "short": ("python3", "build.py", "image", "--timings", "--kernels", "smoke"),
    "full": ("python3", "build.py", "image", "--timings"),
}


def main() -> None:
    """Build one case; its table goes to stderr, with ``--json`` its document to stdout. Raises CommandFailedError."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="small")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--downloads", type=Path, metavar="STORE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="cold-") as folder:
        store = open_store({"GB10_CACHE_DIR": folder})
        if given.downloads:
            (store.root / "downloads").mkdir()
            keep_verified(given.downloads / "downloads", store.root / "downloads")
        try:
            document = build(store, CASES[given.case])
        finally:
            down(store)
    if given.json:
        print(json.dumps(document, indent=1))


def build(store: Store, argv: tuple[str, ...]) -> Mapping[str, object]:
    """What the store keeps of the build; raises CommandFailedError when it fails."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GB10_")}
    # its own engine, also where Docker runs: that one's caches are not empty
    env = {**own, "GB10_CACHE_DIR": str(store.root), "DOCKER_HOST": Place(store).endpoint.host}
    log = store.root / "cold.log"
    stream(argv, log=log, on_line=lambda line: print(line, file=sys.stderr, flush=True), env=env, cwd=ROOT)
    (kept,) = (store.root / "builds").glob("*.json")
    document: Mapping[str, object] = json.loads(kept.read_text(encoding="utf-8"))
    return document


if __name__ == "__main__":
    main()
