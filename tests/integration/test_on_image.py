"""An image on an image of others, for real: a registry, an engine, diffs, mods and overlays above what is there."""

import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image, require_image, untag
from gb10.containers.registry.transfer import Moves, push
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context, build_architecture
from gb10.image.recipe.base_image import BaseImage, BaseLayer, Installed
from tests.integration.debian_roots import packed_root
from tests.integration.nodes import Registry, registry
from tests.integration.services import called, ran

pytestmark = pytest.mark.integration

PLATFORM = f"linux/{build_architecture()}"
SITE = "usr/local/lib/python3.13/dist-packages"
MODULE = "def answer():\n    return 41\n\n\ndef name():\n    return 'vllm'\n"
DOCKERFILE = """\
FROM scratch
ADD root.tar /
COPY --chown=1000:1000 site /
RUN mkdir -p /srv && chmod 1777 /srv && python3 -m compileall -q --invalidation-mode unchecked-hash /{site}/vllm
ENV SERVED=yes PYTHONPATH=/{site}
WORKDIR /srv
USER 1000
ENTRYPOINT ["python3", "-c", "import vllm.core, os, sys; print(vllm.core.answer(), os.getuid(), os.getcwd())"]
"""
DIFF = """\
--- a/vllm/core.py
+++ b/vllm/core.py
@@ -1,5 +1,5 @@
 def answer():
-    return 41
+    return 42


 def name():
"""


@pytest.fixture(scope="module")
def place(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(ctx.store, tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


@pytest.fixture(scope="module")
def base(ctx: Context, engine: Engine, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> BaseImage:
    """An image with a Python, an engine's package and bytecode that never looks at its source."""
    folder = tmp_path_factory.mktemp("base")
    shutil.copy(packed_root(ctx.store, "bash", "coreutils", "findutils", "grep", "sed", "python3"), folder / "root.tar")
    package = folder / "site" / SITE
    for name, text in {
        "vllm/__init__.py": "",
        "vllm/core.py": MODULE,
        "vllm-0.34.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.34.0.dev12+gabc\n",
        "vllm-0.34.0.dist-info/RECORD": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    (folder / "Dockerfile").write_text(DOCKERFILE.format(site=SITE), encoding="utf-8")
    name = f"{place.host}/others/vllm:day0"
    request = BuildRequest(
        dockerfile=folder / "Dockerfile", target="", platform=PLATFORM, context=folder, output="type=image", tags=(name,)
    )
    build(open_buildx(engine, ctx.env, ctx.store), request, log=folder / "log", on_event=lambda event: None)
    moves = Moves()
    push(engine, name, moves)
    image, manifest = require_image(engine, name), place.manifest("others/vllm", "day0")
    rows = zip(manifest["layers"], image.diff_ids, strict=True)
    return BaseImage(
        reference=f"{place.host}/others/vllm@{moves.digest}",
        platform=PLATFORM,
        layers=tuple(BaseLayer(digest=row["digest"], diff_id=diff, size=row["size"]) for row, diff in rows),
        environment=dict(line.split("=", 1) for line in image.environment),
        user="1000",
        workdir="/srv",
        entrypoint=("python3",),
        command=(),
        interpreter="/usr/bin/python3",
        python="3.13",
        site_packages=(f"/{SITE}", "/usr/lib/python3/dist-packages"),
        glibc="2.41",
        installed={"vllm": Installed(name="vllm", version="0.34.0.dev12+gabc", folder=f"/{SITE}")},
        engine="vllm",
        cuda="",
    )


@pytest.fixture(autouse=True)
def _by_hand(base: BaseImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic import TypeAdapter

    (tmp_path / "base.json").write_bytes(TypeAdapter(BaseImage).dump_json(base))
    monkeypatch.setenv("GB10_BASE_BY_HAND", str(tmp_path / "base.json"))


def started(engine: Engine, reference: str) -> str:
    """What a container prints by the image's own entrypoint."""
    with closing(client(engine)) as sdk:
        return sdk.containers.run(reference, remove=True, network_mode="host").decode().strip()


def asked(base: BaseImage, *arguments: str) -> tuple[str, ...]:
    return ("image", "--from", base.reference, "--platform", PLATFORM, *arguments)


def test_a_diff_on_an_image_of_others(engine: Engine, base: BaseImage, tmp_path: Path) -> None:
    diff = tmp_path / "fix.diff"
    diff.write_text(DIFF, encoding="utf-8")
    begun = time.monotonic()
    found = json.loads(ran(*asked(base, "--patch", str(diff), "--json")))
    print("seconds", time.monotonic() - begun, found)
    tag = found["tags"][-1]
    assert started(engine, tag) == "42 1000 /srv"
    image = require_image(engine, tag)
    assert image.diff_ids[: len(base.layers)] == tuple(layer.diff_id for layer in base.layers)
    assert len(image.diff_ids) == len(base.layers) + 2
    assert json.loads(ran(*asked(base, "--patch", str(diff), "--json")))["hit"]


def test_mods_and_an_overlay_and_whole_paths(engine: Engine, base: BaseImage, tmp_path: Path) -> None:
    (tmp_path / "whole.diff").write_text(DIFF.replace("vllm/core.py", f"{SITE}/vllm/core.py"), encoding="utf-8")
    (tmp_path / "over/etc").mkdir(parents=True)
    (tmp_path / "over/etc/mine").write_text("mine", encoding="utf-8")
    mod = tmp_path / "brand"
    mod.mkdir()
    (mod / "run.sh").write_text(f"#!/bin/bash\nsed -i s/42/43/ /{SITE}/vllm/core.py && cat /etc/mine\n", encoding="utf-8")
    more = ("--patch", str(tmp_path / "whole.diff"), "--overlay", str(tmp_path / "over"), "--mod", str(mod))
    code, out, said = called(*asked(base, *more, "--json"))
    print(said)
    found = json.loads(out)
    print(found)
    assert started(engine, found["tags"][-1]) == "43 1000 /srv"


def test_wheels_are_added_by_a_lock(engine: Engine, base: BaseImage, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        f"base: {{image: '{base.reference}'}}\nplatform: {PLATFORM}\nrequirements: [jinja2]\n", encoding="utf-8"
    )
    print(called("lock", "--engine", str(recipe)))
    print((tmp_path / "mine.lock.json").read_text()[:3000])
    code, out, said = called("image", "--engine", str(recipe), "--json", "--platform", PLATFORM)
    print(out, said)
    tag = json.loads(out)["tags"][-1]
    with closing(client(engine)) as sdk:
        text = sdk.containers.run(tag, ["-c", "import jinja2; print(jinja2.__version__, jinja2.__file__)"], entrypoint="python3", remove=True, network_mode="host")
    print(text)


def test_a_wheel_that_does_not_fit(base: BaseImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        f"base: {{image: '{base.reference}'}}\nplatform: {PLATFORM}\nrequirements: [jinja2==3.1.6]\n", encoding="utf-8"
    )
    from pydantic import TypeAdapter
    old = Installed(name="markupsafe", version="1.1.1", folder=f"/{SITE}")
    one = replace(base, installed={**base.installed, "markupsafe": old})
    (tmp_path / "base.json").write_bytes(TypeAdapter(BaseImage).dump_json(one))
    print(called("lock", "--engine", str(recipe)))
    recipe.write_text(
        f"base: {{image: '{base.reference}'}}\nplatform: {PLATFORM}\nrequirements: [markupsafe==3.0.2]\n", encoding="utf-8"
    )
    print(called("lock", "--engine", str(recipe)))


def test_publish_and_rebuild_and_show(engine: Engine, base: BaseImage, place: Registry, ctx: Context, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    diff = tmp_path / "fix.diff"
    diff.write_text(DIFF, encoding="utf-8")
    found = json.loads(ran(*asked(base, "--patch", str(diff), "--json")))
    tag = found["tags"][-1]
    place.forget()
    print(called("publish", tag, f"{place.host}/mine/vllm", "--json"))
    print([line for line in place.log.read_text().splitlines() if "POST" in line or "PATCH" in line])
    with registry(ctx.store, tmp_path_factory.mktemp("elsewhere")) as other:
        print(called("publish", tag, f"{other.host}/mine/vllm", "--no-attest"))
    for more in (("show", tag), ("verify", tag), ("show", tag, "--sbom"), ("rebuild", tag), ("cache", "ls"), ("image", *asked(base)[1:], "--patch", str(diff), "--context", str(tmp_path / "ctx"))):
        print("=====", more)
        code, out, said = called(*more)
        print(code, out[:2500], said[:2500])
    print(sorted(map(str, (tmp_path / "ctx").rglob("*")))[:30])


def test_refusals(base: BaseImage, tmp_path: Path) -> None:
    (tmp_path / "bad.diff").write_text(DIFF.replace("41", "40"), encoding="utf-8")
    for more in (("--patch", str(tmp_path / "bad.diff"), "--dry-run"), ("--ref", "vllm=0.33.0"), ("--engine", "sglang"), ("--kernels", "core")):
        print(called(*asked(base, *more)))
