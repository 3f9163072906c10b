"""``rebuild`` for real: an image is made again from the record in it, and one that was changed is found."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gb10.containers.connection import client
from gb10.containers.images import read_folders, require_image
from gb10.containers.reach import connect_or_start
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.context import Context, open_context
from gb10.image.plan.catalog import ROOT
from tests.integration.test_pipeline import small_plan

pytestmark = [pytest.mark.integration, pytest.mark.long]
PLAN = "/usr/share/gb10/plan.json"
MINE = "usr/local/lib/python3.13/dist-packages/mine.py"
CHANGED = "gb10/test:changed"


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overlay")
    (folder / MINE).parent.mkdir(parents=True)
    (folder / MINE).write_text("MINE = {'a', 'b', 'c'}\n")
    return folder


@pytest.fixture(scope="module")
def image(ctx: Context, overlay: Path) -> Verified:
    return ImageBuild(ctx, small_plan(ctx, overlay=overlay)).image()


@pytest.fixture
def changed(ctx: Context, image: Verified) -> Iterator[str]:
    """The image with other bytes in one file, as a container that was committed has them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo(MINE)
        member.size = 2
        tar.addfile(member, io.BytesIO(b"#\n"))
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        container = sdk.containers.create(image.tags[-1], command="-", platform="linux/arm64")
        container.put_archive("/", packed.getvalue())
        container.commit(*CHANGED.split(":"))
        container.remove()
        yield CHANGED
        sdk.images.remove(CHANGED)


def rebuild(*arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """The exit code, the document and what was said."""
    argv = [sys.executable, "-m", "gb10", "rebuild", "--json", *map(str, arguments)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def names(ctx: Context) -> set[str]:
    """Tags of the engine's images."""
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        return {tag for one in sdk.images.list() for tag in one.tags}


def test_an_image_is_made_again_with_the_same_digest_and_nothing_stays(
    ctx: Context, image: Verified, overlay: Path
) -> None:
    before = names(ctx)
    code, document, said = rebuild(image.tags[-1], "--overlay", overlay)
    assert (code, document["same"], document["digest"]) == (0, True, image.digest), said
    assert [layer["name"] for layer in document["layers"]][:2] == ["base", "layer-cuda"]
    assert names(ctx) == before


def test_the_record_alone_is_enough_to_plan_it(ctx: Context, image: Verified, overlay: Path, tmp_path: Path) -> None:
    engine = connect_or_start(ctx.env, ctx.store)
    files, _ = read_folders(engine, ctx.store, require_image(engine, image.tags[-1]), (PLAN,))
    (tmp_path / "plan.json").write_bytes(files[PLAN])
    code, document, said = rebuild(tmp_path / "plan.json", "--overlay", overlay, "--dry-run")
    assert (code, document["key"]) == (0, small_plan(ctx, overlay=overlay).key), said
    assert [name for name, hit in document["hit"].items() if hit] == ["flashinfer-jit-cache"]


def test_one_changed_file_is_named(changed: str, overlay: Path) -> None:
    code, document, said = rebuild(changed, "--overlay", overlay)
    assert (code, document["same"], document["compared"]) == (9, False, True)
    assert f"{changed} is not reproduced" in said
    assert "content" in {one["path"]: one["differs"] for one in document["files"]}[MINE]


def test_without_the_overlay_nothing_is_built(image: Verified) -> None:
    code, document, _ = rebuild(image.tags[-1])
    assert (code, document["error"]["message"]) == (2, "the image has an overlay, which it does not hold apart")
