"""Preparing: locked files into the store, bases unpacked, build contexts laid out as links into the store."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from gb10.artifact import Artifact
from gb10.debian.accounts import User
from gb10.debian.pool import fetch_debs
from gb10.debian.rootfs import write_rootfs
from gb10.fetch import open_session, stored
from gb10.index.pool import fetch_all
from gb10.pipeline.workshop import Workshop
from gb10.plan import Plan, Step
from gb10.render import epoch
from gb10.store import file_sha256

ROOTFS = "rootfs.tar"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """A directory that BuildKit builds, and its named contexts."""

    folder: Path
    contexts: Mapping[str, Path]


def fetch_files(shop: Workshop, steps: Iterable[Step]) -> None:
    """The wheels and source archives of these steps, downloaded where they are absent."""
    files = {file.sha256: file for step in steps for file in step.files}
    absent = [file for file in files.values() if not stored(shop.store, file).exists()]
    if not absent:
        return
    with shop.talk.task(f"download {len(absent)} files", sum(file.size for file in absent)) as task:
        fetch_all(absent, shop.store, shop.env, lambda count: shop.talk.advance(task, count))


def make_rootfs(shop: Workshop, plan: Plan, step: Step) -> Path:
    """The base's root file system as a tar in the store."""
    final = shop.store.entry("rootfss", step.key)
    if final.exists():
        shop.talk.hit(step.name)
        return final / ROOTFS
    debs = {
        "base-build": plan.lock.debs.build[plan.options.build],
        "base-image": plan.lock.debs.image[plan.options.target],
    }
    absent = sum(file.size for file in step.files if not stored(shop.store, file).exists())
    with shop.talk.task(f"download {step.name}", absent) as task, open_session(shop.env) as session:
        paths = fetch_debs(session, shop.store, shop.env, debs[step.name], lambda count: shop.talk.advance(task, count))
    user = User(uid=plan.recipe.user, name="gb10", home="/home/gb10") if step.name == "base-image" else None

    def make(work: Path) -> None:
        with shop.talk.task(f"unpack {step.name}"):
            write_rootfs(paths, work / ROOTFS, epoch=epoch(plan), user=user)

    return shop.store.ensure("rootfss", step.key, make) / ROOTFS


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
