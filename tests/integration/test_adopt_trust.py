"""``adopt --trust``: commands that rewrite files of real bases, and the recipe's image beside what docker makes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from gb10.containers.buildx.build_cache import build_cache
from gb10.containers.connection import Engine
from gb10.containers.images import read_folders, require_image, untag
from gb10.image.adopt import trusting
from gb10.image.base.base_reading import inspect_base
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from tests.integration import bases
from tests.integration.bases import LAYOUTS, Layout, Place, make_base
from tests.integration.nodes import Registry
from tests.integration.services import called, ran
from tests.integration.test_on_image import DIFF, PLATFORM, SITE, built, made, printed

pytestmark = pytest.mark.integration

THEIRS = """\
FROM --platform={platform} {base}
USER root
ARG PKG=/{site}/vllm
COPY patches/ /opt/patches/
COPY new.py ${{PKG}}/new.py
RUN set -e; grep -q "return 41" ${{PKG}}/core.py && sed -i 's/return 41/return 42/' ${{PKG}}/core.py
RUN python3 /opt/patches/replace.py ${{PKG}}/core.py && \\
    for f in /opt/patches/extra_*.py; do cp "$f" ${{PKG}}/; done
RUN sed -i 's/no such text/x/' ${{PKG}}/core.py
RUN python3 - <<'PY'
from pathlib import Path
Path("/{site}/vllm/table.bin").write_bytes(bytes(range(256)))
Path("/{site}/vllm/new.py").write_text("Y = 2\\n")
Path("/{site}/vllm/no_newline.py").write_text("Z = 3")
PY
COPY late.py ${{PKG}}/late.py
RUN echo "profile = 1" > /etc/their.conf && chmod 0600 /etc/their.conf && chmod 0711 ${{PKG}}/core.py && \\
    ln -s core.py ${{PKG}}/alias.py && mkdir /opt/empty && rm /{site}/vllm/gone.py && rm -rf /opt/patches
RUN chown 1000:1000 /etc/their.conf ${{PKG}}/table.bin
USER 1000
"""
REPLACE = """\
import sys
from pathlib import Path

path = Path(sys.argv[1])
text = path.read_text()
assert text.count("return 'vllm'") == 1, "anchor"
path.write_text(text.replace("return 'vllm'", "return 'theirs'") + "\\n\\nADDED = True\\n")
"""
LISTED = """
import hashlib, os, sys
for root in ("/opt", "/etc", "/{site}"):
    for folder, names, files in os.walk(root):
        for name in sorted((*names, *files)):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            if "__pycache__" in path or path.startswith(("/etc/host", "/etc/resolv")):
                continue
            if os.path.islink(path):
                what = os.readlink(path)
            elif not os.access(path, os.R_OK):
                what = "not for this user"
            else:
                what = hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.isfile(path) else "folder"
            print(path, oct(found.st_mode), found.st_uid, found.st_gid, what)
"""


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


@pytest.fixture(scope="module")
def base(ctx: Context, engine: Engine, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    gone = folder / "site" / SITE / "vllm/gone.py"
    gone.parent.mkdir(parents=True)
    gone.write_text("X = 1\n")
    return made(ctx, engine, folder, f"{place.host}/others/vllm:trust")


def adopted(theirs: Path, recipe: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the document, and what was said."""
    code, out, said = called("adopt", str(theirs), "--trust", "-o", str(recipe), "--json", *more)
    return code, json.loads(out.partition('\n{\n  "error"')[0]) if out else {}, said


def image_of(recipe: Path) -> str:
    """The recipe, locked and built; its tag."""
    ran("lock", "--engine", str(recipe))
    overlay = recipe.with_suffix("") / "overlay"
    more = ("--overlay", str(overlay)) if overlay.exists() else ()
    tag: str = json.loads(ran("image", "--engine", str(recipe), *more, "--json"))["tags"][-1]
    return tag


def test_what_commands_change_is_a_patch_and_the_image_is_what_docker_makes(
    ctx: Context, engine: Engine, base: str, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "patches").mkdir(parents=True)
    (theirs / "patches/replace.py").write_text(REPLACE)
    (theirs / "patches/extra_one.py").write_text("ONE = 1\n")
    (theirs / "new.py").write_text("Y = 1\n")
    (theirs / "late.py").write_text("LATE = 1\n")
    (theirs / "Dockerfile").write_text(THEIRS.format(base=base, site=SITE, platform=PLATFORM))
    built(ctx, engine, theirs, "gb10/theirs:trust")
    recipe = tmp_path / "mine.yaml"
    code, document, said = adopted(theirs, recipe)
    assert code == 0, said
    whys = {line["first"]: (line["verdict"], line["why"]) for line in document["lines"]}
    assert whys[6] == ("taken", "patch 0001-line-6.patch: 1 path")
    assert whys[9] == ("no-effect", "it changed nothing on this base")
    assert "-    return 41\n+    return 42\n" in (tmp_path / "mine/patches/0001-line-6.patch").read_text()
    assert len(document["mods"]) == 1
    tag = image_of(recipe)
    script = LISTED.format(site=SITE)
    mine, docker = (printed(engine, one, "python3", "-c", script) for one in (tag, "gb10/theirs:trust"))
    assert mine.splitlines() == docker.splitlines()
    assert f"/{SITE}/vllm/gone.py" not in mine
    assert "/etc/their.conf 0o100600 1000 1000" in mine
    untag(engine, ["gb10/theirs:trust"])


ENGINES = {
    "vllm": ("vllm/platforms/cuda.py", "vllm/envs.py", "return major >= 9"),
    "sglang": ("sglang/srt/utils/common.py", "sglang/version.py", "def is_sm121() -> bool:"),
}
"""By engine, two files of its wheel, and a text of the first."""
LIKE_THEIRS = """\
FROM --platform={platform} {base}
USER root
ARG SITE={site}
COPY patches /opt/patches
COPY whole.py ${{SITE}}/{engine}/whole.py
RUN {python} /opt/patches/apply.py ${{SITE}}/{one} "{before}"
RUN set -e; for f in /opt/patches/*.sh; do bash "$f" ${{SITE}}; done
RUN printf '\\nMARK = "%s"\\n' "$(sed -n 1p ${{SITE}}/{two})" >> ${{SITE}}/{engine}/whole.py
"""
APPLY = """\
import sys
from pathlib import Path

path, before = Path(sys.argv[1]), sys.argv[2]
text = path.read_text(encoding="utf-8")
assert text.count(before) >= 1, f"anchor is not in {path}"
path.write_text(text.replace(before, f"{before}  # for GB10"), encoding="utf-8")
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_real_engines_in_each_layout(
    ctx: Context, engine: Engine, place: Registry, tmp_path: Path, layout: Layout
) -> None:
    """The vLLM and SGLang of PyPI where others have them; in /usr/local and /opt/conda is Debian's Python, moved."""
    platform = PLATFORM
    reference = make_base(layout, Place(host=place.host, store=ctx.store, folder=tmp_path), platform=platform)
    held = inspect_base(ctx, reference, platform)
    one, two, before = ENGINES[held.engine]
    site = held.installed[held.engine].folder
    theirs = tmp_path / "theirs"
    (theirs / "patches").mkdir(parents=True)
    (theirs / "patches/apply.py").write_text(APPLY)
    (theirs / "patches/1.sh").write_text(f"sed -i '1i # theirs' \"$1/{two}\"\n")
    (theirs / "whole.py").write_text("W = 1\n")
    values = {"engine": held.engine, "one": one, "two": two, "before": before, "python": held.interpreter}
    (theirs / "Dockerfile").write_text(LIKE_THEIRS.format(base=reference, platform=platform, site=site, **values))
    recipe = tmp_path / "mine.yaml"
    code, document, said = adopted(theirs, recipe)
    assert code == 0, said
    assert document["patches"] == ["0001-line-6.patch", "0002-line-7.patch"]
    assert document["mods"] == []
    patch = (tmp_path / "mine/patches/0001-line-6.patch").read_text()
    assert f"+++ b/{one}\n" in patch
    assert f"{before}  # for GB10" in patch
    built(ctx, engine, theirs, "gb10/theirs:real", platform)
    files = [f"{site}/{path}" for path in (one, two, f"{held.engine}/whole.py")] + ["/opt/patches/apply.py"]
    images = [require_image(engine, name) for name in (image_of(recipe), "gb10/theirs:real")]
    mine, docker = (read_folders(engine, ctx.store, image, files)[0] for image in images)
    assert {path: mine[path] for path in files} == {path: docker[path] for path in files}
    untag(engine, ["gb10/theirs:real"])


PATCHER = """\
import ast
import sys
from pathlib import Path

BEFORE, AFTER, MARK = {before!r}, {after!r}, {mark!r}


def main(source, target):
    text = Path(source).read_text(encoding="utf-8")
    if MARK in text:
        print("already patched")
        return 0
    if text.count(BEFORE) != 1:
        print("expected one anchor, found", text.count(BEFORE))
        return 1
    text = text.replace(BEFORE, AFTER)
    ast.parse(text)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(text, encoding="utf-8")
    return 0


sys.exit(main(sys.argv[1], sys.argv[-1]))
"""
"""How two public set-ups without a Dockerfile patch when they start: an anchor that must be there once, a mark of what
is patched already, the result parsed."""
AT_START = {
    "in place": (  # in a checkout, from its folder: shantanugoel's
        "sglang",
        "editable",
        "sglang/srt/models/qwen4_exp_ple_table.py",
        "    path = os.path.join(table_dir, ple_table_file_name(shape, dtype, tag))\n",
        '    kept = os.path.join(table_dir, f"kept-{shape[0]}.bin")\n',
        "RUN cd {folder} && python3 /tmp/patches/one.py {name}",
    ),
    "taken out and laid over": (  # taken out of the image, patched, and mounted over it: Olyno's
        "vllm",
        "debian",
        "vllm/v1/core/kv_cache_utils.py",
        "        last_block = self.fake_free_list_tail.prev_free_block\n        assert last_block is not None, (\n",
        "        blocks = sorted(blocks, key=lambda one: one.block_id)  # as they lie in memory\n",
        "RUN python3 /tmp/patches/one.py {folder}/{name} /tmp/o/{name} && cp /tmp/o/{name} {folder}/ && rm -r /tmp/o",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_START)
def test_set_ups_that_patch_when_they_start(  # noqa: PLR0917 - fixtures
    ctx: Context, engine: Engine, place: Registry, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written down as a Dockerfile, each is a patch of one file: what its script makes by hand of the wheel's."""
    source, layout, path, before, added, line = AT_START[name]
    monkeypatch.setitem(bases.VERSIONS, "vllm", "0.30.0")  # the one that Olyno's is for
    own = Place(host=place.host, store=ctx.store, folder=tmp_path)
    reference = make_base(layout, own, platform=PLATFORM)  # type: ignore[arg-type]
    held = inspect_base(ctx, reference, PLATFORM)
    folder, _, file = f"{held.installed[source].folder}/{path}".rpartition("/")
    theirs = tmp_path / "theirs"
    (theirs / "patches").mkdir(parents=True)
    mark = added.strip()
    (theirs / "patches/one.py").write_text(PATCHER.format(before=before, after=added + before, mark=mark))
    text = f"FROM --platform={PLATFORM} {reference}\nCOPY patches /tmp/patches\n{line} && rm -r /tmp/patches\n"
    (theirs / "Dockerfile").write_text(text.format(folder=folder, name=file))
    recipe = tmp_path / "mine.yaml"
    code, document, said = adopted(theirs, recipe)
    assert code == 0, said
    assert (document["patches"], document["mods"]) == (["0001-line-3.patch"], [])
    with ZipFile(bases.engine_wheel(source, PLATFORM)) as wheel:
        wheel.extract(path, tmp_path / "wheel")
    by_hand = tmp_path / "wheel" / path
    subprocess.run([sys.executable, theirs / "patches/one.py", by_hand, by_hand], check=True)
    image = require_image(engine, image_of(recipe))
    found = read_folders(engine, ctx.store, image, [f"{folder}/{file}"])[0]
    assert found[f"{folder}/{file}"] == by_hand.read_bytes()
    assert mark.encode() in by_hand.read_bytes()


BASH = 'SHELL ["/bin/bash", "-c"]\n'
HOSTILE = {
    "forks": (
        "bomb() { [ $1 = 0 ] && exec tail -f /dev/null; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 9",
        "it started more than 200 processes",
    ),
    "forks without end": (
        "bomb() { bomb | bomb & }; bomb; tail -f /dev/null",
        "it started more than 200 processes",
    ),
    "time": ("tail -f /dev/null", "the commands ran longer than 10 s"),
    "deaf": ("trap '' TERM INT HUP; while true; do touch /opt/x; done", "the commands ran longer than 10 s"),
    "one file": ("head -c 100G /dev/zero > /opt/large", "it ended with"),
    "many files": ("for n in $(seq 1000); do head -c 32M /dev/zero > /opt/$n; done", "it wrote more than 64 MiB"),
    "memory": ("python3 -c 'x = bytearray(1 << 30); input()' < <(sleep 60)", "it took more than 512 MiB of memory"),
    "paths": ("mkdir /opt/m && cd /opt/m && touch $(seq 2000)", "it changed more than 1,000 paths"),
    "depth": (
        'python3 -c \'import os; [(os.mkdir("d" * 9), os.chdir("d" * 9)) for n in range(900)]\'',
        "what it changed cannot be read: File name too long",
    ),
    "network": ("python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 80), 5)'", "unreachable"),
    "the first process": ("kill -9 1; kill -INT 1; echo x > /proc/1/mem", "Permission denied"),
    "its files": ("umount /run/gb10/before || echo x > /run/gb10/recorder.py", "Read-only file system"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == "forks without end" else []) for name in HOSTILE]
)
def test_a_hostile_command_is_ended_with_one_reason(
    engine: Engine, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for bound, value in (
        ("seconds", 10 if name in ("time", "deaf") else 20),
        ("processes", 200),
        ("bytes", 64 << 20),
        ("memory", 512 << 20),
    ):
        monkeypatch.setitem(trusting.LIMITS, bound, value)
    monkeypatch.setitem(trusting.LIMITS, "paths", 1000)
    command, why = HOSTILE[name]
    (tmp_path / "Dockerfile").write_text(
        f"FROM --platform={PLATFORM} {base}\nRUN touch /opt/first\n{BASH}RUN {command}\nRUN touch /opt/after\n"
    )
    code, document, said = adopted(tmp_path, tmp_path / "mine.yaml")
    assert code == 13, said
    lines = {line["first"]: line for line in document["lines"] if line["verdict"] != "no-effect"}
    assert [lines[row]["verdict"] for row in (2, 4, 5)] == ["taken", "unchecked", "unchecked"]
    assert why in lines[4]["why"]
    assert document["overlay"] == ["/opt/first"]
    assert document["mods"] == []
    assert len((tmp_path / "mine.yaml").read_text().splitlines()) < 40
    assert build_cache(engine) >= 0  # the engine can still measure what it keeps


def test_what_a_hostile_command_leaves_is_named_and_not_followed(base: str, tmp_path: Path) -> None:
    """Links out of the image, devices, rights, names, the result's own place, a process that outlives its command."""
    (tmp_path / "Dockerfile").write_text(
        f"FROM --platform={PLATFORM} {base}\n"
        f"{BASH}RUN ln -sf /etc/passwd /{SITE}/vllm/core.py && ln -s / /run/gb10-out\n"
        "RUN mkfifo /opt/pipe && mknod /opt/device c 1 3\n"
        "RUN cp /usr/bin/env /opt/env && chmod 4755 /opt/env\n"
        "RUN touch /opt/$'a\\nb' /opt/$'\\x80' && truncate -s 1G /opt/large\n"
        "RUN (setsid sh -c 'sleep 40; touch /opt/late' >/dev/null 2>&1 &) ; yes | head -c 50M\n"
        "RUN python3 -c 'import time; time.sleep(45)'\n"
    )
    code, document, said = adopted(tmp_path, tmp_path / "mine.yaml")
    assert code == 0, said
    lines = {line["first"]: line for line in document["lines"]}
    links, devices, rights, names, flood, late = (lines[row] for row in range(3, 9))
    assert (links["verdict"], links["why"]) == ("taken", "mod: 2 paths")
    assert f"ln -s -- /etc/passwd /{SITE}/vllm/core.py" in document["mods"][0]["script"]
    assert devices["why"].count("is a device, a pipe or a socket") == 2
    assert "setuid" in rights["why"]
    assert "a name that no recipe can have" in names["why"]
    assert "has 1,024 MiB" in names["why"]
    assert (flood["verdict"], late["verdict"]) == ("no-effect", "no-effect")
    assert not any(path.startswith(("/opt", "/run")) for path in document["overlay"])


def test_without_the_base_no_command_is_checked(base: str, tmp_path: Path) -> None:
    """No registry is there; then a diff of the Dockerfile that does not apply, so what they run on cannot be made."""
    absent = f"127.0.0.1:1/others/vllm@sha256:{'a' * 64}"
    (tmp_path / "Dockerfile").write_text(f"FROM {absent}\nCOPY Dockerfile /opt/\nRUN sed -i s/a/b/ /opt/Dockerfile\n")
    code, document, said = adopted(tmp_path, tmp_path / "a.yaml")
    assert (code, document["lines"][-1]["verdict"], document["mods"]) == (13, "unchecked", []), said
    assert "127.0.0.1:1" in document["lines"][-1]["why"]
    assert "mods:" not in (tmp_path / "a.yaml").read_text()

    (tmp_path / "bad.patch").write_text(DIFF.replace("41", "40"))
    (tmp_path / "Dockerfile").write_text(
        f"FROM --platform={PLATFORM} {base}\nCOPY bad.patch /opt/\n"
        f"RUN cd /{SITE} && patch -p1 < /opt/bad.patch\nRUN touch /opt/after\n"
    )
    code, document, said = adopted(tmp_path, tmp_path / "b.yaml")
    assert code == 13, said
    assert "bad.patch does not apply" in document["lines"][-1]["why"]
