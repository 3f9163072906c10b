"""Reproducing: a plan's image is built again beside the one that is there, and both are compared layer by layer."""

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gb10.containers.connection import Engine
from gb10.containers.images import (
    ImageInfo,
    find_image,
    image_settings,
    passing_tag,
    read_folders,
    refuse_triggers,
    require_image,
    tag_image,
)
from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, capture_while_active
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.build.assemble import image_request
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.inspect import no_image, read_by_stage
from gb10.image.build.kept_by_engine import one_by_one
from gb10.image.build.mod_layers import naming_mods, note_build, ready_emulation
from gb10.image.build.stage import run_build
from gb10.image.build.upstream import UpstreamLayers, forget_sent
from gb10.image.context import Context
from gb10.image.plan.render import part_dockerfile, scanned
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import PLAN
from gb10.image.request.plan_replay import LARGEST, Record, read_record

PROGRAM: Final = "diffoscope"
FIRST: Final = 4
"""Files that it compares."""
LARGEST_COMPARED: Final = 4 << 20
"""Bytes of a file that it compares."""
SECONDS: Final = 60
LINES: Final = 60
DIFFERENT: Final = 1
"""Its exit code when it found a difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Different:
    """A path that differs, the words for how, and the larger size of a file whose content does."""

    path: str
    differs: tuple[str, ...]
    size: int = 0


def described(host: Host, engine: Engine, images: tuple[ImageInfo, ImageInfo], files: Iterable[Different]) -> str:
    """The first lines of diffoscope's report on the first small files; nothing where it is not installed."""
    wanted = [f"/{one.path}" for one in files if "content" in one.differs and 0 < one.size <= LARGEST_COMPARED][:FIRST]
    if not wanted or shutil.which(PROGRAM, path=host.env.get("PATH")) is None:
        return ""
    with host.store.folder("diffoscope") as folder, host.reporter.task(PROGRAM):
        for name, image in zip(("before", "after"), images, strict=True):
            found, _ = read_folders(engine, host.store, image, wanted)
            for place, content in found.items():
                path = folder.joinpath(name, *PurePosixPath(place).parts[1:])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return _report(host, folder)


def _report(host: Host, folder: Path) -> str:
    """Raises nothing: a report is an extra; what stops it is said."""
    out = folder / "report"
    argv = [PROGRAM, "--no-progress", "--exclude-directory-metadata=yes", f"--timeout={SECONDS}", "--text", str(out)]
    try:
        capture_while_active([*argv, "before", "after"], patience=2 * SECONDS, cwd=folder, env=host.env)
    except CommandFailedError as error:
        if error.returncode != DIFFERENT:
            host.reporter.say(f"{PROGRAM} failed: {error.tail}")
            return ""
    return "\n".join(out.read_text(encoding="utf-8", errors="replace").splitlines()[:LINES]) if out.exists() else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A layer of both images by its diffIDs, None where an image has no such layer."""

    name: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        return self.before == self.after


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What was found. ``files`` are the first of ``count`` paths; ``settings`` names what differs beside the layers."""

    digest: str
    """Of the image that was built again, as the engine names it."""
    layers: tuple[Pair, ...]
    compared: bool = True
    """Whether there was an image to compare with."""
    settings: tuple[str, ...] = ()
    files: tuple[Different, ...] = ()
    count: int = 0
    report: str = ""
    """What diffoscope says of the first files, where it is installed."""

    @property
    def same(self) -> bool:
        """Whether both are one image."""
        return self.compared and not self.settings and all(pair.same for pair in self.layers)


@contextmanager
def built_again(build: ImageBuild, engine: Engine) -> Iterator[ImageInfo]:
    """The image of a build with a ``rebuild_id``, from its locked files: nothing is taken from BuildKit's cache.

    Compiled wheels come from the store, but for those of its ``rebuild``. It goes when the context ends.
    """
    ctx, plan, run = build.ctx, build.plan, build.rebuild_id
    ready_emulation(ctx, engine, plan)
    with ctx.store.locked("image", ctx.reporter.waiting_for("image")):
        try:
            with (
                build.prepared(engine) as context,
                naming_mods(plan),
                passing_tag(engine, f"{plan.recipe.repository}:again-{run}") as tag,
            ):
                with ctx.reporter.task("layers", unit="steps") as task:
                    request = image_request(plan, context, engine, tag)
                    modules = {"REBUILD": run} if plan.of_kind("rehearsal") else {}  # none from the compile cache
                    request = replace(request, rebuild_id=True, build_args={**request.build_args, **modules})
                    run_build(ctx, engine, request, plan.step("image"), partial(note_build, ctx.reporter, plan, task))
                yield require_image(engine, tag)
        finally:
            if one_by_one(ctx, engine) and not plan.base:
                UpstreamLayers(ctx, plan, engine, run).drop()
                forget_sent(engine, plan)


def reproduce(build: ImageBuild, engine: Engine, before: ImageInfo | None) -> Comparison:
    """Build a plan's image again, and compare it with one, or with the engine's image of that plan, if any."""
    known = before or find_image(engine, build.plan.tags[-1])
    with built_again(build, engine) as after:
        if known is None:
            return Comparison(digest=after.id, layers=_pairs(build.plan, (), after.diff_ids), compared=False)
        return compare(build.ctx, build.plan, engine, known, after)


def _pairs(plan: Plan, before: Sequence[str], after: Sequence[str]) -> tuple[Pair, ...]:
    """The layers of both, lowest first, by the name of the step that makes each. Pure."""
    below = ["base" for _ in plan.base.layers] if plan.base else []
    names = (*below, *scanned(plan), "record")
    return tuple(
        Pair(name=names[place] if place < len(names) else f"layer {place + 1}", before=old, after=new)
        for place, (old, new) in enumerate(zip_longest(before, after))
    )


def compare(ctx: Context, plan: Plan, engine: Engine, before: ImageInfo, after: ImageInfo) -> Comparison:
    """Compare two images of a plan; files are read only when a layer differs."""
    layers = _pairs(plan, before.diff_ids, after.diff_ids)
    settings = _other(image_settings(engine, before.id), image_settings(engine, after.id))
    found = Comparison(digest=after.id, layers=layers, settings=settings)
    if all(pair.same for pair in layers):
        return found
    files, count = different_files(ctx, plan, engine, before, after)
    return replace(found, files=files, count=count, report=described(ctx, engine, (before, after), files))


def _other(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of settings that differ. Pure."""
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def different_files(
    ctx: Context, plan: Plan, engine: Engine, before: ImageInfo, after: ImageInfo
) -> tuple[tuple[Different, ...], int]:
    """The paths that differ between two images, read in a build stage; nothing of the images runs."""
    for image in (before, after):
        refuse_triggers(engine, image)
    run = uuid.uuid4().hex[:12]
    names = [f"{plan.recipe.repository}:{word}-{run}" for word in ("before", "after")]
    with passing_tag(engine, names[0]), passing_tag(engine, names[1]):
        for image, name in zip((before, after), names, strict=True):
            tag_image(engine, image.id, (name,))
        found = json.loads(_read_files(ctx, plan, engine, names[0], names[1]))
    files = tuple(
        Different(path=one["path"], differs=tuple(one["differs"]), size=one["size"]) for one in found["files"]
    )
    return files, int(found["count"])


def _read_files(ctx: Context, plan: Plan, engine: Engine, before: str, after: str) -> str:
    files = {
        "Dockerfile": part_dockerfile(plan, "differ", ctx.catalog.templates, before=before, after=after).encode(),
        "differ.py": ctx.catalog.contents["inside/scan/differ.py"],
    }
    out = ctx.store.scratch("differ")
    try:
        with ctx.reporter.task("compare files"):
            read_by_stage(ctx, engine, plan, plan.step("image"), files, out=out)
        return (out / "files.json").read_text(encoding="utf-8")
    finally:
        shutil.rmtree(out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The record, and the image that holds it; None when a file does."""

    record: Record
    image: ImageInfo | None


def subject_of(store: Store, engine: Engine, target: str) -> Subject:
    """The subject that a command line names: a ``.json`` file or an image of the engine. Raises UsageError."""
    if target.endswith(".json"):
        text = read_plain_file(Path(target), LARGEST, "this file is to be the record of a plan")
        return Subject(record=read_record(text, target), image=None)
    image = find_image(engine, target)
    if image is None:
        raise no_image(engine, target)
    files, _ = read_folders(engine, store, image, (PLAN,))
    if PLAN not in files:
        raise UsageError(f"{target} holds no record of a plan", where=PLAN, hint="gb10 did not build it")
    return Subject(record=read_record(files[PLAN], f"{target}: {PLAN}"), image=image)
