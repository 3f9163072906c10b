"""Preparing: locked files into the store, bases unpacked, build contexts laid out as links into the store."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from packaging.utils import parse_wheel_filename

from gb10.artifact import Artifact
from gb10.debian.accounts import User
from gb10.debian.pool import fetch_debs
from gb10.debian.rootfs import write_rootfs
from gb10.fetch import intact, open_session, stored
from gb10.index.pool import fetch_all
from gb10.pipeline.workshop import Workshop, cores
from gb10.plan import Plan, Step
from gb10.render import epoch
from gb10.store import file_sha256

ROOTFS = "rootfs.tar"
SEAL = "sha256"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """A directory that BuildKit builds, and its named contexts."""

    folder: Path
    contexts: Mapping[str, Path]


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
    if final.exists() and not _sealed(final):
        shop.talk.say(f"{step.name} is damaged in the store: making it again")
        shutil.rmtree(final)
    if final.exists():
        shop.talk.hit(step.name)
        return final / ROOTFS
    paths = _fetch_base(shop, plan, step)
    user = User(uid=plan.recipe.user, name="gb10", home="/home/gb10") if step.name == "base-image" else None

    def make(work: Path) -> None:
        with shop.talk.task(f"unpack {step.name}"):
            write_rootfs(paths, work / ROOTFS, epoch=epoch(plan), user=user)
            (work / SEAL).write_text(file_sha256(work / ROOTFS), encoding="ascii")

    return shop.store.ensure("rootfss", step.key, make) / ROOTFS


def _sealed(entry: Path) -> bool:
    seal = entry / SEAL
    return seal.exists() and seal.read_text(encoding="ascii") == file_sha256(entry / ROOTFS)


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
    shop: Workshop, files: Mapping[str, Path | str], wheels: Mapping[str, Iterable[Path]], extra: Mapping[str, Path]
) -> Iterator[BuildContext]:
    """Lay out ``files`` (path or text by name) and one folder per wheel set, all by hard links; gone afterwards."""
    scratch = shop.store.scratch("context")
    try:
        folder = scratch / "main"
        for name, content in files.items():
            _place(folder / name, content)
        for name, paths in wheels.items():
            _wheel_folder(scratch / name, sorted(paths))
        yield BuildContext(folder=folder, contexts={**{name: scratch / name for name in wheels}, **extra})
    finally:
        shutil.rmtree(scratch)


def _place(target: Path, content: Path | str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        target.write_text(content, encoding="utf-8")
    elif content.is_dir():
        shutil.copytree(content, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        _link(content, target)


def _wheel_folder(folder: Path, wheels: Iterable[Path]) -> None:
    folder.mkdir()
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
    """A hard link; a copy where the checkout lies on another file system than the store."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def store_paths(shop: Workshop, files: Iterable[Artifact]) -> list[Path]:
    """Where the store keeps these files."""
    return [stored(shop.store, file) for file in files]
