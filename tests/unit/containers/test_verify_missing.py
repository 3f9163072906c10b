"""What `verify` and `publish` say of an image that no engine has; nothing is downloaded to find that out."""

from pathlib import Path
from typing import Literal

import pytest

from gb10.cli import main
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.embedded.daemon import Place
from gb10.containers.reach import connect_if_has_images
from gb10.core.store import Store
from gb10.image.build.inspect import no_image


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
