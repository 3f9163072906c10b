"""A file system without hard links: what is sent to an engine is copied, and that is said."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gb10.containers.connection import Endpoint, Engine
from gb10.core.files import NO_LINKS, link_or_copy
from gb10.core.store import Store, file_sha256
from gb10.errors import BuildError
from gb10.image.build.contexts import build_context, wheels
from gb10.image.build.estimate import check_disk_and_memory, needs
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.request.planning import Request, make_plan


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the checkout or, where the tests lie there, than the temporary folder."""
    other = "/dev/shm" if ROOT.stat().st_dev == tmp_path.stat().st_dev else tmp_path  # noqa: S108 - a memory disk
    with TemporaryDirectory(dir=other) as folder:
        assert Path(folder).stat().st_dev != ROOT.stat().st_dev
        yield Path(folder)


def refusing(number: int) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_file_of_another_file_system_is_copied(memory_disk: Path) -> None:
    link_or_copy(ROOT / "pyproject.toml", memory_disk / "here")
    assert file_sha256(memory_disk / "here") == file_sha256(ROOT / "pyproject.toml")
    assert (memory_disk / "here").stat().st_mtime == (ROOT / "pyproject.toml").stat().st_mtime
    with pytest.raises(FileExistsError):
        link_or_copy(ROOT / "LICENSE", memory_disk / "here")


@pytest.mark.parametrize("number", NO_LINKS, ids=errno.errorcode.get)
def test_a_context_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    store = Store(tmp_path)
    wheel = store.entry("downloads", "a" * 64) / "demo-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"some bytes")

    def laid() -> dict[str, bytes]:
        with build_context(store, {"a.py": b"pass"}, {"tools-wheels": wheels([wheel])}) as context:
            return {
                str(path.relative_to(context.folder.parent)): path.read_bytes()
                for path in context.folder.parent.rglob("*")
                if path.is_file()
            }

    linked = laid()
    monkeypatch.setattr(os, "link", refusing(number))
    assert laid() == linked
    assert len(linked) == 3


def test_a_full_disk_is_no_reason_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        link_or_copy(ROOT / "LICENSE", tmp_path / "here")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("links", [True, False])
def test_it_is_said_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], links: bool
) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    if not links:
        monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    check_disk_and_memory(ctx, needs(ctx, plan, {step.name: True for step in plan.steps}, None), None)
    assert ("has no hard links: what a step sends" in capsys.readouterr().err) is not links
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("apart", [False, True], ids=["one disk", "the engine's is another"])
def test_disk_for_the_copies_is_asked_for(
    tmp_path: Path, memory_disk: Path, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    needed = needs(ctx, plan, {step.name: False for step in plan.steps}, None)
    sizes = {step.name: step.download for step in plan.steps}
    compiled = sum(sizes[step.name] for step in plan.of_kind("wheel"))
    assert needed.copies == compiled + max(sizes[step.name] for step in plan.of_kind("layer"))
    other = next(one for one in (memory_disk, ROOT) if one.stat().st_dev != tmp_path.stat().st_dev)
    endpoint = Endpoint(host="unix:///x", origin="test")
    there = Engine(kind="user", endpoint=endpoint, version="1", api="1.41", containerd=False, data=other)
    engine = there if apart else None
    enough = (needed.download if apart else needed.disk) + 1
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: usage._replace(free=enough if Path(folder) == tmp_path else 1 << 50)
    )
    monkeypatch.setattr("gb10.image.build.estimate.memory", lambda: needed.memory)
    check_disk_and_memory(ctx, needed, engine)
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    with pytest.raises(BuildError, match="not enough disk"):
        check_disk_and_memory(ctx, needed, engine)
