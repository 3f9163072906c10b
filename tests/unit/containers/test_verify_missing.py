"""What `verify` and `publish` say of an image that no engine has; nothing is downloaded to find that out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest

from gb10.cli import main
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.embedded.daemon import Place
from gb10.containers.reach import connect_if_has_images
from gb10.core.store import Store
from gb10.errors import EngineError
from gb10.image.build import inspect
from gb10.image.build.inspect import Inspected, last_line, no_image
from gb10.image.context import Context


@pytest.mark.parametrize(
    ("kind", "message", "listing"),
    [
        ("user", "Docker has no image a:b", "docker images lists its images"),
        ("embedded", "the embedded engine has no image a:b", "docker -H unix:///s images lists its images"),
    ],
)
def test_the_engine_that_lacks_the_image_is_named(
    kind: Literal["user", "embedded"], message: str, listing: str
) -> None:
    endpoint = Endpoint(host="unix:///s", origin="x")
    error = no_image(Engine(kind=kind, endpoint=endpoint, version="1", api="1", containerd=False), "a:b")
    assert error.message == message
    assert (error.hint or "").splitlines()[0] == listing


def test_an_engine_that_never_ran_has_no_images_and_is_not_started(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert connect_if_has_images({"DOCKER_HOST": Place(store).endpoint.host}, store) is None
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize(("words", "code"), [([], 3), (["--json"], 3), (["--claim"], 9)])
def test_a_folder_without_binaries_is_an_empty_selection(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path / "empty"), *words]) == code


@pytest.mark.parametrize(
    ("platform", "runs", "data", "found"),
    [
        ("linux/arm64", False, True, None),  # as this machine
        ("linux/amd64", True, True, None),
        ("linux/amd64", True, False, None),
        ("linux/amd64", False, True, "qemu-x86_64"),
        ("linux/amd64", False, False, "linux/amd64"),
        ("linux/riscv64", True, True, "linux/riscv64"),
    ],
)
def test_programs_of_another_machine_need_an_emulator_and_the_engines_files(  # noqa: PLR0917 - a row
    platform: str, runs: bool, data: bool, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "build_architecture", lambda: "arm64")
    monkeypatch.setattr(inspect, "emulated", lambda *_: runs)
    monkeypatch.setattr(inspect, "fetch_emulator", lambda _, __, program: Path(program))
    engine = SimpleNamespace(data=tmp_path if data else None, endpoint=SimpleNamespace(host="unix:///x"))
    one = cast("Inspected", SimpleNamespace(image=SimpleNamespace(platform=platform), engine=engine))
    ctx = cast("Context", SimpleNamespace(store=Store(tmp_path), env={}))
    if found and "/" in found:
        with pytest.raises(EngineError, match=f"nothing here runs programs of {found}"):
            inspect._emulator(ctx, one)
    else:
        emulator = inspect._emulator(ctx, one)
        assert (emulator.name.removesuffix("-static") if emulator else None) == found


def test_the_last_line_that_says_something_is_the_error() -> None:
    assert last_line("Traceback\n  ValueError: x  \n \n") == "ValueError: x"
    assert last_line(" \n") == "it printed nothing"
