"""Preparing: locked files into the store, bases unpacked, build contexts laid out as links into the store."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

from packaging.utils import parse_wheel_filename

from gb10.artifact import Artifact
from gb10.catalog import tree_digest
from gb10.debian.accounts import User
from gb10.debian.pool import fetch_debs
from gb10.debian.rootfs import write_rootfs
from gb10.engine.buildx import Network
from gb10.errors import UsageError
from gb10.fetch import intact, open_session, stored
from gb10.index.pool import fetch_all
from gb10.mods.files import write_files
from gb10.mods.find import load_mod
from gb10.pipeline.workshop import Workshop, cores
from gb10.plan import USER_HOME, USER_NAME, Mod, Overlay, Plan, Step
from gb10.render import epoch
from gb10.store import file_sha256

MAIN, CONTEXTS = "main", "contexts"  # as render.bake names them
ROOTFS = "rootfs.tar"
SEAL = "sha256"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """A directory that BuildKit builds, and its named contexts."""

    folder: Path
    contexts: Mapping[str, Path]
    secrets: Mapping[str, Path] = field(default_factory=dict)
    network: Network = "none"


def fetch_files(shop: Workshop, steps: Iterable[Step], stop: Event | None = None) -> None:
    """The wheels and source archives of these steps: hashed where they are there, downloaded where they are not.

    Raises FetchError; ends early when another thread sets ``stop``.
    """
    files = tuple({file.sha256: file for step in steps for file in step.files}.values())
    absent = _absent(shop, files)
    if not absent:
        return

    def arrived(count: int) -> None:
        if stop is not None and stop.is_set():
            raise CancelledError
        shop.talk.advance(task, count)

    with shop.talk.task(f"download {len(absent)} files", sum(file.size for file in absent)) as task:
        fetch_all(absent, shop.store, shop.env, arrived)


def _absent(shop: Workshop, files: Sequence[Artifact]) -> list[Artifact]:
    """The files that the store does not hold whole: each is hashed before it is used."""

    def damaged(path: Path) -> None:
        shop.talk.say(f"{path.name} is damaged in the store: fetching it again")

    with ThreadPoolExecutor(cores()) as pool:
        good = pool.map(lambda file: intact(shop.store, file, damaged), files)
        return [file for file, whole in zip(files, good, strict=True) if not whole]


def make_rootfs(shop: Workshop, plan: Plan, step: Step) -> Path:
    """The base's root file system as a tar in the store; a damaged one is made again."""
    final = shop.store.entry("rootfss", step.key)
    with shop.store.locked(f"rootfs-{step.key}", lambda: shop.talk.say(f"another run makes {step.name}: waiting")):
        if _sealed(final):
            shop.talk.hit(step.name)
        else:
            if final.exists():
                shop.talk.say(f"{step.name} is damaged in the store: making it again")
            shop.store.replace(final, partial(_unpack, shop, plan, step, _fetch_base(shop, plan, step)))
    return final / ROOTFS


def _unpack(shop: Workshop, plan: Plan, step: Step, debs: Sequence[Path], work: Path) -> None:
    user = User(uid=plan.recipe.user, name=USER_NAME, home=USER_HOME) if step.name == "base-image" else None
    with shop.talk.task(f"unpack {step.name}"):
        write_rootfs(debs, work / ROOTFS, epoch=epoch(plan), user=user)
        (work / SEAL).write_text(file_sha256(work / ROOTFS), encoding="ascii")


def _sealed(entry: Path) -> bool:
    seal, tar = entry / SEAL, entry / ROOTFS
    return seal.exists() and tar.exists() and seal.read_text(encoding="ascii") == file_sha256(tar)


def _fetch_base(shop: Workshop, plan: Plan, step: Step) -> Sequence[Path]:
    debs = {
        "base-build": plan.lock.debs.build[plan.options.build],
        "base-image": plan.lock.debs.image[plan.options.target],
    }
    absent = sum(file.size for file in _absent(shop, step.files))
    with shop.talk.task(f"download {step.name}", absent) as task, open_session(shop.env) as session:
        return fetch_debs(session, shop.store, shop.env, debs[step.name], lambda count: shop.talk.advance(task, count))


@contextmanager
def build_context(
    shop: Workshop,
    files: Mapping[str, Path | bytes],
    wheels: Mapping[str, Iterable[Path]],
    overlay: Overlay | None = None,
    mods: Mapping[str, Mod] | None = None,
    *,
    trees: Mapping[str, Path | Mapping[str, bytes]] | None = None,
) -> Iterator[BuildContext]:
    """Lay out ``files`` (a store path or content, by name), a folder per wheel set, overlay and mods; gone afterwards.

    ``trees`` are further folders, by context: one of the store, or names and contents.

    Store files are linked: they are hashed before and never change. Overlay and mods (by context) are copied, and
    refused (UsageError) when they are no longer what was planned.
    """
    scratch = shop.store.scratch("context")
    try:
        for name, content in files.items():
            _place(scratch / MAIN / name, content)
        for name, paths in wheels.items():
            _wheel_folder(scratch / CONTEXTS / name, sorted(paths))
        contexts = {name: scratch / CONTEXTS / name for name in wheels}
        for name, tree in (trees or {}).items():
            contexts[name] = _tree(tree, scratch / CONTEXTS / name)
        if overlay:
            contexts["overlay"] = _copy_overlay(overlay, scratch / CONTEXTS / "overlay")
        for name, mod in (mods or {}).items():
            contexts[name] = _copy_mod(mod, scratch / CONTEXTS / name)
        yield BuildContext(folder=scratch / MAIN, contexts=contexts)
    finally:
        shutil.rmtree(scratch)


def _tree(tree: Path | Mapping[str, bytes], target: Path) -> Path:
    if isinstance(tree, Path):
        shutil.copytree(tree, target, copy_function=os.link)
        return target
    for name, content in tree.items():
        _place(target / name, content)
    return target


def keep_context(context: BuildContext, target: Path, bake: str) -> None:
    """Leave a copy of a context with its docker-bake.json; raises UsageError when something is there already."""
    if target.exists():
        raise UsageError(f"{target} is already there", hint="name a directory that does not exist yet")
    shutil.copytree(context.folder.parent, target, symlinks=True)
    (target / "docker-bake.json").write_text(bake, encoding="utf-8")


def _copy_overlay(overlay: Overlay, target: Path) -> Path:
    shutil.copytree(overlay.path, target, symlinks=True)
    if tree_digest(target) != overlay.digest:
        raise UsageError(f"the overlay {overlay.path} changed while it was being built",
                         hint="run the command again when nothing writes to it")  # fmt: skip
    return target


def _copy_mod(mod: Mod, target: Path) -> Path:
    found = load_mod(Path(mod.path))
    if found.digest != mod.digest:
        raise UsageError(f"the mod {mod.path} changed while it was being built",
                         hint="run the command again when nothing writes to it")  # fmt: skip
    return write_files(found.files, target)


def _place(target: Path, content: Path | bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        target.write_bytes(content)
    else:
        _link(content, target)


def _wheel_folder(folder: Path, wheels: Iterable[Path]) -> None:
    folder.mkdir(parents=True)
    lines = []
    for wheel in wheels:
        _link(wheel, folder / wheel.name)
        if wheel.suffix == ".whl":
            lines.append(requirement(wheel))
    (folder / "requirements.txt").write_text("".join(sorted(lines)), encoding="utf-8")


def requirement(wheel: Path) -> str:
    """``name==version --hash=sha256:…``: a store path carries the hash, a wheel built here is hashed now."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    sha256 = wheel.parent.name if wheel.parent.parent.name == "downloads" else file_sha256(wheel)
    return f"{name}=={version} --hash=sha256:{sha256}\n"


def _link(source: Path, target: Path) -> None:
    """A hard link: sources and scratch are both in the store."""
    os.link(source, target)


def store_paths(shop: Workshop, files: Iterable[Artifact]) -> list[Path]:
    """Where the store keeps these files."""
    return [stored(shop.store, file) for file in files]
