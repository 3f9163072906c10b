"""``--source NAME=DIR``: what is printed and which diffs are made of a folder, against the locked release's archive."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import Gb10Error
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.locked import Lock, LockedSdist, LockedWheel
from gb10.image.request.checkouts import own_sources
from tests.golden.conftest import Golden, section
from tests.recipes import SHIPPED

DRIVES: Final = ("gb10.image.request.checkout_files", "gb10.image.patches.write")
RECIPE: Final = ROOT / "recipes/images/vllm.yaml"
CUTLASS: Final = "3rdparty/cutlass/"
FLASHINFER: Final = {
    "PKG-INFO": "Metadata-Version: 2.4\nName: flashinfer-python\nVersion: 0.7.2.post1\n",
    "flashinfer/a.py": "a = 1\n",
    "flashinfer/b.py": "b = 1\n",
    "csrc/k.cu": "int k;\n",
    "tests/test_a.py": "t = 1\n",
    f"{CUTLASS}include/cutlass/c.h": "int c;\n",
}
DSL_PROJECT: Final = "nvidia-cutlass-dsl-libs-core"
DSL: Final = {"nvidia_cutlass_dsl/d.py": "d = 1\n", "nvidia_cutlass_dsl-4.6.0.dist-info/METADATA": "Name: x\n"}


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(
        env={"PATH": "/usr/bin:/bin"}, store=Store(tmp_path / "s"), reporter=Reporter({}, verbosity=0), catalog=SHIPPED
    )


def kept(ctx: Context, content: bytes, filename: str) -> dict[str, object]:
    """A file in the store, as a lock names it."""
    sha256 = hashlib.sha256(content).hexdigest()
    place = ctx.store.entry("downloads", sha256) / filename
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    return {"filename": filename, "sha256": sha256, "size": len(content)}


@pytest.fixture
def locked(ctx: Context) -> Lock:
    """The shipped lock, with small archives of FlashInfer and of CUTLASS's DSL."""
    lock = load_lock(lock_path(RECIPE))
    written, wheel = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, text in FLASHINFER.items():
            member = tarfile.TarInfo(f"flashinfer_python-0.7.2.post1/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in DSL.items():
            archive.writestr(name, text)
    old = lock.sdists["flashinfer-python"]
    file = kept(ctx, written.getvalue(), "flashinfer_python-0.7.2.post1.tar.gz")
    sdist = LockedSdist.model_validate({**file, "name": old.name, "version": old.version})
    image = []
    for one in lock.wheels.image["arm64"]:
        own = kept(ctx, wheel.getvalue(), one.filename) if one.name == DSL_PROJECT else {}
        image.append(LockedWheel.model_validate({**one.model_dump(), **own}))
    wheels = lock.wheels.model_copy(update={"image": {**lock.wheels.image, "arm64": tuple(image)}})
    return lock.model_copy(update={"sdists": {**lock.sdists, "flashinfer-python": sdist}, "wheels": wheels})


def folder(path: Path, files: Mapping[str, str | None]) -> Path:
    """The files; None leaves one out."""
    for name, text in files.items():
        if text is not None:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
    return path


Case = tuple[str, Mapping[str, str], Mapping[str, str | None]]
CASES: Final[Mapping[str, Case]] = {
    "files of each kind": (
        "flashinfer",
        FLASHINFER,
        {"flashinfer/a.py": "a = 2\n", "csrc/k.cu": "int k2;\n", "tests/test_a.py": "t = 2\n"},
    ),
    "new files": (
        "flashinfer",
        FLASHINFER,
        {"flashinfer/n.py": "n = 1\n", "setup.py": "s\n", "csrc/new.cu": "int n;\n"},
    ),
    "nothing": ("flashinfer", FLASHINFER, {}),
    "a file that is gone": ("flashinfer", FLASHINFER, {"flashinfer/b.py": None}),
    "another release": ("flashinfer", FLASHINFER, {"PKG-INFO": "Name: flashinfer-python\nVersion: 0.7.1\n"}),
    "a bundled file": ("flashinfer", FLASHINFER, {f"{CUTLASS}include/cutlass/c.h": "int d;\n"}),
    "a file that is no text": ("flashinfer", FLASHINFER, {"flashinfer/a.py": "a\0"}),
    "another project": ("flashinfer", {"x.py": "1"}, {}),
    "a folder of a wheel": ("cutlass-dsl", DSL, {"nvidia_cutlass_dsl/d.py": "d = 2\n"}),
    "a source that is not in the image": ("sglang", {"x.py": "1"}, {}),
    "a source that is none": ("zzz", {"x.py": "1"}, {}),
}


def test_each_folder_is_held_against_the_release(
    ctx: Context, locked: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    recipe, found = load_recipe(RECIPE), list[str]()
    for number, (name, (source, files, changed)) in enumerate(CASES.items()):
        place = folder(tmp_path / f"own-{number}", {**files, **changed})
        try:
            (one,) = own_sources(ctx, recipe, locked, "arm64", [f"{source}={place}"])
            texts = [f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in one.diffs]
            made = "\n".join((f"{one.source} of {one.taken}", *texts))
        except Gb10Error as error:
            made = f"exit {error.code}: {error}"
        found.append(section(name, f"{capsys.readouterr().err}{made}\n".replace(str(place), "OWN")))
    golden("cli/own-sources.txt", "\n".join(found))
