"""A Dockerfile of others whose image is asked for its settings, and whose copied files become a patch of a release."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from tests.integration.nodes import registry as local_registry
from tests.integration.oci_server import Registry, oci_server
from tests.integration.patches.releases import original
from tests.integration.services import ran
from tests.integration.test_on_image import PLATFORM, SITE, built, made, printed

pytestmark = pytest.mark.integration

THEIRS = """\
FROM --platform={platform} {base}
USER root
ARG SITE=/{site}/vllm
ENV THEIRS=yes MORE="for ${{SITE}}"
COPY more.py ${{SITE}}/more.py
COPY --chmod=755 tool.sh /opt/tools/
WORKDIR /opt/tools
RUN set -e; test -f ${{SITE}}/core.py && sed -i "s/'vllm'/'theirs'/" ${{SITE}}/core.py && ./tool.sh one two
# a comment
RUN python3 - <<'PY' > /opt/seen.txt
from pathlib import Path
print(Path("/opt/tools/made").read_text())
PY
COPY <<END /opt/late.txt
$THEIRS
END
RUN for n in 1 2; do echo "$n $THEIRS" >> /opt/late.txt; done
ARG UID=1234
ENV STEP=one
RUN echo "$STEP $UID ${{NEXT-none}}" > /opt/step.txt
ENV STEP=two NEXT=three
RUN find /{site}/vllm -name __pycache__ -prune -exec rm -rf {{}} +
"""
SEEN = """
import os, pathlib, vllm.core, vllm.more
print(vllm.core.answer(), vllm.core.name(), vllm.more.X, os.environ["THEIRS"], os.environ["MORE"])
for place in ("/opt", "/{site}/vllm"):
    for path in sorted(pathlib.Path(place).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            print(path, oct(path.stat().st_mode), path.read_text())
"""

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
FILE = "flashinfer/jit/gemm/cutlass/generate_kernels.py"


@pytest.mark.slow
def test_the_image_is_what_docker_makes_of_the_dockerfile(ctx: Context, tmp_path: Path) -> None:
    """Both images of one Dockerfile, side by side: the files that it changes, and the variables that it sets."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    engine = ready_engine(ctx)
    (tmp_path / "registry").mkdir()
    with local_registry(ctx.store, tmp_path / "registry") as place:
        (tmp_path / "base").mkdir()
        base = made(ctx, engine, tmp_path / "base", f"{place.host}/others/vllm:adopted")
        (theirs / "Dockerfile").write_text(THEIRS.format(base=base, site=SITE, platform=PLATFORM))
        (theirs / "more.py").write_text("X = 7\n")
        (theirs / "tool.sh").write_text('#!/bin/bash\necho "$2 $1" > made\n')
        built(ctx, engine, theirs, "gb10/theirs:docker")
        recipe = tmp_path / "mine.yaml"
        assert main(["adopt", str(theirs), "-o", str(recipe)]) == 0
        ran("lock", "--engine", str(recipe))
        overlay = str(recipe.with_suffix("") / "overlay")
        tag = json.loads(ran("image", "--engine", str(recipe), "--overlay", overlay, "--json"))["tags"][-1]
        seen = SEEN.format(site=SITE)
        found = printed(engine, tag, "python3", "-c", seen)
        assert found == printed(engine, "gb10/theirs:docker", "python3", "-c", seen)
        assert "41 theirs 7 yes for /usr" in found
        assert "two one" in found
        assert "one 1234 none" in found


MOUNTED = """\
FROM --platform={platform} {base}
USER root
COPY . /opt/all/
COPY --chown=1000:1000 --chmod=0640 one.txt /opt/owned/one.txt
COPY --link --chmod=755 sub/a.txt /opt/
COPY one.txt none* /opt/wild/
RUN mkdir -p /opt/there/one && chmod 700 /opt/there/one
COPY --chown=7:8 sub /opt/there/
COPY --chown=7 --chmod=775 sub /opt/new/made/
WORKDIR /opt/work
RUN --mount=type=bind,source=fix,target=/var/fix --mount=type=cache,target=/var/cache/mine \\
    --mount=type=bind,source=one.txt,target=/etc/hostid bash /var/fix/fix.sh && echo x > /var/cache/mine/kept && \\
    cat /etc/hostid > seen
RUN echo 'a\\tb' > tabs && rm -rf /tmp/not-there
RUN ["python3", "-c", "print('exec', file=open('exec', 'w'))"]
COPY --chown=7 --chmod=604 <<A <<'B' /opt/texts/
$HOME
A
$HOME
B
RUN <<EOF
mkdir -p /tmp/scratch
touch /tmp/scratch/one
EOF
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN rm -rf /tmp/scratch; echo 'a\\tb' > bash
RUN false; touch goes-on; false && touch not; echo on
"""
IGNORED = """\
# a comment
Dockerfile
log
*.log
!keep.log
**/cache
sub/*/deep.txt
/only-root.txt
[ab]x.txt
!sub/cache/back.txt
odd/**/z
pre**
"""
CONTEXT = (
    *("one.txt", "a.log", "keep.log", "sub/b.log", "sub/a.txt", "sub/cache/x", "sub/cache/back.txt", "cache/y"),
    *("sub/one/deep.txt", "sub/deep.txt", "sub/one/two/deep.txt", "only-root.txt", "sub/only-root.txt", "ax.txt"),
    *("cx.txt", "sub/bx.txt", "odd/z", "odd/1/z", "odd/1/2/z", "odd/1/2/zz", "prefix/any/file", "sub/prefix"),
)
WHOLE = """
import pathlib
for top in ("/opt", "/tmp", "/var/cache", "/var/fix", "/etc/hostid"):
    for path in [pathlib.Path(top), *sorted(pathlib.Path(top).rglob("*"))]:
        if path.exists() and not (path.is_dir() and path.name in ("tmp", "cache")):
            about = path.stat()
            print(path, oct(about.st_mode), about.st_uid, about.st_gid, path.read_text() if path.is_file() else "")
"""


@pytest.mark.slow
def test_mounts_owners_modes_shells_and_ignored_files_are_what_docker_makes(ctx: Context, tmp_path: Path) -> None:
    """A folder with a ``.dockerignore`` that has every kind of rule; files of the build alone are gone in both."""
    theirs = tmp_path / "theirs"
    engine = ready_engine(ctx)
    (tmp_path / "registry").mkdir()
    for name in CONTEXT:
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_text(f"{name}\n")
    (theirs / "fix").mkdir()
    (theirs / "fix/fix.sh").write_text("cp /var/fix/more.txt /opt/work/copied\n")
    (theirs / "fix/more.txt").write_text("more\n")
    (theirs / ".dockerignore").write_text(IGNORED)
    with local_registry(ctx.store, tmp_path / "registry") as place:
        (tmp_path / "base").mkdir()
        base = made(ctx, engine, tmp_path / "base", f"{place.host}/others/vllm:mounts")
        (theirs / "Dockerfile").write_text(MOUNTED.format(base=base, platform=PLATFORM))
        built(ctx, engine, theirs, "gb10/theirs:mounts")
        recipe = tmp_path / "mine.yaml"
        assert main(["adopt", str(theirs), "-o", str(recipe)]) == 0
        ran("lock", "--engine", str(recipe))
        overlay = str(recipe.with_suffix("") / "overlay")
        tag = json.loads(ran("image", "--engine", str(recipe), "--overlay", overlay, "--json"))["tags"][-1]
        found = printed(engine, tag, "python3", "-c", WHOLE)
        assert found.splitlines() == printed(engine, "gb10/theirs:mounts", "python3", "-c", WHOLE).splitlines()
    for line in ("/opt/all/keep.log", "/opt/all/sub/cache/back.txt", "/opt/all/sub/deep.txt", "/opt/all/odd/1/2/zz"):
        assert f"\n{line} " in found
    for gone in ("/opt/all/a.log", "/opt/all/sub/cache/x", "/opt/all/only-root.txt", "/var/cache/mine/kept"):
        assert f"{gone} " not in found
    assert "/opt/owned/one.txt 0o100640 1000 1000" in found
    assert "/opt/new/made/one/two 0o40775 7 7" in found
    assert "/opt/work/goes-on " in found


@pytest.fixture
def registry() -> Iterator[Registry]:
    with oci_server(Registry()) as found:
        yield found


def put_image(registry: Registry, environment: list[str]) -> str:
    """An image for a GB10 that has these variables; its reference."""
    config = json.dumps({"os": "linux", "architecture": "arm64", "config": {"Env": environment}}).encode()
    name = f"sha256:{hashlib.sha256(config).hexdigest()}"
    registry.blobs[name] = config
    manifest = json.dumps({"config": {"digest": name, "size": len(config)}, "layers": []}).encode()
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    registry.manifests[digest] = (MANIFEST, manifest)
    return f"{registry.host}/gb10/test@{digest}"


def test_the_base_is_asked_for_the_path_that_a_line_adds_to(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = put_image(registry, ["PATH=/usr/local/cuda/bin:/bin"])
    login = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": login}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "Dockerfile").write_text(f"FROM {reference}\nENV PATH=/opt/venv/bin:$PATH\n")
    assert main(["adopt", str(tmp_path), "-o", str(tmp_path / "a.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == {"PATH": "/opt/venv/bin:/usr/local/cuda/bin:/bin"}
    assert f'image: "{reference}"' in (tmp_path / "a.yaml").read_text()

    registry.manifests.clear()
    assert main(["adopt", str(tmp_path), "-o", str(tmp_path / "b.yaml")]) == 13
    assert "PATH reads a variable of the base" in capsys.readouterr().err


def test_files_copied_over_a_release_become_a_patch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FlashInfer's own file with one line changed, in the folder of an image."""
    before = original("flashinfer", "0.7.2.post1", FILE)
    (tmp_path / "generate_kernels.py").write_text(before.replace("[128, 32, 128]", "[128, 32, 64]", 1))
    site = "/opt/venv/lib/python3.12/site-packages"
    (tmp_path / "Dockerfile").write_text(
        f"FROM a/b@sha256:{'a' * 64}\nCOPY generate_kernels.py {site}/{FILE}\nCOPY Dockerfile /opt/\n"
    )
    command = ["adopt", str(tmp_path), "--ref", "flashinfer=0.7.2.post1", "-o", str(tmp_path / "a.yaml")]
    assert main(command) == 0
    assert "1 changed, 0 new" in capsys.readouterr().err
    (patch,) = (tmp_path / "a/patches").iterdir()
    changed = [line for line in patch.read_text().splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert len(changed) == 2
    assert [path.name for path in (tmp_path / "a/overlay").rglob("*") if path.is_file()] == ["Dockerfile"]
