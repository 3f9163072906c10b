"""Preparing: locked files into the store, bases unpacked."""

from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

from gb10.artifact import Artifact
from gb10.checkout import fetch_checkout
from gb10.debian.accounts import User
from gb10.debian.pool import fetch_debs
from gb10.debian.rootfs import write_rootfs
from gb10.fetch import intact, open_session, stored
from gb10.index.pool import fetch_all
from gb10.pipeline.workshop import Workshop, cores
from gb10.plan import USER_HOME, USER_NAME, Plan, Step
from gb10.render import epoch
from gb10.store import is_sealed, seal

ROOTFS = "rootfs.tar"


def fetch_files(shop: Workshop, steps: Iterable[Step], stop: Event | None = None) -> None:
    """The wheels and source archives of these steps: hashed where they are there, downloaded where they are not.

    Raises FetchError; ends early when another thread sets ``stop``.
    """
    fetch_locked(shop, tuple({file.sha256: file for step in steps for file in step.files}.values()), stop)


def fetch_locked(shop: Workshop, files: Sequence[Artifact], stop: Event | None = None) -> None:
    """The same for files of the lock that no step names."""
    absent = _absent(shop, files)
    for file in absent:
        if file.checkout:
            with shop.talk.task(f"git {file.filename}"):
                fetch_checkout(shop.store, shop.env, file, file.checkout)
    listed = [file for file in absent if not file.checkout]
    if not listed:
        return

    def arrived(count: int) -> None:
        if stop is not None and stop.is_set():
            raise CancelledError
        shop.talk.advance(task, count)

    with shop.talk.task(f"download {len(listed)} files", sum(file.size for file in listed)) as task:
        fetch_all(listed, shop.store, shop.env, arrived)


def _absent(shop: Workshop, files: Sequence[Artifact]) -> list[Artifact]:
    """The files that the store does not hold whole: each is hashed before it is used."""

    def damaged(path: Path) -> None:
        shop.talk.say(f"{path.name} is damaged in the store: fetching it again")

    with ThreadPoolExecutor(cores()) as pool:
        good = pool.map(lambda file: intact(shop.store, file, damaged), files)
        return [file for file, whole in zip(files, good, strict=True) if not whole]


def make_rootfs(shop: Workshop, plan: Plan, step: Step) -> Path:
    """The base's root file system as a tar in the store; a damaged one is made again."""
    final = rootfs_path(shop, step).parent
    with shop.store.locked(f"rootfs-{step.key}", lambda: shop.talk.say(f"{step.name} is being made: waiting")):
        if is_sealed(rootfs_path(shop, step)):
            shop.talk.hit(step.name)
        else:
            if final.exists():
                shop.talk.say(f"{step.name} is damaged in the store: making it again")
            shop.store.replace(final, partial(_unpack, shop, plan, step, _fetch_base(shop, plan, step)))
    return rootfs_path(shop, step)


def rootfs_path(shop: Workshop, step: Step) -> Path:
    """Where the store keeps a base's root file system, present or not."""
    return shop.store.entry("rootfss", step.key) / ROOTFS


def _unpack(shop: Workshop, plan: Plan, step: Step, debs: Sequence[Path], work: Path) -> None:
    user = User(uid=plan.recipe.user, name=USER_NAME, home=USER_HOME) if step.name == "base-image" else None
    with shop.talk.task(f"unpack {step.name}"):
        write_rootfs(debs, work / ROOTFS, epoch=epoch(plan), user=user)
        seal(work / ROOTFS)


def _fetch_base(shop: Workshop, plan: Plan, step: Step) -> Sequence[Path]:
    debs = {
        "base-build": plan.lock.debs.build[plan.options.build],
        "base-image": plan.lock.debs.image[plan.options.target],
    }
    absent = sum(file.size for file in _absent(shop, step.files))
    with shop.talk.task(f"download {step.name}", absent) as task, open_session(shop.env) as session:
        return fetch_debs(session, shop.store, shop.env, debs[step.name], lambda count: shop.talk.advance(task, count))


def store_paths(shop: Workshop, files: Iterable[Artifact]) -> list[Path]:
    """Where the store keeps these files."""
    return [stored(shop.store, file) for file in files]
