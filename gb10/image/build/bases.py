"""Bases: locked Debian packages, unpacked into one root file system each."""

import gzip
import os
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from lzma import LZMAError
from pathlib import Path

from gb10.core.fetch import open_session
from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.core.store import Store, is_sealed, seal
from gb10.errors import FetchError
from gb10.image.locked_files import absent_files
from gb10.image.plan.render import epoch
from gb10.image.plan.steps import USER_HOME, USER_ID, USER_NAME
from gb10.image.plan.values import Plan, Step
from gb10.rootfs.accounts import User
from gb10.rootfs.package import read_package
from gb10.rootfs.unpack import write_rootfs
from gb10.sources.debian.debs import fetch_debs

ROOTFS = "rootfs.tar"
MEMBER = 16 << 20
"""Bytes that one thread compresses at a time, as one member of the gzip file."""
FIELDS = ("Package", "Version", "Architecture")


def make_rootfs(host: Host, plan: Plan, step: Step, *, rebuild_id: bool = False) -> Path:
    """The base's root file system as a tar in the store. A damaged tar is made again, and each one ``rebuild_id``."""
    final = rootfs_path(host.store, step).parent
    with host.store.locked(f"rootfs-{step.key}", host.reporter.waiting_for(step.name)):
        if not rebuild_id and is_sealed(rootfs_path(host.store, step)):
            host.reporter.hit(step.name)
        else:
            if final.exists() and not rebuild_id:
                host.reporter.say(f"{step.name} is damaged in the store: making it again")
            host.store.replace(final, partial(_unpack, host.reporter, plan, step, _fetch_base(host, plan, step)))
    return rootfs_path(host.store, step)


def rootfs_path(store: Store, step: Step) -> Path:
    """Where the store keeps a base's root file system, present or not."""
    return store.entry("rootfss", step.key) / ROOTFS


def _unpack(reporter: Reporter, plan: Plan, step: Step, debs: Sequence[Path], work: Path) -> None:
    user = User(uid=USER_ID, name=USER_NAME, home=USER_HOME) if step.name == "base-image" else None
    with reporter.task(f"unpack {step.name}"):
        for deb in debs:
            require_control(deb)
        write_rootfs(debs, work / "plain.tar", epoch=epoch(plan), user=user)
        compress(work / "plain.tar", work / ROOTFS)
        seal(work / ROOTFS)


def compress(plain: Path, out: Path) -> None:
    """Move ``plain`` to ``out`` as gzip, which ADD reads in every release of BuildKit: a third of the size."""
    threads = os.cpu_count() or 1
    with plain.open("rb") as handle, out.open("xb") as compressed, ThreadPoolExecutor(threads) as pool:
        while parts := [part for _ in range(threads) if (part := handle.read(MEMBER))]:
            for member in pool.map(partial(gzip.compress, compresslevel=1, mtime=0), parts):
                compressed.write(member)
    plain.unlink()


def require_control(deb: Path) -> None:
    """Raise FetchError unless a package has a control file with the fields that dpkg's database needs."""
    try:
        fields = read_package(deb).fields
    except (KeyError, StopIteration, ValueError, EOFError, OSError, LZMAError, tarfile.TarError) as error:
        raise _unusable(deb, "its control file cannot be read") from error
    absent = [name for name in FIELDS if not fields.get(name)]
    if absent:
        raise _unusable(deb, f"its control file has no {', '.join(absent)}")


def _unusable(deb: Path, why: str) -> FetchError:
    return FetchError(
        f"{deb.name} is no valid Debian package: {why}",
        where=str(deb),
        hint="lock the package from Debian's own archive: ./build.py lock --upgrade base",
    )


def _fetch_base(host: Host, plan: Plan, step: Step) -> Sequence[Path]:
    debs = {
        "base-build": plan.lock.debs.build[plan.options.build],
        "base-image": plan.lock.debs.image[plan.options.target],
    }
    absent = sum(file.size for file in absent_files(host, step.files))
    with host.reporter.task(f"download {step.name}", absent) as task, open_session(host.env) as session:
        return fetch_debs(
            session, host.store, host.env, debs[step.name], lambda count: host.reporter.advance(task, count)
        )
