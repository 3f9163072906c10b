"""Wheels that are added to an image of others: where their files and programs go on the build host."""

from pathlib import Path

import pytest

from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.base_build import install_added
from gb10.image.plan.values import Step
from tests.unit.made_up_base import base


def test_nothing_is_written_outside_the_folder_of_the_step(tmp_path: Path) -> None:
    work = tmp_path / "a/b/c/work"
    work.mkdir(parents=True)
    hostile = base(site_packages=("/../../../../out/lib/python3.12/site-packages",))
    with pytest.raises(BuildError, match="leads out of it"):
        install_added(Store(tmp_path / "store"), hostile, Step(name="added", kind="added", key="0" * 64), work)
    assert [path.name for path in tmp_path.rglob("out")] == []
