"""One build of an image: its build context takes the wheels that the image was made of."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gb10.image.build import image_build
from gb10.image.build.image_build import ImageBuild
from gb10.image.context import open_context
from gb10.image.request.planning import Request, make_plan


def test_a_build_context_compiles_nothing_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    again = []

    @contextmanager
    def prepared(self: ImageBuild, engine: object, *, upstream: bool = True) -> Iterator[SimpleNamespace]:
        again.append((self.rebuild, upstream))
        (tmp_path / "made/files").mkdir(parents=True)
        yield SimpleNamespace(folder=tmp_path / "made/files")

    monkeypatch.setattr(ImageBuild, "prepared", prepared)
    monkeypatch.setattr(image_build, "ready_engine", lambda ctx: None)
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    build = ImageBuild(ctx, plan, ["flashinfer"])
    assert build.rebuild
    build.context(tmp_path / "context")
    assert again == [(frozenset(), False)]
    assert (tmp_path / "context/docker-bake.json").exists()
