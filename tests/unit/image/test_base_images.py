"""Bases as images: which engines get them, and what moves their tags."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import sentinel

import pytest

from gb10.image.build import bases
from gb10.image.build.bases import STAGES, Bases, base_tag, compress
from tests.unit.image.test_rehearsal_plan import OPTIONS, plan


@pytest.mark.parametrize("shared", [True, False])
def test_an_engine_that_copies_images_gets_files(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(path: Path) -> Path:
        (tmp_path / "plain").write_bytes(b"a tar")
        compress(tmp_path / "plain", path)
        return path

    monkeypatch.setattr(bases, "one_by_one", lambda *_: shared)
    monkeypatch.setattr(bases, "make_rootfs", lambda _, made, step: packed(tmp_path / f"{step.name}.of-store"))
    monkeypatch.setattr(Bases, "image", lambda self, name: f"a:{name}-{self.rebuild_id}")
    files, contexts = Bases(sentinel.ctx, plan(OPTIONS), sentinel.engine, "7").provide(STAGES)
    if shared:
        assert files == {}
        assert contexts == {"base-build": "docker-image://a:base-build-7", "base": "docker-image://a:base-image-7"}
    else:
        for name in ("base-build", "base-image"):
            files[f"{name}.tar"](tmp_path / name)
            assert (tmp_path / name).read_bytes() == b"a tar"
        assert contexts == {}


def test_a_tag_is_of_one_machine_and_one_run() -> None:
    native = plan(replace(OPTIONS, build="arm64"))
    tags = [
        base_tag(made, name, rebuild_id)
        for made in (plan(OPTIONS), native)
        for name in STAGES
        for rebuild_id in ("", "7")
    ]
    assert base_tag(plan(OPTIONS), "base-image") == base_tag(native, "base-image")  # one image from either machine
    assert len(set(tags)) == 6
    assert all(tag.startswith("gb10.invalid/") for tag in tags)  # no registry is asked for one that is gone
