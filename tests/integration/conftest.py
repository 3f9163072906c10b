"""Tools that we did not write, for real: installed by hash into the store, none taken from the machine."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from xdist.workermanage import WorkerController

from gb10.core.store import Store, open_store
from gb10.image.context import Context, open_context
from tests.integration import longest_first, own_store
from tests.integration.debian_git import unpack_git
from tests.integration.machine_tools import install_missing
from tests.integration.pinned import cuda_prefix

if TYPE_CHECKING:
    from tests.integration.nodes import Registry

FOR_ALL: Final = "for-all-"
"""Names of folders that several files of tests use."""
STORE = pytest.StashKey[tuple[dict[str, str], Store]]()
SECONDS = pytest.StashKey[Mapping[str, float]]()


def pytest_configure(config: pytest.Config) -> None:
    """Each process that runs tests gets a store and an engine of its own, before a test module reads the environment.

    The process that only hands tests out to workers runs none.
    """
    given = getattr(config, "workerinput", {})
    worker = given.get("workerid")
    if worker is None:
        home = own_store.base(os.environ)
        config.stash[SECONDS] = longest_first.load_seconds(home)
        if not config.option.collectonly:
            install_missing()
            own_store.prepare(os.environ)
            config.pluginmanager.register(longest_first.Stopwatch(home))
    else:
        config.stash[SECONDS] = given.get("seconds", {})
    if config.option.collectonly or (config.getoption("numprocesses", None) and worker is None):
        return
    user = dict(os.environ)
    config.stash[STORE] = user, own_store.claim(user, worker or "alone")
    for name in ("DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"):
        os.environ.pop(name, None)
    os.environ.update(own_store.variables(user, config.stash[STORE][1]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """All workers of a run have one order."""
    node.workerinput["seconds"] = node.config.stash[SECONDS]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first, within what tests/conftest.py puts first."""
    longest_first.sort_by_seconds(items, config.stash[SECONDS])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The engine ends, and the store goes. xdist waits for this; what unconfigures a worker it kills after 10 s."""
    if STORE in session.config.stash:
        own_store.release(*session.config.stash[STORE])


@pytest.fixture(scope="session")
def removals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What removes folders while other tests run; one that fails is an error at the end."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    assert [child.wait() for child in started] == [0] * len(started)


@pytest.fixture(scope="module", autouse=True)
def _folders_go_with_their_file(
    tmp_path_factory: pytest.TempPathFactory, removals: list[subprocess.Popen[bytes]]
) -> Iterator[None]:
    """Stores and roots that a file's fixtures made are gigabytes; pytest keeps them to the end of the run."""
    base = tmp_path_factory.getbasetemp()
    before = set(base.iterdir())
    yield
    made = [path for path in set(base.iterdir()) - before if not path.name.startswith(FOR_ALL)]
    # Faster than shutil, and deep trees are no matter. A minute after some files, so nobody waits for it.
    removals.append(subprocess.Popen(["rm", "-rf", "--one-file-system", "--", *made]))


@pytest.fixture(scope="session")
def ctx() -> Context:
    return open_context(os.environ, verbosity=-1)


@pytest.fixture(scope="module")
def place(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Registry]":
    """A registry of the module's own."""
    from tests.integration.nodes import registry  # noqa: PLC0415 - after the environment is set

    with registry(ctx.store, tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="session")
def cuda_tools() -> Path:
    return cuda_prefix()


@pytest.fixture(scope="session")
def git_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with Debian's git, for chroot; its users keep to folders of their own."""
    return unpack_git(open_store(os.environ), tmp_path_factory.mktemp(f"{FOR_ALL}git"))
