"""What the end-to-end tests share: the real store, the image, and an emulator that is called by its path."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gb10.containers.connection import Engine
from gb10.containers.reach import connect_or_start
from gb10.core.store import Store, open_store
from gb10.image.context import Context, open_context
from tests.e2e.image import build, run_python
from tests.integration.test_base import emulator as foreign_emulator


@pytest.fixture(scope="session")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(scope="session")
def ctx() -> Context:
    return open_context(os.environ, verbosity=-1)


@pytest.fixture(scope="session")
def emulator(store: Store) -> Path:
    """Debian's static qemu-user, called by its path: nothing is registered with the kernel."""
    return foreign_emulator(store)


@pytest.fixture(scope="session")
def engine(store: Store) -> Engine:
    return connect_or_start(os.environ, store)


@pytest.fixture(scope="session")
def image() -> dict[str, object]:
    return build("--engine", "vllm", "--arch", "12.1f")


@pytest.fixture(scope="session")
def python(engine: Engine, image: dict[str, object], emulator: Path) -> Callable[..., str]:
    """The image's Python under qemu, without a network: ``run_python`` with arguments, and files to show."""
    tags = image["tags"]
    assert isinstance(tags, list)
    return partial(run_python, engine, tags[-1], emulator)
