"""One digest, wherever an image is built: stores, engines, checkouts, users, locales, time zones and umasks differ.

Both sides start with an empty store, but for downloads. 4 minutes on two cores.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gb10.containers.embedded.daemon import Place, down, up
from gb10.core.config import store_root
from gb10.core.http_session import open_session
from gb10.core.proc import capture
from gb10.core.store import Store, open_store
from gb10.image.context import build_architecture
from gb10.image.lock.lockfile import lock_text
from gb10.image.plan.catalog import ROOT
from gb10.sources.debian.mirror import fetch_debs
from gb10.sources.debian.resolve import resolve_set
from tests.integration.test_pipeline import small

pytestmark = pytest.mark.e2e

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
"""One that every user may run."""
MINE = "usr/local/lib/python3.13/dist-packages/mine.py"
OWN = ("GB10_", "DOCKER_", "XDG_", "LC_", "PYTEST_")
NOBODY = 4711
"""A user that no machine has."""
LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """Who builds, and where."""

    folder: Path
    user: int
    umask: int
    env: Mapping[str, str]

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where another user may go, too; pytest's own folders are closed."""
    made = Path(tempfile.mkdtemp(prefix="gb10-anywhere-", dir="/var/tmp"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def locales(store: Store, tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """Debian's locales, which few machines have."""
    architecture = build_architecture()
    debs = resolve_set(store, os.environ, suite="trixie", architecture=architecture, packages=("locales-all",))
    with open_session(os.environ) as session:
        (deb,) = fetch_debs(session, store, os.environ, [deb for deb in debs if deb.name == "locales-all"])
    capture(["dpkg-deb", "--extract", str(deb), str(folder / "locales")])
    return folder / "locales/usr/lib/locale"


def built(side: Side, overlay: bytes) -> dict[str, object]:
    """What the image became on a side; its engine is up meanwhile."""
    for name in ("home", "overlay"):
        (side.folder / name).mkdir(parents=True)
    shutil.copytree(ROOT, side.folder / "the checkout", symlinks=True, ignore=LEFT_OUT)
    (side.folder / "overlay" / MINE).parent.mkdir(parents=True)
    (side.folder / "overlay" / MINE).write_bytes(overlay)
    open_store({"GB10_CACHE_DIR": str(side.store.root)})
    for entry in {*HASH.findall(lock_text(small()[1]))}:
        if (store_root(os.environ) / "downloads" / entry).exists():
            shutil.copytree(store_root(os.environ) / "downloads" / entry, side.store.root / "downloads" / entry)
    capture(["chown", "--recursive", f"{side.user}:{side.user}", str(side.folder)])
    with_engine = Store(side.folder / "engine's store")
    open_store({"GB10_CACHE_DIR": str(with_engine.root)})
    up(with_engine, os.environ)
    try:
        Place(with_engine).run.chmod(0o711)
        os.chown(Place(with_engine).socket, side.user, side.user)  # what the group docker does
        return run(side, Place(with_engine).endpoint.host)
    finally:
        down(with_engine)
        shutil.rmtree(side.folder)  # the other side needs its room


def run(side: Side, engine: str) -> dict[str, object]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN) and name != "LANG"}
    own = {"HOME": str(side.folder / "home"), "GB10_CACHE_DIR": str(side.store.root), "DOCKER_HOST": engine}
    assert PYTHON
    done = subprocess.run(
        [PYTHON, "-m", "bootstrap", "tests/e2e/small_image.py", str(side.folder / "overlay")],
        cwd=side.folder / "the checkout",
        env={**kept, **own, **side.env},
        user=side.user,
        group=side.user,
        extra_groups=(),
        umask=side.umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_two_users_locales_zones_paths_engines_and_stores_give_one_digest(folder: Path, locales: Path) -> None:
    root = Side(folder=folder / "root's", user=0, umask=0o022, env={"LC_ALL": "C", "TZ": "UTC"})
    turkish = {"LC_ALL": "tr_TR.UTF-8", "LOCPATH": str(locales), "TZ": "Pacific/Chatham"}
    nobody = Side(folder=folder / "nobody's grüße", user=NOBODY, umask=0o077, env=turkish)
    one, two = (built(side, b"MINE = {'a', 'b', 'c'}\n") for side in (root, nobody))
    assert (one["user"], one["umask"], one["locale"], one["zone"]) == (0, 0o022, "C", "UTC")
    assert (two["user"], two["umask"], two["locale"]) == (NOBODY, 0o077, "tr_TR.UTF-8")
    assert two["zone"] == "+1245"
    assert [side["hit"] for side in (one, two)] == [False, False]
    for name in ("checkout", "engine"):
        assert one[name] != two[name]
    assert one["digest"] == two["digest"]
