"""What kernels for an image of others are compiled from, read out of its layers and packed: FlashInfer's sources, and
torch's headers and libraries. And where that FlashInfer looks first for modules that were compiled ahead.
"""

import ast
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.containers.reach import connect_if_running
from gb10.core.fetch import accept, intact, stored
from gb10.core.files import Artifact
from gb10.core.files import digest as key_of
from gb10.core.store import file_sha256, note_use
from gb10.errors import UsageError
from gb10.image.base.base_reading import folder_in, folders_of
from gb10.image.base.kept_layers import SECTION
from gb10.image.context import Context
from gb10.image.recipe.base_image import BaseImage, Installed
from gb10.image.recipe.locked import LockedPart, LockedTaken
from gb10.image.recipe.on_image import FLASHINFER
from gb10.inside.compile.pack_wheel import Wheel
from gb10.inside.compile.pack_wheel import pack as pack_wheel

FORMAT: Final = 2
"""Of the archive and of what is noted of it: another one may say something else of the same files."""
FOLDERS: Final = ("csrc", "include", "3rdparty/cutlass", "3rdparty/cccl", "3rdparty/spdlog")
"""What FlashInfer compiles, by its place in a source archive; an installed one has it below flashinfer/data."""
PACKAGE: Final = "flashinfer"
MOST_BYTES: Final = 1 << 29
LOADER: Final = f"{PACKAGE}/jit/env.py"
JIT_CACHE: Final = "flashinfer-jit-cache"
VERSION: Final = re.compile(rb"^#define CUTLASS_(?:MAJOR|MINOR|PATCH)[ \t]+(\d{1,4})[ \t]*$", re.MULTILINE)
LIBRARIES: Final = ("torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so")
"""What our own kernels are linked against, of torch (extension.py)."""
MOST_TORCH: Final = 3 << 30
"""Bytes of torch's headers and these libraries: 0.78 GB in 2.14.0 for aarch64, more where it is for many GPUs."""
EPOCH: Final = 315532800
"""The first day that a zip can name."""
PACKED: Final = "packed.json"
NONE: Final = "build on an image with FlashInfer, or leave out --kernels"
NO_OWN: Final = "build on an image with a whole torch, or leave out our kernels (gb10-…)"


def locked_flashinfer(ctx: Context, base: BaseImage) -> LockedPart:
    """FlashInfer's sources of an image, locked; the layers that hold them are read once.

    Raises UsageError for an image without, and as ``files_of``.
    """
    one = installed_flashinfer(base)
    return LockedPart.model_validate(_noted(ctx, base, PACKAGE, lambda: pack(ctx, base, one)))


def locked_torch(ctx: Context, base: BaseImage, headers: Iterable[str]) -> LockedTaken:
    """Torch's headers and libraries of an image, locked, as a wheel; the layers that hold them are read once.

    ``headers``: what our kernels include of it. Raises as ``pack_torch``.
    """
    return LockedTaken.model_validate(_noted(ctx, base, "torch", lambda: pack_torch(ctx, base, headers)))


def _noted(ctx: Context, base: BaseImage, what: str, make: Callable[[], LockedPart | LockedTaken]) -> object:
    """What was noted of an archive when it was packed; packed now where nothing was."""
    place = ctx.store.entry(SECTION, key_of([what, FORMAT, base.digest, base.interpreter]))
    if not (place / PACKED).is_file():
        text = make().model_dump_json()
        ctx.store.replace(place, lambda folder: _note(folder, text))
    note_use(place / PACKED)
    return json.loads((place / PACKED).read_text(encoding="utf-8"))


def ready_sources(ctx: Context, base: BaseImage, locked: LockedPart | LockedTaken) -> None:
    """Have the archive in the store, packed anew where it is missing. Raises UsageError when it is another one now."""
    wanted = Artifact(locked.filename, locked.sha256, locked.size)
    if intact(ctx.store, wanted, lambda path: ctx.reporter.say(f"{path.name} is damaged in the store: made again")):
        return
    taken = isinstance(locked, LockedTaken)
    found = pack_torch(ctx, base, ()) if taken else pack(ctx, base, installed_flashinfer(base))
    if found.sha256 != locked.sha256:
        raise UsageError(
            f"{base.reference} gives other files of {locked.name} than the lock names",
            where=f"locked {locked.sha256}\nread   {found.sha256}",
            hint="lock it again: ./build.py lock --engine FILE",
        )


def installed_flashinfer(base: BaseImage) -> Installed:
    """The FlashInfer of an image. Raises UsageError for an image without one that has a release."""
    one = base.installed.get(FLASHINFER)
    if one is None:
        raise UsageError(f"{base.reference} holds no FlashInfer: no kernels are compiled for it", hint=NONE)
    try:
        Version(one.version)
    except InvalidVersion:
        raise UsageError(
            f"{base.reference} holds a FlashInfer of no release: {ascii(one.version)[:100]}", hint=NONE
        ) from None
    return one


def pack(ctx: Context, base: BaseImage, one: Installed) -> LockedPart:
    """Read the sources and keep their archive in the store: the same files give the same bytes."""
    engine = connect_if_running(ctx.env, ctx.store)
    folders = {PACKAGE: (f"{one.folder}/{PACKAGE}",)} | {
        name: (f"{one.folder}/{PACKAGE}/data/{name.rpartition('/')[2]}", f"{one.folder}/{name}") for name in FOLDERS
    }
    with ctx.reporter.task(f"read FlashInfer {one.version} of {base.reference}"):
        files = folders_of(ctx, base, folders, wanted=_wanted, most=MOST_BYTES, engine=engine)
    absent = [name for name in (f"{PACKAGE}/aot.py", "csrc", "include") if not any(p.startswith(name) for p in files)]
    if absent:
        raise UsageError(
            f"the FlashInfer of {base.reference} has no sources: {', '.join(absent)}",
            where=one.folder,
            hint=NONE,
        )
    cutlass = VERSION.findall(files.get("3rdparty/cutlass/include/cutlass/version.h", b""))[:3]
    content = packed(f"flashinfer_python-{Version(one.version)}", files)
    sha256 = hashlib.sha256(content).hexdigest()
    filename = f"flashinfer_python-{Version(one.version)}.tar"
    artifact = Artifact(filename, sha256, len(content))
    with ctx.store.folder("packed") as folder:
        (folder / filename).write_bytes(content)
        accept(folder / filename, artifact, stored(ctx.store, artifact))
    return LockedPart(
        name=FLASHINFER,
        version=one.version,
        filename=filename,
        sha256=sha256,
        size=len(content),
        base=base.digest,
        modules=module_folder(base, files.get(LOADER, b""), partial(folder_in, ctx, base, engine=engine)),
        cutlass=b".".join(cutlass).decode() if len(cutlass) == 3 else "",
    )


def pack_torch(ctx: Context, base: BaseImage, headers: Iterable[str]) -> LockedTaken:
    """Read torch's headers and the libraries that our kernels are linked against; keep them in the store as a wheel.

    The same files give the same bytes. Raises UsageError for an image whose torch has no release, or lacks one of
    them, and as ``folders_of``.
    """
    one = base.installed.get("torch")
    if one is None:
        raise UsageError(f"{base.reference} holds no torch: our kernels are compiled against it", hint=NO_OWN)
    try:
        version = str(Version(one.version))
    except InvalidVersion:
        raise UsageError(
            f"{base.reference} holds a torch of no release: {ascii(one.version)[:100]}", hint=NO_OWN
        ) from None
    engine = connect_if_running(ctx.env, ctx.store)
    with ctx.reporter.task(f"read torch {version} of {base.reference}"):
        files = folders_of(
            ctx,
            base,
            {"torch": (f"{one.folder}/torch",)},
            wanted=lambda path: path.startswith("torch/include/") or path in LIBRARIES,
            most=MOST_TORCH,
            engine=engine,
        )
    absent = [name for name in (*LIBRARIES, *(f"torch/include/{name}" for name in headers)) if name not in files]
    if absent:
        raise UsageError(
            f"the torch {version} of {base.reference} lacks what our kernels are compiled with",
            where=f"{one.folder} has no {', '.join(absent[:5])}",
            hint=NO_OWN,
        )
    wheel = Wheel(package="torch", version=version, tag="py3-none-any")
    about = {f"{wheel.info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n".encode()}
    with ctx.store.folder("packed") as folder:
        path = folder / wheel.filename
        pack_wheel(path, {**files, **wheel.marks, **about}, wheel, epoch=EPOCH)
        sha256, size = file_sha256(path), path.stat().st_size
        artifact = Artifact(wheel.filename, sha256, size)
        accept(path, artifact, stored(ctx.store, artifact))
    return LockedTaken(
        name="torch", version=version, filename=wheel.filename, sha256=sha256, size=size, base=base.digest
    )


def module_folder(base: BaseImage, loader: bytes, look: Callable[[str], tuple[str, tuple[str, ...]]]) -> str:
    """Where modules must lie so that the image's FlashInfer takes them and no others: an absolute folder, or empty
    for a package ``flashinfer_jit_cache`` in the first folder of packages.

    FlashInfer's own ``loader`` (flashinfer/jit/env.py) decides. Since 0.7.0 it takes what lies in its ``data/aot``,
    for whatever arch; then what the package flashinfer_jit_cache offers for the GPU's arch. Before, it asked that
    package, where it is installed, for the one folder, and looked into ``data/aot`` only without it. So the package
    is ours alone where the image has neither. ``look``: ``folder_in`` of the image.

    Raises UsageError for a loader that knows no such folder.
    """
    names = _names_in(loader)
    one, cached = installed_flashinfer(base), base.installed.get(JIT_CACHE)
    package, _ = look(f"{cached.folder}/flashinfer_jit_cache") if cached else ("", ())
    if cached and package and "get_jit_cache_dir" in names:
        wanted = f"{cached.folder}/flashinfer_jit_cache/jit_cache"
        place, _ = look(wanted)
        if place:
            return place
        raise UsageError(
            f"{JIT_CACHE} {cached.version} of {base.reference} keeps its modules in no known folder",
            where=f"not there: {wanted}",
            hint="build on an image without it, or leave out --kernels",
        )
    if "FLASHINFER_AOT_DIR" not in names:
        raise UsageError(
            f"the FlashInfer {one.version} of {base.reference} looks nowhere for modules that were compiled ahead",
            where=f"{one.folder}/{LOADER} has no FLASHINFER_AOT_DIR",
            hint=NONE,
        )
    data, _ = look(f"{one.folder}/{PACKAGE}/data")
    ours, modules = look(f"{data}/aot") if data else ("", ())
    if "get_jit_cache_providers" in names and not cached and not modules:
        return ""
    return ours or f"{data or f'{one.folder}/{PACKAGE}/data'}/aot"


def _names_in(source: bytes) -> set[str]:
    """The names that a Python file uses; none of a file that is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def _wanted(path: str) -> bool:
    """Python files of the package, and all that is compiled."""
    return not path.startswith(f"{PACKAGE}/") or (path.endswith(".py") and not path.startswith(f"{PACKAGE}/data/"))


def packed(top: str, files: dict[str, bytes]) -> bytes:
    """A plain tar below one folder, in name order, without times and owners. Pure."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return written.getvalue()


def _note(folder: Path, text: str) -> None:
    (folder / PACKED).write_text(text, encoding="utf-8")
