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
