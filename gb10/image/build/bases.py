"""Bases: locked Debian packages, unpacked into one root file system each."""

import re
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from lzma import LZMAError
from pathlib import Path
from typing import Final

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.buildx.build_cache import forget, sent_contexts
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, find_image, require_image, tag_image, tags_of, untag
from gb10.core.fetch import store_paths
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.http_session import open_session
from gb10.core.reporter import Reporter
from gb10.core.store import Store, is_sealed, note_use, seal
from gb10.errors import FetchError
from gb10.image.base.layer_stream import zstd
from gb10.image.build.contexts import Content, Lay, build_context, wheels
from gb10.image.build.kept_by_engine import engine_folder, one_by_one
from gb10.image.build.stage import run_build
from gb10.image.context import Context
from gb10.image.locked_files import absent_files
from gb10.image.plan.render import build_args, epoch, part_dockerfile
from gb10.image.plan.steps import USER_HOME, USER_ID, USER_NAME
from gb10.image.plan.values import Plan, Step
from gb10.image.rootfs.configure import User
from gb10.image.rootfs.package import read_package
from gb10.image.rootfs.unpack import write_rootfs
from gb10.sources.debian.mirror import fetch_debs

ROOTFS = "rootfs.tar"
LEVEL = 1
"""Of zstd: a quarter of the CPU time of gzip's fastest, which makes more bytes."""
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
    """Move ``plain`` to ``out`` as zstd, a third of the size."""
    with plain.open("rb") as handle, zstd.open(out, "xb", level=LEVEL) as compressed:
        shutil.copyfileobj(handle, compressed, 1 << 20)
    plain.unlink()


def for_add(rootfs: Path) -> Lay:
    """A root file system as a context has it, uncompressed.

    BuildKit looks first whether a file is an archive, and leaves zstd's decoder at work on a buffer that is another's
    next (moby/buildkit#3801, moby/moby#45344, both open). On busy cores that ended Docker 26.1.5 twice in 320 ADDs of
    zstd, never in 200 of a plain tar, and one whole tar was refused as "magic number mismatch".
    """

    def lay(target: Path) -> None:
        with zstd.open(rootfs, "rb") as compressed, target.open("xb") as plain:
            shutil.copyfileobj(compressed, plain, 1 << 20)

    return lay


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


LAYERS = re.compile(r"gb10(\.invalid)?/.+:layers-[0-9a-f]{12}")
HOST = "gb10.invalid/"
"""No registry can have it: an image that somebody removes during a build is an error, and never another one's image."""


def layers_tag(name: str, keys: Iterable[str]) -> str:
    """The tag of an image of layers: the keys of what it holds."""
    return f"{HOST}{name}:layers-{digest(list(keys))[:12]}"


def noted_image(ctx: Context, engine: Engine, tag: str) -> ImageInfo | None:
    """The image of a tag, if it is the very image that was noted."""
    image, note = find_image(engine, tag), _note(ctx.store, engine_folder(engine), tag)
    with suppress(FileNotFoundError):  # there is none, or cache gc removes it just now
        if image and note.read_text(encoding="utf-8") == "\n".join(image.diff_ids):
            note_use(note)
            return image
    return None


def note_image(ctx: Context, engine: Engine, tag: str, image: ImageInfo) -> None:
    """Note the layers of an image and give it the tag."""
    ctx.store.write_text(_note(ctx.store, engine_folder(engine), tag), "\n".join(image.diff_ids))
    tag_image(engine, image.id, (tag,))


def made_image(ctx: Context, engine: Engine, request: BuildRequest, step: Step) -> ImageInfo:
    """Build an image without a tag; the log is the step's. Raises BuildError, EngineError."""
    result = run_build(ctx, engine, request, step, lambda event: None)
    return require_image(engine, result.config or "")


def drop_unknown(store: Store, engine: Engine) -> None:
    """Remove the images of layers that nothing would use: without a note, or tagged as releases before did.

    Raises EngineError.
    """
    with store.tried("image") as free:
        if free:
            section = engine_folder(engine)
            layers = [tag for tag in tags_of(engine) if LAYERS.fullmatch(tag)]
            known = [tag for tag in layers if tag.startswith(HOST) and _note(store, section, tag).exists()]
            untag(engine, sorted({*layers} - {*known}))


def _note(store: Store, section: str, tag: str) -> Path:
    return store.entry(section, tag.rpartition(":")[2])


STAGES: Final = {"base-build": "base-build", "base-image": "base"}
"""The stage of our Dockerfiles that each base fills."""


@dataclass(frozen=True, slots=True)
class Bases:
    """The bases of a plan for an engine: files of a main context, or images of the engine as named contexts.

    ``rebuild_id`` names a run that makes them again, beside those that are there.
    """

    ctx: Context
    plan: Plan
    engine: Engine
    rebuild_id: str = ""

    def provide(self, names: Iterable[str]) -> tuple[dict[str, Lay], dict[str, str]]:
        """What fills the stages of bases: files, or images. Raises FetchError, BuildError, EngineError.

        An engine whose images BuildKit would have to copy gets files.
        """
        images = self.images(names)
        return {} if images else self.tars(names), images

    def images(self, names: Iterable[str]) -> dict[str, str]:
        """The images of bases as named contexts; none for an engine whose images BuildKit would have to copy."""
        if not one_by_one(self.ctx, self.engine):
            return {}
        return {STAGES[name]: f"docker-image://{self.image(name)}" for name in names}

    def tars(self, names: Iterable[str]) -> dict[str, Lay]:
        """The root file systems of bases, made when they are missing, as files of a main context."""
        return {f"{name}.tar": for_add(make_rootfs(self.ctx, self.plan, self.plan.step(name))) for name in names}

    def image(self, name: str) -> str:
        """The tag of the image of a base, built when it is missing. Raises FetchError, BuildError, EngineError."""
        ctx, engine, again = self.ctx, self.engine, bool(self.rebuild_id)
        step, tag = self.plan.step(name), base_tag(self.plan, name, self.rebuild_id)
        with ctx.store.locked(f"base-{tag.rpartition('-')[2]}", ctx.reporter.waiting_for(name)):
            existing = find_image(engine, tag) if again else noted_image(ctx, engine, tag)
            if existing is None:
                make_rootfs(ctx, self.plan, step, rebuild_id=again)
                with ctx.reporter.task(f"{name} into the engine"):
                    image = self._built(step)
                if again:  # it goes when that run ends, so no note keeps it
                    tag_image(engine, image.id, (tag,))
                else:
                    note_image(ctx, engine, tag, image)
        return tag

    def ready_tools(self) -> None:
        """Have the stage ``tools`` in BuildKit's cache, for an engine that makes the layers one by one.

        Where a compiler's solve makes it, and still runs, BuildKit finds no later result above it: each of upstream's
        layers was installed a second time to be scanned. The step's wheels must be in the store. Raises FetchError,
        BuildError, EngineError.
        """
        ctx, plan, step = self.ctx, self.plan, self.plan.step("tools")
        if self.rebuild_id or not one_by_one(ctx, self.engine):
            return
        images = self.images(["base-build"])
        files = {
            "Dockerfile": part_dockerfile(plan, "tools", ctx.catalog.templates).encode(),
            "install.py": ctx.catalog.contents["inside/install/install.py"],
        }
        with (
            ctx.store.locked(f"tools-{step.key}", ctx.reporter.waiting_for(step.name)),
            build_context(ctx.store, files, {"tools-wheels": wheels(store_paths(ctx.store, step.files))}) as context,
        ):
            request = BuildRequest(
                dockerfile=context.folder / "Dockerfile",
                target="tools",
                platform=f"linux/{plan.options.build}",
                context=context.folder,
                contexts={**context.contexts, **images},
                build_args=build_args(plan),
            )
            run_build(ctx, self.engine, request, step, lambda event: None)

    def _built(self, step: Step) -> ImageInfo:
        platform = _platform(self.plan, step.name)
        text = part_dockerfile(self.plan, "base", self.ctx.catalog.templates, base=step.name, platform=platform)
        files: dict[str, Content] = {
            "Dockerfile": text.encode(),
            f"{step.name}.tar": for_add(rootfs_path(self.ctx.store, step)),
        }
        with build_context(self.ctx.store, files, {}) as context:
            request = BuildRequest(
                dockerfile=context.folder / "Dockerfile",
                target="base",
                platform=platform,
                context=context.folder,
                build_args=build_args(self.plan),
                output="type=image",
                rebuild_id=bool(self.rebuild_id),
            )
            image = made_image(self.ctx, self.engine, request, step)
        if self.engine.kind == "embedded":  # in your Docker it may be yours
            done = sent_contexts(["context"])
            forget(self.engine, lambda about: about in done)
        return image


def base_tars(store: Store, plan: Plan) -> dict[str, Lay]:
    """The root file systems of both bases, which the store has, as files of a main context."""
    return {f"{name}.tar": for_add(rootfs_path(store, plan.step(name))) for name in STAGES}


def base_tag(plan: Plan, name: str, rebuild_id: str = "") -> str:
    """The tag of a base's image: its key, and the machine it is for."""
    return layers_tag("base", [plan.step(name).key, _platform(plan, name), *([rebuild_id] if rebuild_id else [])])


def _platform(plan: Plan, name: str) -> str:
    return plan.options.platform if name == "base-image" else f"linux/{plan.options.build}"
