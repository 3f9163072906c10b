"""Two builds that share a store: at once against one after the other, in CPU and wall seconds.

    python3 -m bootstrap benches/two_builds.py [--same]

The image is that of tests/integration/test_pipeline.py: the real bases, one module of FlashInfer, a dozen wheels. The
two differ by their last layer; with ``--same`` they are one image. Each way has a fresh store and an engine of its own.
Exit 1 when a digest differs between the ways, or when the compilers of the two at once took half as long again. CPU
seconds can be compared on a machine that does other work, too; wall seconds only within a run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.embedded.daemon import Place, down, up
from gb10.core.store import Store
from gb10.core.usage import CONTAINERS, PROC, UsageTree, parse_stat
from gb10.image.build.build_usage import COMPILERS, CROSS, GB10
from gb10.image.plan.catalog import ROOT
from tests.integration import own_store

BUILD: Final = """\
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from gb10.image.build.image_build import ImageBuild
from gb10.image.context import open_context
from tests.integration.test_pipeline import small_plan
ctx = open_context(os.environ, verbosity=0)
print(ImageBuild(ctx, small_plan(ctx, overlay=Path(sys.argv[1]))).image().digest)
"""
INTERVAL: Final = 1.0
"""Seconds between two looks, which are in the sums of gb10 and take some hundredths of a second each."""
MOST_AGAIN: Final = 1.5
"""Of the compilers' CPU seconds, before something counts as compiled twice."""


def main() -> int:
    """Both ways, and what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", action="store_true", help="Build one image twice.")
    given = parser.parse_args()
    found: dict[str, Built] = {}
    with tempfile.TemporaryDirectory(prefix="two-builds-") as folder:
        overlays = [Path(folder) / name for name in ("first", "first" if given.same else "second")]
        for overlay in {*overlays}:
            (overlay / "etc").mkdir(parents=True)
            (overlay / "etc/motd.gb10").write_text(overlay.name, encoding="ascii")
        for way, at_once in (("one after the other", False), ("at once", True)):
            store = own_store.claim(os.environ, "two-builds")
            try:
                found[way] = built(store, overlays, at_once=at_once)
            finally:
                down(store)
                own_store.release(os.environ, store)
            print(f"{way}: {json.dumps(asdict(found[way]))}", flush=True)
    alone, together = found.values()
    twice = together.compilers > MOST_AGAIN * alone.compilers
    return 1 if twice or alone.digests != together.digests else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The digests; wall and CPU seconds of the builds with the engine, those of compilers, and what was written."""

    digests: tuple[str, ...]
    wall: float
    cpu: float
    compilers: float
    written_mb: int


def built(store: Store, overlays: Sequence[Path], *, at_once: bool) -> Built:
    """What the builds took. Raises CalledProcessError."""
    env = {**os.environ, **own_store.variables(os.environ, store)}
    up(store, env)
    own = parse_stat((PROC / "self/stat").read_text(encoding="utf-8"))
    tree = UsageTree(since=own.key[1], contained=lambda _: "")
    begin, waiting, running, digests = time.monotonic(), [*overlays], list[subprocess.Popen[str]](), list[str]()
    try:
        while True:
            if waiting and (at_once or not running):
                argv = [sys.executable, "-c", BUILD, str(waiting.pop(0))]
                running.append(subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True))
                continue
            found = Place(store).daemons().items()
            daemons = {pid: CONTAINERS for pid, name in found if name in ("dockerd", "containerd")}
            tree.look({**daemons, own.key[0]: GB10}, {GB10: GB10, CONTAINERS: CONTAINERS})
            digests += ended(running)
            if not running and not waiting:
                break
            time.sleep(INTERVAL)
    finally:
        stop(running)
    tree.look({**daemons, own.key[0]: GB10}, {GB10: GB10, CONTAINERS: CONTAINERS})
    return Built(
        digests=tuple(sorted(digests)),
        wall=round(time.monotonic() - begin, 1),
        cpu=round(sum(used.cpu for used in tree.sums.values()), 1),
        compilers=round(sum(used.cpu for (_, name), used in tree.sums.items() if CROSS.sub("", name) in COMPILERS), 1),
        written_mb=sum(used.written for used in tree.sums.values()) // 10**6,
    )


def ended(running: list[subprocess.Popen[str]]) -> list[str]:
    """The digests of builds that ended, which are taken off the list. Raises CalledProcessError."""
    digests = list[str]()
    for one in [one for one in running if one.poll() is not None]:
        running.remove(one)
        said, _ = one.communicate()
        if one.returncode:
            raise subprocess.CalledProcessError(one.returncode, one.args)
        digests.append(said.strip())
    return digests


def stop(running: Sequence[subprocess.Popen[str]]) -> None:
    """End builds and wait for them: their store is given back next."""
    for one in running:
        one.terminate()
    for one in running:
        one.communicate()


if __name__ == "__main__":
    sys.exit(main())
