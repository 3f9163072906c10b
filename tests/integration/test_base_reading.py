"""Images of others, read in a registry, against what their own Python says of itself in a chroot."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from gb10.cli import main
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.access import login_for
from gb10.containers.registry.repository import open_repository
from gb10.errors import PublishError
from gb10.image.base.base_reading import files_of, inspect_base, inspect_local
from gb10.image.base.described import Wanted, describe
from gb10.image.base.file_tree import FileTree
from gb10.image.base.layer_index import read_layer
from gb10.image.base.layer_stream import zstd
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.base_image import BaseImage
from tests.integration.bases import LAYOUTS, PYTHON, VERSIONS, Layout, Place, make_base, make_large_base, push_manifest
from tests.integration.nodes import Registry, registry
from tests.unit.made_up_bases import REFERENCE, config

pytestmark = pytest.mark.integration

HERE = f"linux/{build_architecture()}"
TORCH = f"/usr/local/lib/python{PYTHON}/dist-packages/torch/version.py"
ASK = """\
import importlib.metadata, json, os, site, sys, sysconfig
found = {}
for one in importlib.metadata.distributions():
    found.setdefault(one.metadata["Name"].lower().replace("_", "-"), [one.version, str(one._path)])
print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "path": sys.path, "found": found,
    "new": sysconfig.get_path("purelib"), "libc": os.confstr("CS_GNU_LIBC_VERSION")}))
"""


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def served(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(ctx.store, tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def place(ctx: Context, served: Registry, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(host=served.host, store=ctx.store, folder=tmp_path_factory.mktemp("layers"))


def unpacked(ctx: Context, one: BaseImage, root: Path) -> Path:
    """The layers laid on each other by tar and rm."""
    name = one.reference.partition("@")[0]
    repository = open_repository(ctx.env, name, login_for(None, ctx.env, name))
    root.mkdir()
    for layer in one.layers:
        packed = root.with_suffix(".layer")
        with packed.open("wb") as out:
            for block in repository.stream(layer.digest, layer.size):
                out.write(block)
        if packed.read_bytes().startswith(b"\x28\xb5\x2f\xfd"):  # tar asks a program for it that a bare Debian lacks
            packed.write_bytes(zstd.decompress(packed.read_bytes()))
        names = subprocess.run(["tar", "-tf", str(packed)], check=True, capture_output=True, text=True).stdout.split()
        for hidden in (name for name in names if "/.wh." in name):
            subprocess.run(["rm", "-rf", str(root / hidden.replace("/.wh.", "/"))], check=True)
        subprocess.run(["tar", "-xf", str(packed), "--exclude=.wh.*", "-C", str(root)], check=True)
        packed.unlink()
    return root


def asked(root: Path, one: BaseImage, *words: str) -> str:
    """What the image's Python prints."""
    argv = ["chroot", str(root), one.interpreter, *words]
    # Debian's program holds a frozen site.py; the one in the image counts, which is upstream's in some layouts
    env = {**one.environment, "PYTHON_FROZEN_MODULES": "off"}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize(
    ("layout", "more"),
    [
        pytest.param("editable", {}, id="editable"),
        *(pytest.param(one, {}, id=one, marks=pytest.mark.slow) for one in LAYOUTS if one != "editable"),
        pytest.param("venv", {"system_site": True}, id="venv-and-system", marks=pytest.mark.slow),
    ],
)
def test_what_is_read_is_what_the_images_own_python_finds(
    ctx: Context, place: Place, tmp_path: Path, layout: Layout, more: Mapping[str, Any]
) -> None:
    one = inspect_base(ctx, make_base(layout, place, platform=HERE, compression="zstd", **more), HERE)
    root = unpacked(ctx, one, tmp_path / "root")
    own = json.loads(asked(root, one, "-c", ASK))
    assert {name: [row.version, str(Path(row.metadata).parent)] for name, row in one.installed.items()} == own["found"]
    listed = json.loads(asked(root, one, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    assert {row["name"].lower().replace("_", "-"): row["version"] for row in listed} == {
        name: row.version for name, row in one.installed.items()
    }
    edited = {row["name"]: row["editable_project_location"] for row in listed if "editable_project_location" in row}
    assert {name: row.folder for name, row in one.installed.items() if row.editable} == edited
    assert [folder for folder in own["path"] if folder in one.search] == list(one.search)
    assert all(folder in one.search or not holds_packages(root, folder) for folder in own["path"] if folder)
    assert (one.python, one.site_packages[0], f"glibc {one.glibc}") == (own["version"], own["new"], own["libc"])
    assert one.version == VERSIONS[one.engine]
    place_of_engine = asked(root, one, "-c", f"import importlib.util as u; print(u.find_spec('{one.engine}').origin)")
    assert place_of_engine.strip() == f"{one.installed[one.engine].folder}/{one.engine}/__init__.py"


def holds_packages(root: Path, folder: str) -> bool:
    return any((root / folder.lstrip("/")).glob("*.*-info"))


BACKENDS = {"setuptools.build_meta": "setuptools", "hatchling.build": "hatchling", "flit_core.buildapi": "flit_core"}


@pytest.mark.slow
def test_editable_checkouts_of_real_build_backends_are_found(tmp_path: Path) -> None:
    """Each backend leaves files of its own: a finder, a .pth under some name. This machine's Python, in a venv."""
    venv, program = tmp_path / "venv", Path(sys.executable).resolve()
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([program, "-m", "venv", str(venv)], check=True, env=env)
    for inner in (".", "src"):
        for backend, needs in BACKENDS.items():
            name = f"proj_{needs}_{'flat' if inner == '.' else inner}"
            project = tmp_path / name
            (project / inner / name).mkdir(parents=True)
            (project / inner / name / "__init__.py").write_text('"""x"""\n')
            text = f'[build-system]\nrequires = ["{needs}"]\nbuild-backend = "{backend}"\n'
            text += f'[project]\nname = "{name}"\nversion = "1.2.3.dev4+gabc"\ndescription = "x"\n'
            (project / "pyproject.toml").write_text(text)
            pip = [f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-e", str(project)], check=True, env=env)
    library = Path(os.__file__).parent
    paths = [venv, *tmp_path.glob("proj_*"), program, library / "os.py", library / "site.py"]
    packed = tmp_path / "layer.tar"
    subprocess.run(["tar", "-cf", str(packed), "-C", "/", *(str(path)[1:] for path in paths)], check=True)
    tree = FileTree([read_layer(iter([packed.read_bytes()]))])
    wanted = Wanted(platform=HERE, python=f"{venv}/bin/python3")
    one = describe(tree, REFERENCE, (), config(Env=["HOME=/nobody"]), wanted)
    own = json.loads(
        subprocess.run([f"{venv}/bin/python3", "-c", ASK], check=True, capture_output=True, text=True, env=env).stdout
    )
    assert {name: [row.version, str(Path(row.metadata).parent)] for name, row in one.installed.items()} == own["found"]
    edited = {name: row.folder for name, row in one.installed.items() if row.editable}
    assert len(edited) == 2 * len(BACKENDS)
    for name, folder in edited.items():
        package = name.replace("-", "_")
        asking = f"import importlib.util as u; print(u.find_spec('{package}').origin)"
        argv = [f"{venv}/bin/python3", "-c", asking]
        found = subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout.strip()
        assert found == f"{folder}/{package}/__init__.py"


@pytest.mark.long
def test_a_base_of_8_gb_is_read_once_and_then_known(ctx: Context, place: Place, served: Registry) -> None:
    named = make_large_base(place)
    began = time.monotonic()
    one = inspect_base(ctx, named, "linux/arm64")
    print(f"read in {time.monotonic() - began:.1f} s")
    locked = json.loads((ROOT / "recipes/images/vllm.lock.json").read_text())["wheels"]["image"]["arm64"]
    assert {name: row.version for name, row in one.installed.items()} == {
        canonicalize_name(row["name"]): row["version"] for row in locked
    }
    assert (one.engine, one.cuda[:3]) == ("vllm", "13.")
    served.forget()
    assert inspect_base(ctx, named, "linux/arm64") == one
    assert served.log.read_text() == ""


def test_a_base_is_read_once_and_its_tag_is_resolved_once(ctx: Context, place: Place, served: Registry) -> None:
    named = make_base("debian", place, packages=(), engine="")
    tag = named.partition("@")[0] + ":1"
    first = inspect_base(ctx, tag, "linux/arm64")
    assert first.reference == named
    served.forget()
    assert inspect_base(ctx, named, "linux/arm64") == first
    assert served.log.read_text() == ""
    nowhere = f"nowhere.invalid/base@{first.digest}"  # the digest alone counts: no name is looked up
    assert inspect_base(ctx, nowhere, "linux/arm64") == replace(first, reference=nowhere)
    assert inspect_base(ctx, tag, "linux/arm64") == first
    assert served.received("GET", "/blobs/") == []
    read = files_of(ctx, first, ["/etc/os-release", "/usr/lib/os-release", "/usr/lib", "/none", TORCH])
    assert set(read) == {"/etc/os-release", "/usr/lib/os-release", TORCH}
    assert read["/etc/os-release"] == read["/usr/lib/os-release"]
    assert b"'13.0'" in read[TORCH]
    again = make_base("debian", place, packages=(), engine="", settings={"User": "1000"})
    served.forget()
    assert inspect_base(ctx, again, "linux/arm64") == replace(first, reference=again, user="1000")
    assert len(served.received("GET", "/blobs/")) == 1  # its config


def test_of_an_index_the_right_platform_is_taken(ctx: Context, place: Place, served: Registry) -> None:
    rows = []
    for platform in ("linux/amd64", "linux/arm64"):
        make_base("debian", place, packages=(), engine="", platform=platform, name="bases/both")
        manifest = served.manifest("bases/both", "1")
        text = json.dumps(manifest).encode()
        digest = make_base("debian", place, packages=(), engine="", platform=platform, name="bases/both").split("@")[1]
        system, _, machine = platform.partition("/")
        described = {"os": system, "architecture": machine}
        rows.append({"mediaType": manifest["mediaType"], "digest": digest, "size": len(text), "platform": described})
    kind = "application/vnd.oci.image.index.v1+json"
    index = push_manifest(place, "bases/both", {"schemaVersion": 2, "mediaType": kind, "manifests": rows}, tag="all")
    for number, platform in enumerate(("linux/amd64", "linux/arm64")):
        one = inspect_base(ctx, index, platform)
        assert (one.digest, one.platform) == (rows[number]["digest"], platform)
    with pytest.raises(PublishError, match=r"not for linux/riscv64"):
        inspect_base(ctx, index, "linux/riscv64")
    with pytest.raises(PublishError) as caught:
        inspect_base(ctx, f"{place.host}/bases/both@{rows[0]['digest']}", "linux/arm64")
    assert "it is for linux/amd64" in str(caught.value)
    assert "--platform linux/amd64" in str(caught.value)


@pytest.mark.slow
def test_an_image_of_the_engine_is_read_the_same_and_verified(
    ctx: Context, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = connect_or_start(ctx.env, ctx.store)
    named = make_base("venv", place)
    assert main(["pull", named, "--platform", "linux/arm64"]) == 0
    fresh = open_context({**os.environ, "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)
    local, remote = inspect_local(fresh, engine, named, "linux/arm64"), inspect_base(fresh, named, "linux/arm64")
    assert [one.diff_id for one in local.layers] == [one.diff_id for one in remote.layers]
    assert replace(local, reference=named, layers=remote.layers) == remote
    assert inspect_local(fresh, engine, named, "linux/arm64") == local
    capsys.readouterr()
    main(["verify", named, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {row["path"] for row in found["binaries"]} >= {"usr/bin/python3.13"}
    assert main(["show", named, "--base", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["base"]["interpreter"], shown["base"]["version"]) == (remote.interpreter, remote.version)
    assert any(f"`verify {named}`" in remark for remark in shown["remarks"])
