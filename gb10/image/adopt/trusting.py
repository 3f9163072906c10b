"""``adopt --trust``: commands that rewrite files run once on the base, and what they changed is a patch to review."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Timer
from typing import Annotated, Final, Literal

from pydantic import StringConstraints, TypeAdapter

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.embedded.daemon import Place
from gb10.containers.embedded.privileges import most_processes
from gb10.containers.images import find_image
from gb10.core.concurrency import Stop
from gb10.core.fields import Model
from gb10.errors import (
    BuildError,
    EngineError,
    FetchError,
    PatchError,
    PublishError,
    UsageError,
    VerifyError,
)
from gb10.image.adopt.adopted import Adopted, Block, Line, ModDraft
from gb10.image.adopt.build_files import BuildFile
from gb10.image.adopt.recipe_files import one_line, write_files, write_recipe
from gb10.image.base.base_files import read_base_files
from gb10.image.build.base_build import on_image_context
from gb10.image.build.mod_layers import emulate
from gb10.image.build.stage import check_exported, note_steps, ready_engine, run_build
from gb10.image.context import Context, build_architecture
from gb10.image.lock.base_lock import lock_on_image
from gb10.image.lock.lockfile import load_any, lock_path, write_lock
from gb10.image.patches.on_base import GivenDiff, OnBase, Read, apply_on, place_diff
from gb10.image.patches.releases import Releases, load_releases
from gb10.image.patches.write import file_diff
from gb10.image.plan.base_plan import laid_over
from gb10.image.plan.render import build_args, environment, trial_dockerfile
from gb10.image.plan.values import Plan
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.on_image import OnImage
from gb10.image.request.from_image import given_diffs, on_base
from gb10.image.request.planning import Request, make_plan

RECORDER: Final = "inside/install/recorder.py"
ARCH: Final = "12.1f"
LIMITS: Final = {
    "seconds": 900,
    "processes": 1000,
    "memory": 8 << 30,
    "bytes": 2 << 30,
    "paths": 10_000,
    "file": 16 << 20,
    "kept": 256 << 20,
}
"""Of all blocks together (seconds, kept), at once (processes, memory in bytes), of one block (bytes on the disk, paths
that change), and of one file that is recorded."""
SETUP: Final = 900
"""Seconds that the other stages of the trial get."""
MOST: Final = 64 << 20
"""Bytes of the recorder's result, without contents."""
LOADING: Final = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "GLIBC_TUNABLES")
"""Variables that the recorder must not get, and the blocks must."""
SOME: Final = 4
FAILURES: Final = (BuildError, EngineError, FetchError, PatchError, PublishError, UsageError, VerifyError)
"""Why a trial may not take place; none of them says anything of the commands."""


class Entry(Model):
    """What lies at a path: ``none``, a ``large`` file whose content was not read, or an ``other`` (device, pipe)."""

    kind: Literal["none", "file", "large", "link", "folder", "other"]
    mode: int = 0
    owner: tuple[int, int] = (0, 0)
    target: str = ""
    size: int = 0
    sha256: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""
    attributes: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")] = ""
    """The sha256 of its extended attributes, where it has some."""


class Change(Model):
    """One path before and after a block; ``in_base``: whether the image of others has it."""

    path: str
    before: Entry
    after: Entry
    in_base: bool


class Row(Model):
    """How a block ended: its exit code, the bound that it broke, the end of its output, what it changed."""

    code: int
    why: str
    tail: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def failure(self) -> str:
        """Why its changes are not known; empty when it ran to its end."""
        if not self.why and not self.code:
            return ""
        last = next((line for line in reversed(self.tail) if line.strip()), "")
        return f"{self.why or f'it ended with {self.code}'}{f': {last}' if last else ''}"


ROWS: Final = TypeAdapter(tuple[Row, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What ran on which image. ``given``: the diffs that the recipe has already; ``read``: files of the image."""

    on: OnBase
    rows: tuple[Row, ...]
    contents: Mapping[str, bytes]
    given: tuple[GivenDiff, ...]
    read: Read


def with_trust(ctx: Context, found: Adopted) -> Adopted:
    """What was adopted, with the changes of its commands in place of them. They run, bounded and without a network.

    Commands up to the first one that needs a network are tried; the others stay a mod. A command that failed, broke a
    bound, or could not be tried, is not checked, and neither it nor what stands after it is in the recipe.
    """
    if not found.base or not found.mods:
        return found
    first = found.mods[0]
    if first.network:
        why = f"line {first.blocks[0].first} needs a network: it and the commands after it stay a mod, and did not run"
        return replace(found, remarks=(*found.remarks, why))
    try:
        trial = run_trial(ctx, found, first)
    except FAILURES as error:
        where = (error.where or "").splitlines()
        hint = f"the commands did not run: {error.hint.splitlines()[0]}" if error.hint else ""
        found = replace(found, remarks=(*found.remarks, *filter(None, [hint])))
        return _unchecked(found, first.blocks[0].first, ": ".join((error.message, *where[:1])))
    return recorded(found, trial, load_releases(ctx.catalog.patches))


def run_trial(ctx: Context, found: Adopted, draft: ModDraft) -> Trial:
    """Run the blocks of a mod on what the recipe lays over its base. Raises what FAILURES has."""
    with ctx.store.folder("adopt") as folder:
        recipe = folder / "adopted.yaml"
        made = write_recipe(recipe, replace(found, mods=()), draft.name)
        given = load_any(recipe)
        if not isinstance(given, OnImage):
            raise TypeError("an adopted recipe names an image")
        write_lock(lock_path(recipe), lock_on_image(ctx, given, recipe))
        plan = make_plan(ctx, Request(engine=str(recipe), arch=ARCH, overlay=made.overlay))
        base = plan.lock.base
        if base is None:
            raise TypeError("the lock of an adopted recipe holds an image")
        (folder / "out").mkdir()
        _build(ctx, plan, base, draft, folder / "out")
        check_exported(folder / "out", "result.json", "[0-9a-f]*")
        return Trial(
            on=on_base(base),
            rows=_rows(folder / "out/result.json"),
            contents={path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.suffix == ""},
            given=given_diffs(ctx, base, laid_over(plan.options)),
            read=partial(read_base_files, ctx, base),
        )


def _build(ctx: Context, plan: Plan, base: BaseImage, draft: ModDraft, out: Path) -> None:
    """The stage in which the blocks run; its result goes to ``out``. Raises BuildError, also past the deadline."""
    engine, stop = ready_engine(ctx), Stop()
    if engine.kind != "embedded" or most_processes(Place(ctx.store).cgroup) is None:
        ctx.reporter.say("no limit of the kernel holds how many processes these commands start: they are watched")
    emulate(ctx, engine, plan, "commands of the Dockerfile")
    with on_image_context(ctx, plan, base, engine) as context:
        image = find_image(engine, base.reference)
        own = dict(text.partition("=")[::2] for text in (image.environment if image else ()))
        own |= environment(plan)
        names = [f"{number}.sh" for number, _ in enumerate(draft.blocks)]
        head = "here=/run/gb10/trial\n"  # no more than this: a pipe may fail in it as it may in their shell
        scripts = (BuildFile("", f"{head}{block.text}\n".encode()) for block in draft.blocks)
        document = {
            "blocks": names,
            "environment": {name: value for name, value in own.items() if name in LOADING},
            "limits": LIMITS,
        }
        trial = {**draft.files, **dict(zip(names, scripts, strict=True))}
        write_files({**trial, "trial.json": BuildFile("", json.dumps(document).encode())}, context.folder / "trial")
        dockerfile = context.folder / "trial.Dockerfile"
        dockerfile.write_text(trial_dockerfile(plan, ctx.catalog.templates), encoding="utf-8")
        (context.folder / "recorder.py").write_bytes(ctx.catalog.contents[RECORDER])
        (context.folder / "empty").write_bytes(b"")
        request = BuildRequest(
            dockerfile=dockerfile,
            target="result",
            platform=f"linux/{build_architecture()}",
            context=context.folder,
            contexts=context.contexts,
            build_args=build_args(plan),
            fresh=("trial",),
            out=out,
        )
        timer = Timer(LIMITS["seconds"] + SETUP, stop.set)
        timer.daemon = True
        timer.start()
        try:
            with ctx.reporter.task(f"try {len(names)} {'block' if len(names) == 1 else 'blocks'} of commands") as task:
                step = replace(plan.step("image"), name="trial")
                run_build(replace(ctx, stop=stop), engine, request, step, partial(note_steps, ctx.reporter, task))
        except CancelledError as error:
            seconds = LIMITS["seconds"] + SETUP
            raise BuildError(f"the trial, gb10's own stages and the commands, did not end in {seconds} s") from error
        finally:
            timer.cancel()


def _rows(path: Path) -> tuple[Row, ...]:
    if path.stat().st_size > MOST:
        raise BuildError(f"the record of what changed has more than {MOST >> 20} MiB")
    return ROWS.validate_json(path.read_bytes())


def _unchecked(found: Adopted, first: int, why: str) -> Adopted:
    """Without the commands from a line on, none of which is checked."""
    lines = tuple(
        replace(
            line,
            verdict="unchecked",
            why=one_line(why if line.first <= first else f"line {first}: {why}"),
            need="trial",
        )
        if line.verdict == "mod" and line.first >= first
        else line
        for line in found.lines
    )
    return replace(found, mods=tuple(mod for mod in found.mods if mod.blocks[0].first < first), lines=lines)


@dataclass(frozen=True, slots=True)
class Moved:
    """A path that is not at the end as it was first; ``in_base``: whether the image of others has it."""

    before: Entry
    after: Entry
    in_base: bool

    @property
    def refused(self) -> str:
        """Why no recipe has the path as it is at the end; empty when one can."""
        before, after = self.before.kind, self.after.kind
        reasons = (
            (not is_plain(self.after.target), "leads to a name that no recipe can have"),
            (
                after == "large",
                f"has {self.after.size >> 20:,} MiB, and at most {LIMITS['file'] >> 20} MiB are recorded",
            ),
            (after == "other", "is a device, a pipe or a socket"),
            (
                self.after.attributes != (self.before.attributes if before == after else ""),
                "has other capabilities, access lists or attributes",
            ),
            (after == "file" and self.after.mode & 0o6000, "would run as its owner (setuid or setgid)"),
            (
                (before == "folder") != (after == "folder") and "none" not in (before, after),
                f"was a {before} and is a {after}",
            ),
        )
        return next((why for wrong, why in reasons if wrong), "")

    def rights(self, path: str, new: int) -> Iterator[str]:
        """Commands that give a path its mode and owner, where it has others in an image that has its content.

        ``new``: the mode of what is new there; a file that takes another's place keeps its mode and owner.
        """
        was, quoted = self.before, shlex.quote(path)
        kept = was.kind == self.after.kind or (was.kind, self.after.kind) == ("large", "file")
        mode = (was.mode if self.after.kind == "folder" else was.mode & ~0o6000) if kept else new
        if self.after.owner != (was.owner if was.kind != "none" else (0, 0)):
            yield f"chown -h {self.after.owner[0]}:{self.after.owner[1]} {quoted}"
        if self.after.mode != mode and self.after.kind != "link":
            yield f"chmod {self.after.mode:04o} {quoted}"


def is_plain(name: str) -> bool:
    """Whether a recipe and a shell can have a name: one that is no UTF-8 comes with U+FFFD in it."""
    return name.isprintable() and "\ufffd" not in name


def recorded(found: Adopted, trial: Trial, releases: Releases) -> Adopted:
    """What was adopted, with what the blocks of its first mod changed in place of them. Reads files of the base.

    Texts of packages are a patch for each block, other files are the overlay's; what neither expresses (a link, a file
    that is gone, a mode, an owner) is one mod of plain commands, which runs before all others.
    """
    draft, ran = found.mods[0], [row for row in trial.rows if not row.failure]
    moved, refused = _moved(ran), dict[str, str]()
    for path, one in sorted(moved.items()):
        above = next((str(up) for up in PurePosixPath(path).parents if str(up) in refused), "")
        why = one.refused if is_plain(path) else "has a name that no recipe can have"
        if why or above:
            refused[path] = why or f"lies below {above!a}, which is not taken"
    ways = {path: f"not taken: {path!a} {why}" for path, why in refused.items()}
    moved = {path: one for path, one in moved.items() if path not in refused}
    patches, patched = _patches(found, trial, releases, ran, moved)
    overlay, commands = dict(found.overlay), list[str]()
    for path, one in sorted(moved.items()):
        if one.after.kind == "file":
            executable = path not in patched and bool(one.after.mode & 0o111)
            if path not in patched:
                overlay[path] = BuildFile("", trial.contents[one.after.sha256], executable=executable)
            commands += one.rights(path, 0o755 if executable else 0o644)
            ways[path] = "patch" if path in patched else "overlay"
        else:
            overlay.pop(path, None)
            own = tuple(_commands(path, one, moved, found.overlay))
            commands += own
            ways[path] = "mod" if own else ""
    text = "\n".join(["# what their commands removed, linked, or gave another mode or owner", *commands])
    plain = (replace(draft, blocks=(Block(0, 0, text),), files={}),) if commands else ()
    made = replace(
        found,
        overlay=dict(sorted(overlay.items())),
        patches={**found.patches, **patches},
        mods=(*plain, *found.mods[1:]),
        lines=tuple(_judged(line, draft.blocks, ran, ways, patches) for line in found.lines),
        remarks=(*found.remarks, f"commands of theirs ran once, on {trial.on.reference}: read what they changed"),
    )
    if len(ran) == len(draft.blocks):
        return made
    return _unchecked(made, draft.blocks[len(ran)].first, trial.rows[len(ran)].failure)


def _moved(ran: Sequence[Row]) -> dict[str, Moved]:
    """Every path that is not at the end as it was first."""
    found = dict[str, Moved]()
    for change in (change for row in ran for change in row.changes):
        first = found[change.path].before if change.path in found else change.before
        found[change.path] = Moved(first, change.after, change.in_base)
    return {path: one for path, one in found.items() if one.before != one.after}


def _patches(
    found: Adopted, trial: Trial, releases: Releases, ran: Sequence[Row], moved: Mapping[str, Moved]
) -> tuple[dict[str, bytes], frozenset[str]]:
    """A patch for each block that changed texts of packages, and the paths in the image of all of them.

    Files are named as in their package where that is enough to find them, else by their whole path. There are no
    patches when those, applied as an image applies them, do not give exactly what was recorded.
    """
    folders = sorted({*trial.on.site_packages, *trial.on.folders.values()}, key=len, reverse=True)
    states = dict[str, list[Entry]]()
    for change in (change for row in ran for change in row.changes):
        states.setdefault(change.path, [change.before]).append(change.after)
    inside = {
        path: path.removeprefix(f"{folder}/")
        for path in moved
        if (folder := next((one for one in folders if path.startswith(f"{one}/")), None)) is not None
        and path not in found.overlay
        and states[path][0].kind in ("none", "file")
        and all(one.kind == "file" for one in states[path][1:])
        and not any(b"\0" in trial.contents[one.sha256] for one in states[path] if one.sha256)
    }
    for names in (inside, {path: path.removeprefix("/") for path in inside}):
        made = dict[str, bytes]()
        for block, row in zip(found.mods[0].blocks, ran, strict=False):
            text = b"".join(
                file_diff(names[one.path], trial.contents.get(one.before.sha256), trial.contents[one.after.sha256])
                for one in row.changes
                if one.path in names
            )
            if text:
                made[_patch_name(block, len(found.patches) + len(made) + 1)] = _header(found, block) + text
        try:
            diffs = [place_diff(text, name, trial.on, releases) for name, text in made.items()]
            result = apply_on((*trial.given, *diffs), trial.on, trial.read)
        except PatchError:
            continue
        if all(result.get(path) == trial.contents[moved[path].after.sha256] for path in names):
            return made, frozenset(names)
    return {}, frozenset()


def _patch_name(block: Block, number: int) -> str:
    return f"{number:04}-line-{block.first}.patch"


def _header(found: Adopted, block: Block) -> bytes:
    """What made a patch. Their lines are indented: none of them is a part of the diff."""
    texts = (line.text for line in found.lines if line.verdict == "mod" and block.first <= line.first <= block.last)
    lines = "".join(f"  {one_line(text)}\n" for text in texts)
    return f"Recorded by `adopt --trust`, line {block.first} of {found.mods[0].name}:\n\n{lines}\n".encode()


def _commands(path: str, one: Moved, moved: Mapping[str, Moved], copied: Mapping[str, BuildFile]) -> Iterator[str]:
    """Commands that remove a path, or make it a link or a folder."""
    quoted = shlex.quote(path)
    if any(str(above) in moved and moved[str(above)].after.kind != "folder" for above in PurePosixPath(path).parents):
        return  # it goes with the folder above it
    if one.after.kind == "none":
        ours = any(name == path or name.startswith(f"{path}/") for name in copied)
        if one.in_base or not ours:
            yield f"rm -rf {quoted}"
    elif one.after.kind == "link":
        if one.before.kind != "none":
            yield f"rm -rf {quoted}"
        yield f"mkdir -p {shlex.quote(str(PurePosixPath(path).parent))}"
        yield f"ln -s -- {shlex.quote(one.after.target)} {quoted}"
        yield from one.rights(path, 0)
    else:
        filled = any(name.startswith(f"{path}/") and other.after.kind == "file" for name, other in moved.items())
        if one.before.kind == "none" and not filled:
            yield f"mkdir -p {quoted}"
        yield from one.rights(path, 0o755)


def _judged(
    line: Line, blocks: Sequence[Block], ran: Sequence[Row], ways: Mapping[str, str], patches: Mapping[str, bytes]
) -> Line:
    """A line of a block that ran, with what became of all that the block changed; any other line as it is."""
    found = next((pair for pair in zip(blocks, ran, strict=False) if pair[0].first <= line.first <= pair[0].last), None)
    if line.verdict != "mod" or found is None:
        return line
    block, row = found
    own = [ways.get(change.path, "") for change in row.changes]
    name = next((name for name in patches if name.endswith(_patch_name(block, 0)[4:])), "")
    counts = {f"patch {name}": own.count("patch"), "overlay": own.count("overlay"), "mod": own.count("mod")}
    parts = [f"{what}: {count} {'path' if count == 1 else 'paths'}" for what, count in counts.items() if count]
    refused = [way for way in own if way.startswith("not taken")]
    if refused:
        more = [f"and {len(refused) - SOME} more"] if len(refused) > SOME else []
        return replace(line, verdict="not-taken", why="; ".join((*refused[:SOME], *more, *parts)))
    if parts:
        return replace(line, verdict="taken", why="; ".join(parts))
    gone = "what it changed is undone by a later line" if row.changes else "it changed nothing on this base"
    return replace(line, verdict="no-effect", why=gone)
