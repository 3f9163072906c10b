"""A locked wheel whose library is replaced: its tag promises no older glibc than the library needs."""

import base64
import csv
import hashlib
import json
import os
import re
import sys
import zipfile
from dataclasses import replace
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from gb10.core.fetch import store_paths
from gb10.core.files import Artifact
from gb10.core.store import file_sha256, seal
from gb10.errors import BuildError
from gb10.image.build.library_tags import needed_glibc, platform_with, tags_with
from gb10.image.build.wheels import graft_files, make_grafts
from gb10.image.context import open_context
from gb10.image.plan.dag import plan_image
from gb10.image.recipe.image_recipe import Source, WheelBuild
from gb10.inside.compile import pack_targets
from gb10.inside.install import grafted
from tests.unit.image.test_library import LIBRARY
from tests.unit.image.test_package_plan import made

NCCL = "nvidia/nccl/lib/libnccl.so.2"
LOCKED = "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_aarch64.whl"
INFO = "nvidia_nccl_cu13-2.30.7.dist-info"
AARCH64 = b"\xb7\x00"


@pytest.fixture
def library() -> bytes:
    """A library of this machine, as one for aarch64: its needs of glibc are real, and above 2.18."""
    content = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/libgcc_s.so.1").read_bytes()
    return content[:18] + AARCH64 + content[20:]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Upstream's, small; it bundles another project with a WHEEL of its own."""
    path = tmp_path / LOCKED
    mark = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux_2_18_aarch64\n"
    files = {
        "nvidia/_vendor/other-1.dist-info/WHEEL": "Tag: py3-none-any\n",
        NCCL: "upstream's",
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: nvidia-nccl-cu13\nVersion: 2.30.7\n",
        f"{INFO}/WHEEL": mark,
    }
    record = "".join(
        f"{name},{'' if name.endswith('RECORD') else 'sha256=a'},\n" for name in (*files, f"{INFO}/RECORD")
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{INFO}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def wanted(library: bytes) -> int:
    """By the names of versions in its bytes, without reading the ELF."""
    return max(17, *(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)\0", library)))


@pytest.mark.parametrize(
    ("platform", "needed", "says"),
    [
        ("manylinux_2_18_aarch64", 38, "manylinux_2_38_aarch64"),
        ("manylinux_2_18_aarch64", 17, "manylinux_2_18_aarch64"),
        ("manylinux_2_39_aarch64", 38, "manylinux_2_39_aarch64"),
        ("manylinux2014_aarch64.manylinux_2_17_aarch64", 38, "manylinux_2_38_aarch64"),
        ("manylinux2014_aarch64.manylinux_2_17_aarch64", 17, "manylinux2014_aarch64.manylinux_2_17_aarch64"),
        ("manylinux_2_17_aarch64.manylinux_2_28_aarch64", 28, "manylinux_2_28_aarch64"),
        ("manylinux2014_aarch64", 18, "manylinux_2_18_aarch64"),
        ("any", 34, "manylinux_2_34_aarch64"),
        ("any", 0, "any"),
        ("linux_aarch64", 38, "linux_aarch64"),
    ],
)
def test_a_tag_promises_no_older_glibc_than_is_needed(platform: str, needed: int, says: str) -> None:
    assert platform_with(platform, needed, "aarch64") == says


@pytest.mark.parametrize(("version", "needed"), [(b"GCC_12.0.0", 35), (b"GCC_14.0.0", 39), (b"GLIBC_2.38", 38)])
def test_what_libgcc_and_glibc_must_have_is_read_from_the_library(library: bytes, version: bytes, needed: int) -> None:
    """The name of one version in a real library is exchanged for another of the same length."""
    newest = f"GLIBC_2.{wanted(library)}\0".encode()
    assert library.count(newest) == 1
    assert needed_glibc("a.so", library.replace(newest, version + b"\0"), "aarch64") == needed


def test_packed_relocations_need_the_glibc_that_knows_them() -> None:
    """glibc's own libraries have them since Debian 12."""
    machine = os.uname().machine
    content = Path(f"/usr/lib/{machine}-linux-gnu/libdl.so.2").read_bytes()
    assert (needed_glibc("libdl.so.2", content, machine) >= 36) == (b"GLIBC_ABI_DT_RELR\0" in content)


def test_a_library_for_a_newer_glibc_than_the_images_is_refused(wheel: Path, library: bytes) -> None:
    least = wanted(library)
    assert tags_with(wheel, {NCCL: library}, "aarch64", least).platform.endswith("_aarch64")
    with pytest.raises(BuildError, match=rf"{NCCL} needs glibc 2\.{least}, the image has 2\.{least - 1}"):
        tags_with(wheel, {NCCL: library}, "aarch64", least - 1)
    with pytest.raises(BuildError, match=r"a\.so: a library is of ELF machine 183"):
        needed_glibc("a.so", library, "x86_64")


def test_the_grafted_wheel_and_its_layer_say_what_the_library_needs(
    wheel: Path, library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the compiled archive to the installed files, with the programs that the stages run."""
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)
    draft = plan_image(*made(WheelBuild.model_validate(LIBRARY), Source(sdist="conv==1.0")))
    step = replace(
        draft.step("graft-nvidia-nccl-cu13"),
        files=(Artifact(wheel.name, file_sha256(wheel), wheel.stat().st_size),),
    )
    plan = replace(draft, steps=tuple(step if one.name == step.name else one for one in draft.steps))
    (locked,) = store_paths(ctx.store, step.files)
    locked.parent.mkdir(parents=True)
    wheel.rename(locked)
    seal(compiled(library, ctx.store.entry("wheels", plan.step("conv").key), tmp_path / "built", monkeypatch))

    (graft,) = make_grafts(ctx, plan, [step])
    tag = f"py3-none-manylinux_2_{wanted(library)}_aarch64"
    assert {str(one) for one in parse_wheel_filename(graft.path.name)[3]} == {tag}
    with zipfile.ZipFile(graft.path) as archive:
        (own,) = {name.split("/")[0] for name in archive.namelist() if name.endswith("/METADATA")}
        assert own == f"{'-'.join(graft.path.name.split('-')[:2])}.dist-info"
        assert Parser().parsestr(archive.read(f"{own}/WHEEL").decode()).get_all("Tag") == [tag]
        assert archive.read(NCCL) == library

    below, layer, changes = tmp_path / "below", tmp_path / "layer", tmp_path / "changes"
    with zipfile.ZipFile(locked) as archive:
        archive.extractall(below / grafted.SITE)
    for name, content in graft_files(ctx.store, step).items():
        (changes / name).parent.mkdir(parents=True, exist_ok=True)
        (changes / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    words = {"below": below, "wheel": changes, "out": layer, "epoch": "315532800"}
    argv = [word for name, one in words.items() for word in (f"--{name}", str(one))]
    monkeypatch.setattr(sys, "argv", ["grafted", *argv])
    grafted.main()
    site = layer / grafted.SITE
    assert [path.name for path in site.glob("*.dist-info")] == [INFO]
    mark = (site / INFO / "WHEEL").read_bytes()
    assert f"Tag: {tag}\n" in mark.decode()
    record = {row[0]: row[1] for row in csv.reader((site / INFO / "RECORD").read_text().splitlines())}
    for name in (f"{INFO}/WHEEL", NCCL):
        digest = base64.urlsafe_b64encode(hashlib.sha256((site / name).read_bytes()).digest()).rstrip(b"=").decode()
        assert record[name] == f"sha256={digest}"


def compiled(library: bytes, out: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the compile stage writes for it."""
    (built / NCCL).parent.mkdir(parents=True)
    (built / NCCL).write_bytes(library)
    modules = {NCCL: {"file": NCCL, "cubins": ["sm_121a"], "sha256": hashlib.sha256(library).hexdigest()}}
    manifest = {"set": "library", "arch": "12.1a", "licence": "Apache-2.0", "modules": modules}
    (built / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    words = ["--built", str(built), "--project=conv", "--version=1.0", "--key=abcdef01", "--machine=aarch64"]
    monkeypatch.setattr(sys, "argv", ["pack", *words, "--epoch=315532800", "--out", str(out)])
    pack_targets.main()
    return next(out.glob("*.whl"))
