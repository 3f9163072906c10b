"""Two builds that share a store, or a compile cache: what the second one saves, in CPU and wall seconds.

    python3 -m bootstrap benches/two_builds.py [--same | --compile-cache]

The image is that of tests/integration/test_pipeline.py: the real bases, one module of FlashInfer, a dozen wheels. The
two differ by their last layer; with ``--same`` they are one image. Each way has a fresh store and an engine of its own.
Exit 1 when a digest differs between the ways, or when the compilers of the two at once took half as long again. CPU
seconds can be compared on a machine that does other work, too; wall seconds only within a run.

``--compile-cache``: `./build.py wheels` in two stores with engines of their own, as on two machines, one after the
other. Both use one redis, empty at first. Exit 1 when a wheel differs, or when the second compiled a tenth as long.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.containers.embedded.daemon import Place, down, up
from gb10.core.config import variable
from gb10.core.store import Store, open_store
from gb10.core.usage import CONTAINERS, PROC, UsageTree, parse_stat
from gb10.image.build.build_usage import COMPILERS, CROSS, GB10
from gb10.image.plan.catalog import ROOT
from tests.integration import own_store
from tests.integration.nodes import lend_programs, redis

IMAGE: Final = """\
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from gb10.image.build.image_build import ImageBuild
from gb10.image.context import open_context
from tests.integration.test_pipeline import small_plan
ctx = open_context(os.environ, verbosity=0)
print(ImageBuild(ctx, small_plan(ctx, overlay=Path(sys.argv[1]))).image().digest)
"""
WHEELS: Final = """\
import json, subprocess, sys
said = subprocess.run([sys.executable, "build.py", "wheels", "--json"], check=True, stdout=subprocess.PIPE).stdout
print(*(wheel["sha256"] for wheel in json.loads(said)["wheels"]))
"""
INTERVAL: Final = 1.0
"""Seconds between two looks, which are in the sums of gb10 and take some hundredths of a second each."""
MOST_AGAIN: Final = 1.5
"""Of the compilers' CPU seconds, before something counts as compiled twice."""
THERE: Final = ("downloads", "rootfss", "environments")
"""Rooms that both stores begin with, where an earlier run has left them: what is downloaded, unpacked, installed."""
LEFT: Final = 0.1
"""Of the first builder's: what linkers and programs that are asked for their version may take on the second."""


def main() -> int:
    """Both ways, and what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--same", action="store_true", help="Build one image twice.")
    way.add_argument("--compile-cache", action="store_true", help="Wheels of two stores, by one server of results.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="two-builds-") as folder:
        return by_a_server(Path(folder)) if given.compile_cache else in_one_store(Path(folder), same=given.same)


def in_one_store(folder: Path, *, same: bool) -> int:
    """Two images, one after the other and at once."""
    overlays = [folder / name for name in ("first", "first" if same else "second")]
    for overlay in {*overlays}:
        (overlay / "etc").mkdir(parents=True)
        (overlay / "etc/motd.gb10").write_text(overlay.name, encoding="ascii")
    found: list[Built] = []
    for way, at_once in (("one after the other", False), ("at once", True)):
        store = own_store.claim(os.environ, "two-builds")
        try:
            commands = [(sys.executable, "-c", IMAGE, str(overlay)) for overlay in overlays]
            found.append(built(store, commands, own_store.variables(os.environ, store), at_once=at_once))
        finally:
            down(store)
            own_store.release(os.environ, store)
        print(f"{way}: {json.dumps(asdict(found[-1]))}", flush=True)
    alone, together = found
    twice = together.compilers > MOST_AGAIN * alone.compilers
    return 1 if twice or alone.digests != together.digests else 0


def by_a_server(folder: Path) -> int:
    """The wheels of the default image on two builders; what would be downloaded is there by hard links."""
    found: list[Built] = []
    programs = own_store.claim(os.environ, "compile-cache")
    (folder / "redis").mkdir()
    try:
        with redis(programs, folder / "redis", uuid.uuid4().hex) as server:
            for way in ("an empty server", "a full one"):
                store = open_store({"GB10_CACHE_DIR": str(folder / way.replace(" ", "-"))})
                lend_programs(programs, store)
                for room in filter(Path.is_dir, (programs.root / name for name in THERE)):
                    shutil.copytree(room, store.root / room.name, copy_function=os.link, symlinks=True)
                variables = {**own_store.variables(os.environ, store), variable("compile-cache"): server.url}
                try:
                    found.append(built(store, [(sys.executable, "-c", WHEELS)], variables, at_once=False))
                finally:
                    down(store)
                print(f"{way}: {json.dumps(asdict(found[-1]))}", flush=True)
    finally:
        own_store.release(os.environ, programs)
    first, second = found
    return 1 if second.compilers > LEFT * first.compilers or first.digests != second.digests else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The digests; wall and CPU seconds of the builds with the engine, those of compilers, and what was written."""

    digests: tuple[str, ...]
    wall: float
    cpu: float
    compilers: float
    written_mb: int


def built(store: Store, commands: Sequence[tuple[str, ...]], variables: Mapping[str, str], *, at_once: bool) -> Built:
    """What the builds took, each of which prints its digests. Raises CalledProcessError."""
    env = {**os.environ, **variables}
    up(store, env)
    own = parse_stat((PROC / "self/stat").read_text(encoding="utf-8"))
    with suppress(ChildProcessError):  # the engine of an earlier way was a child, too: what it used is not this way's
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    tree = UsageTree(since=own.key[1] + 1, contained=lambda _: "")
    begin, waiting, running, digests = time.monotonic(), [*commands], list[subprocess.Popen[str]](), list[str]()
    try:
        while True:
            if waiting and (at_once or not running):
                running.append(subprocess.Popen(waiting.pop(0), cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True))
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
        digests += said.split()
    return digests


def stop(running: Sequence[subprocess.Popen[str]]) -> None:
    """End builds and wait for them: their store is given back next."""
    for one in running:
        one.terminate()
    for one in running:
        one.communicate()


if __name__ == "__main__":
    sys.exit(main())
