"""Images on images of others, for real: a registry, an engine; diffs, mods, overlays and wheels above what is there."""

import difflib
import json
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from gb10.containers.buildx.build import BuildRequest, build
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image, require_image, tag_image, untag
from gb10.containers.registry.transfer import Moves, push
from gb10.image.base.base_files import read_base_files
from gb10.image.base.base_reading import inspect_base
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context, build_architecture
from tests.integration.bases import Layout, Place, make_base
from tests.integration.debian_roots import packed_root
from tests.integration.nodes import Registry, registry
from tests.integration.services import called, ran

pytestmark = pytest.mark.integration

PLATFORM = f"linux/{build_architecture()}"
OTHER = "linux/arm64" if build_architecture() == "amd64" else "linux/amd64"
SITE = "usr/local/lib/python3.13/dist-packages"
MODULE = "def answer():\n    return 41\n\n\ndef name():\n    return 'vllm'\n"
FILES = {
    "vllm/__init__.py": "",
    "vllm/core.py": MODULE,
    "vllm-0.34.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.34.0.dev12+gabc\n",
    "markupsafe-1.1.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: MarkupSafe\nVersion: 1.1.1\n",
}
DOCKERFILE = """\
FROM scratch
ADD root.tar /
COPY --chown=1000:1000 site /
RUN mkdir -p /srv && chmod 1777 /srv && python3 -m compileall -q --invalidation-mode unchecked-hash /{site}/vllm
LABEL {labels}
WORKDIR /srv
USER 1000
ENTRYPOINT ["python3", "-c", "import vllm.core, os; print(vllm.core.answer(), os.getuid(), os.getcwd())"]
"""
LARGE = """\
FROM {base}
USER root
RUN for n in $(seq 400); do mkdir /opt/$n && (cd /opt/$n && touch $(seq 100)); done
RUN for n in $(seq 8); do truncate -s 1G /opt/$n.bin; done
USER 1000
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
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


def made(ctx: Context, engine: Engine, folder: Path, name: str, labels: str = "by=others") -> str:
    """An image with a Python, an engine's package and bytecode that never looks at its source; in a registry alone."""
    shutil.copy(packed_root(ctx.store, "bash", "coreutils", "findutils", "grep", "sed", "python3"), folder)
    for path, text in FILES.items():
        (folder / "site" / SITE / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site" / SITE / path).write_text(text, encoding="utf-8")
    (folder / "Dockerfile").write_text(DOCKERFILE.format(site=SITE, labels=labels), encoding="utf-8")
    built(ctx, engine, folder, name)
    moves = Moves()
    push(engine, name, moves)
    untag(engine, [name])
    return f"{name.rpartition(':')[0]}@{moves.digest}"


@pytest.fixture(scope="module")
def base(ctx: Context, engine: Engine, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(ctx, engine, tmp_path_factory.mktemp("base"), f"{place.host}/others/vllm:day0")


@pytest.fixture
def diff(tmp_path: Path) -> Path:
    (tmp_path / "fix.diff").write_text(DIFF, encoding="utf-8")
    return tmp_path / "fix.diff"


def printed(engine: Engine, reference: str, *command: str) -> str:
    """What a container prints by the image's own entrypoint, or by a command of Python's."""
    program, arguments = (command[0], list(command[1:])) if command else (None, None)
    with closing(client(engine)) as sdk:
        text: bytes = sdk.containers.run(
            reference, arguments, entrypoint=program, remove=True, network_mode="host", detach=False
        )
    return text.decode().strip()


def on(reference: str, *arguments: str) -> tuple[str, ...]:
    return ("image", "--from", reference, "--platform", PLATFORM, *arguments)


def test_a_diff_is_judged_before_the_base_is_pulled(base: str, engine: Engine, diff: Path, tmp_path: Path) -> None:
    code, out, said = called(*on(base, "--patch", str(diff), "--dry-run"))
    assert (code, find_image(engine, base)) == (0, None), said
    assert "base " in out
    (tmp_path / "bad.diff").write_text(DIFF.replace("41", "40"), encoding="utf-8")
    code, _, said = called(*on(base, "--patch", str(tmp_path / "bad.diff"), "--dry-run"))
    assert code == 6
    assert f"bad.diff does not apply to {base} (vllm 0.34.0.dev12+gabc)" in said
    assert f"/{SITE}/vllm/core.py:2: the context changed" in said


def test_a_diff_takes_effect_and_the_base_stays_as_it_is(base: str, engine: Engine, diff: Path) -> None:
    found = json.loads(ran(*on(base, "--patch", str(diff), "--json")))
    image, below = require_image(engine, found["tags"][-1]), require_image(engine, base)
    assert printed(engine, base) == "41 1000 /srv"
    assert printed(engine, image.id) == "42 1000 /srv"
    assert image.diff_ids[: len(below.diff_ids)] == below.diff_ids
    assert len(image.diff_ids) == len(below.diff_ids) + 2  # the patched file, and the record
    assert found["base"] == {"image": base, "read": False, "received": [], "cannot_run": []}
    assert json.loads(ran(*on(base, "--patch", str(diff), "--json")))["hit"]


def test_mods_run_by_the_base_s_python_above_the_overlay(base: str, engine: Engine, tmp_path: Path) -> None:
    whole = tmp_path / "whole.diff"
    whole.write_text(DIFF.replace("vllm/core.py", f"{SITE}/vllm/core.py"), encoding="utf-8")
    (tmp_path / "over/etc").mkdir(parents=True)
    (tmp_path / "over/etc/mine").write_text("mine", encoding="utf-8")
    (tmp_path / "brand").mkdir()
    script = f"#!/bin/bash\ngrep mine /etc/mine && sed -i s/42/43/ /{SITE}/vllm/core.py\n"
    (tmp_path / "brand/run.sh").write_text(script, encoding="utf-8")
    more = ("--patch", str(whole), "--overlay", str(tmp_path / "over"), "--mod", str(tmp_path / "brand"))
    tag = json.loads(ran(*on(base, *more, "--json")))["tags"][-1]
    assert printed(engine, tag) == "43 1000 /srv"


def recipe(folder: Path, image: str, *more: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text("\n".join([f"base: {{image: '{image}'}}", f"platform: {PLATFORM}", *more]), encoding="utf-8")
    return path


def test_wheels_are_added_by_a_lock_and_what_is_there_stays(
    base: str, engine: Engine, diff: Path, tmp_path: Path
) -> None:
    path = recipe(tmp_path, base, "requirements: [einops==0.8.1]", f"patches: [{diff.name}]", "env: {MINE: 'yes'}")
    assert called("image", "--engine", str(path))[0] == 4  # never locked
    assert ran("lock", "--engine", str(path)) == f"{path.with_suffix('.lock.json')}\n"
    assert called("lock", "--check", "--engine", str(path))[0] == 0
    tag = json.loads(ran("image", "--engine", str(path), "--json"))["tags"][-1]
    test = "import einops, os, vllm.core; print(einops.__version__, os.environ['MINE'], vllm.core.answer())"
    assert printed(engine, tag, "python3", "-c", test) == "0.8.1 yes 42"


@pytest.mark.parametrize(
    ("wanted", "pair", "why"),
    [
        ("jinja2==3.1.6", "jinja2 does not fit markupsafe 1.1.1", "requires markupsafe>=2.0"),
        ("markupsafe==3.0.2", "the requirement markupsafe==3.0.2 does not fit markupsafe 1.1.1", "markupsafe"),
    ],
)
def test_a_wheel_that_would_move_the_base_is_an_error_with_the_pair(
    base: str, tmp_path: Path, wanted: str, pair: str, why: str
) -> None:
    code, _, said = called("lock", "--engine", str(recipe(tmp_path, base, f"requirements: ['{wanted}']")))
    assert code == 2
    assert f"{pair}, which {base} holds" in said
    assert why in said


def test_a_tag_is_resolved_once_and_the_lock_keeps_it_when_it_moves(
    ctx: Context, engine: Engine, place: Registry, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tag = f"{place.host}/others/moving:day0"
    first = made(ctx, engine, tmp_path_factory.mktemp("first"), tag)
    path = recipe(tmp_path, tag)
    assert f"{tag} is {first}" in called("lock", "--engine", str(path))[2]
    assert f"--from {tag} is {first}" in called("plan", *on(tag, "--overlay", str(tmp_path))[1:])[2]
    second = made(ctx, engine, tmp_path_factory.mktemp("second"), tag, labels="by=others later=yes")
    assert first != second
    ran("lock", "--engine", str(path))
    lock = path.with_suffix(".lock.json")
    assert first in lock.read_text(encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f"'{tag}'", f"'{tag}', python: /usr/bin/../bin/python3"), encoding="utf-8")
    ran("lock", "--engine", str(path))  # another Python of the same image
    assert first in lock.read_text(encoding="utf-8")
    assert '"interpreter": "/usr/bin/python3"' in lock.read_text(encoding="utf-8")
    path.write_text(text.replace(":day0", ":day1"), encoding="utf-8")
    assert "day1" in called("lock", "--engine", str(path))[2]  # another tag, which the registry lacks
    path.write_text(text, encoding="utf-8")
    ran("lock", "--engine", str(path))
    assert f"{tag} is {second}" in called("lock", "--engine", str(path), "--upgrade", "base")[2]
    assert second in path.with_suffix(".lock.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--platform", OTHER), f"is not for {OTHER}"),
        (("--ref", "vllm=0.33.0"), "--from excludes --ref"),
        (("--engine", "sglang"), "does not hold sglang"),
        (("--kernels", "core"), "holds no FlashInfer: no kernels are compiled for it"),
        (("--without", "b12x"), "--from excludes --without"),
    ],
)
def test_what_makes_no_sense_on_an_image_of_others_is_refused(base: str, more: tuple[str, ...], said: str) -> None:
    code, _, words = called("plan", *on(base, *more)[1:])
    assert code in (2, 10)
    assert said in words


def test_the_base_s_layers_are_mounted_and_the_image_is_rebuilt_byte_by_byte(  # noqa: PLR0917 - fixtures
    ctx: Context, engine: Engine, place: Registry, base: str, diff: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tag = json.loads(ran(*on(base, "--patch", str(diff), "--json")))["tags"][-1]
    code, out, said = called("publish", tag, f"{place.host}/mine/vllm", "--json")
    assert code == 0, said
    one = json.loads(out)["published"][0]
    below = len(require_image(engine, base).diff_ids)
    assert f"{place.host}: has the base's {below} layers, which are mounted there" in said
    assert (one["there"], one["moved"]) == (below, 2)
    assert one["bytes"] < 1_000_000
    assert len(one["attached"]) == 3
    with registry(ctx.store, tmp_path_factory.mktemp("elsewhere")) as other:
        code, _, said = called("publish", tag, f"{other.host}/mine/vllm", "--no-attest")
    assert code == 0, said
    assert f"{other.host}: the base's {below} layers, " in said
    assert called("publish", tag, f"{place.host}/mine/vllm", "--compression", "zstd")[0] == 2
    assert "is reproduced" in called("rebuild", tag)[2]
    packages = {one["name"]: one["versionInfo"] for one in json.loads(ran("show", tag, "--sbom"))["packages"][1:]}
    assert packages["vllm"] == "0.34.0.dev12+gabc"


def test_an_image_on_a_container_of_ngc_is_not_published(
    ctx: Context, engine: Engine, place: Registry, diff: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ngc")
    ngc = made(ctx, engine, folder, f"{place.host}/mirror/ngc:1", labels="com.nvidia.build.id=1")
    code, _, said = called(*on(ngc, "--patch", str(diff), "--push", f"{place.host}/mine/ngc"))
    assert code == 10
    assert f"{ngc} is not published again" in said
    tag = json.loads(ran(*on(ngc, "--patch", str(diff), "--json")))["tags"][-1]
    code, _, said = called("publish", tag, f"{place.host}/mine/ngc")
    assert code == 10
    assert "publish the recipe instead, and build there" in said


def test_what_the_base_has_wrong_is_listed_and_blocks_nothing(
    base: str, engine: Engine, diff: Path, tmp_path: Path
) -> None:
    ran(*on(base, "--patch", str(diff)))
    called("verify", base)
    received = json.loads(ran(*on(base, "--patch", str(diff), "--json")))["base"]
    assert received["read"]
    (tmp_path / "over/opt").mkdir(parents=True)
    (tmp_path / "over/opt/key").write_text(f"hf_{'a' * 34}\n", encoding="utf-8")
    code, _, said = called(*on(base, "--overlay", str(tmp_path / "over")))
    assert (code, "opt/key" in said) == (9, True), said


@pytest.mark.parametrize("layout", ["venv", "editable"])
def test_a_real_engine_in_each_layout(
    ctx: Context, engine: Engine, place: Registry, layout: Layout, tmp_path: Path
) -> None:
    reference = make_base(layout, Place(host=place.host, store=ctx.store, folder=tmp_path), platform=PLATFORM)
    found = inspect_base(ctx, reference, PLATFORM, engine=engine)
    repository = "python/sglang" if layout == "editable" else "vllm"
    path = f"{found.installed[found.engine].folder}/{found.engine}/version.py"
    old = read_base_files(ctx, found, [path])[path].decode()
    text = difflib.unified_diff(
        old.splitlines(keepends=True),
        [*old.splitlines(keepends=True), "GB10 = True\n"],
        f"a/{repository}/version.py",
        f"b/{repository}/version.py",
    )
    (tmp_path / "own.diff").write_text("".join(text), encoding="utf-8")
    tag = json.loads(ran(*on(reference, "--patch", str(tmp_path / "own.diff"), "--json")))["tags"][-1]
    tag_image(engine, tag, ("gb10/layout:1",))
    assert printed(engine, tag, found.interpreter, "-c", f"print(open('{path}').read()[-12:])") == "GB10 = True"


def built(ctx: Context, engine: Engine, folder: Path, name: str, platform: str = PLATFORM) -> None:
    """What `docker build` makes of the Dockerfile in a folder."""
    request = BuildRequest(
        dockerfile=folder / "Dockerfile",
        target="",
        platform=platform,
        context=folder,
        output="type=image",
        tags=(name,),
    )
    build(open_buildx(engine, ctx.env, ctx.store), request, log=folder / "log", on_event=lambda event: None)


@pytest.mark.slow
def test_a_diff_on_8_gb_is_1_mb_to_push(  # noqa: PLR0917 - fixtures
    ctx: Context, engine: Engine, place: Registry, base: str, diff: Path, tmp_path: Path
) -> None:
    """Both sides in one run, in turn, are printed: our image, and what `docker build` makes of the same change."""
    (tmp_path / "Dockerfile").write_text(LARGE.format(base=base), encoding="utf-8")
    name, moves = f"{place.host}/others/large:1", Moves()
    built(ctx, engine, tmp_path, name)
    push(engine, name, moves)
    reference = f"{place.host}/others/large@{moves.digest}"
    assert require_image(engine, reference).size > 8 << 30
    ran("plan", *on(reference)[1:])  # it is read once, and then known
    ours, theirs = list[float](), list[float]()
    for number in range(2):
        text = DIFF.replace("42", str(42 + number))
        diff.write_text(text, encoding="utf-8")
        begun = time.monotonic()
        found = json.loads(ran(*on(reference, "--patch", str(diff), "--json")))
        ours.append(time.monotonic() - begun)
        tag = found["tags"][-1]
        print("TIMINGS", [(one["name"], round(one["start"], 2), round(one["seconds"], 2)) for one in found["timings"]])
        assert printed(engine, tag) == f"{42 + number} 1000 /srv"
        folder = tmp_path / f"plain-{number}"
        folder.mkdir()
        (folder / "core.py").write_text(MODULE.replace("41", str(42 + number)), encoding="utf-8")
        (folder / "Dockerfile").write_text(f"FROM {reference}\nCOPY core.py /{SITE}/vllm/core.py\n", encoding="utf-8")
        begun = time.monotonic()
        built(ctx, engine, folder, f"{place.host}/mine/plain:{number}")
        theirs.append(time.monotonic() - begun)
    plain = Moves()
    push(engine, f"{place.host}/mine/plain:0", plain)
    one = json.loads(ran("publish", tag, f"{place.host}/mine/large", "--no-attest", "--json"))["published"][0]
    print(f"ours {ours} s, {one['bytes']} bytes; docker build {theirs} s, {plain.bytes} bytes")
    assert one["bytes"] < 1_000_000
    assert printed(engine, f"{place.host}/mine/plain:0") == "41 1000 /srv"  # its bytecode still is the old one
