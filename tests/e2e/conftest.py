"""What the end-to-end tests share: the real store, the image, and an emulator that is called by its path."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gb10.engine.connection import Engine
from gb10.engine.reach import find
from gb10.host.fetch import open_session
from gb10.host.proc import capture
from gb10.host.store import Store, open_store
from gb10.sources.debian.debs import fetch_debs
from gb10.sources.debian.resolve import resolve_set
from gb10.workshop import Workshop, build_architecture, open_workshop
from tests.e2e.image import build, run_python

EMULATOR = {"amd64": "qemu-aarch64", "arm64": "qemu-x86_64"}[build_architecture()]


@pytest.fixture(scope="session")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(scope="session")
def shop() -> Workshop:
    return open_workshop(os.environ, verbosity=-1)


@pytest.fixture(scope="session")
def emulator(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's static qemu-user, called by its path: nothing is registered with the kernel."""
    debs = resolve_set(store, os.environ, suite="trixie", architecture=build_architecture(), packages=("qemu-user",))
    wanted = [deb for deb in debs if deb.name == "qemu-user"]
    with open_session(os.environ) as session:
        (deb,) = fetch_debs(session, store, os.environ, wanted)
    folder = tmp_path_factory.mktemp("qemu")
    capture(["dpkg-deb", "--extract", str(deb), str(folder)])
    return folder / "usr/bin" / EMULATOR


@pytest.fixture(scope="session")
def engine(store: Store) -> Engine:
    return find(os.environ, store)


@pytest.fixture(scope="session")
def image() -> dict[str, object]:
    return build("--engine", "vllm", "--arch", "12.1f")


@pytest.fixture(scope="session")
def python(engine: Engine, image: dict[str, object], emulator: Path) -> Callable[..., str]:
    """The image's Python under qemu, without a network: ``run_python`` with arguments, and files to show."""
    tags = image["tags"]
    assert isinstance(tags, list)
    return partial(run_python, engine, tags[-1], emulator)
