"""Wheels: each compiled in a BuildKit stage and proven, or a locked one with patches; kept in the store by key."""

import json
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.core.concurrency import together
from gb10.core.host import Host
from gb10.core.installation import is_installed
from gb10.core.reporter import Reporter
from gb10.core.store import Store, file_sha256, is_sealed, seal
from gb10.errors import BuildError, UsageError
from gb10.image.build.compile import LEFT_OUT, compile_step, compilers, fetch_nested, patched_source
from gb10.image.build.costs import has_launcher
from gb10.image.build.input_checks import check_targets
from gb10.image.build.stage import check_exported
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files, store_paths
from gb10.image.plan.compiles import compile_files
from gb10.image.plan.options import PatchUse
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, Step, wheel_inputs
from gb10.image.proof.scans import prove_wheel
from gb10.image.proof.wheel_files import read_manifest
from gb10.patches.graft import check_changes, graft
from gb10.patches.patched import patched_files


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A proven wheel in the store."""

    name: str
    key: str
    path: Path
    sha256: str
    hit: bool


def kept_wheel(host: Host, step: Step, make: Callable[[Path], None], *, rebuild: bool = False) -> Wheel:
    """The wheel of a step from the store, else made now; ``make`` fills and seals a fresh entry. One run at a time."""
    with wheel_lock(host, step):
        found = None if rebuild else found_wheel(host, step)
        return found or made_wheel(host.store, step, make)


def wheel_lock(host: Host, step: Step) -> AbstractContextManager[None]:
    """What a run holds while it makes the wheel of a step."""
    return host.store.locked(f"wheel-{step.key}", host.reporter.waiting_for(step.name))


def found_wheel(host: Host, step: Step) -> Wheel | None:
    """The store's wheel of a step if it is whole. A damaged one is reported; its lock must be held."""
    path = sealed_wheel(host.store, step.key)
    if path is None:
        if host.store.entry("wheels", step.key).exists():
            host.reporter.say(f"{step.name} is damaged in the store: making it again")
        return None
    host.reporter.hit(step.name)
    return _wheel(step, path, hit=True)


def made_wheel(store: Store, step: Step, make: Callable[[Path], None]) -> Wheel:
    """The wheel of a step, made now: ``make`` fills and seals a fresh entry. Its lock must be held."""
    entry = store.entry("wheels", step.key)
    store.replace(entry, make)
    return _wheel(step, wheel_file(entry), hit=False)


def _wheel(step: Step, path: Path, *, hit: bool) -> Wheel:
    return Wheel(name=step.name, key=step.key, path=path, sha256=file_sha256(path), hit=hit)


def sealed_wheel(store: Store, key: str) -> Path | None:
    """The store's wheel of a key, if it exists and is whole."""
    found = sorted(store.entry("wheels", key).glob("*.whl"))
    return found[0] if len(found) == 1 and is_sealed(found[0]) else None


def wheel_file(entry: Path) -> Path:
    """The one wheel of a fresh entry; raises BuildError when the compile stage wrote none or several."""
    found = sorted(entry.glob("*.whl"))
    if len(found) != 1:
        raise BuildError(f"the compile stage wrote {len(found)} wheels, not one", where=str(entry))
    return found[0]


EXPORTED = ("*.whl", "manifest.json", "measured.json")
OURS = "kernels"  # as --rebuild names the wheels of our own kernels


def build_wheels(
    ctx: Context, plan: Plan, engine: Callable[[], Engine], *, rebuild: Collection[str]
) -> tuple[Wheel, ...]:
    """Every wheel of a plan: from the store, or compiled now. Raises BuildError, VerifyError.

    The engine is started only when something must be compiled. The locks of what is missing are taken before that, in
    one order for all runs, so that none waits for another in a circle.
    """
    found = dict[str, Wheel]()
    with ExitStack() as locks:
        for step in sorted(plan.of_kind("wheel"), key=lambda one: one.key):
            with ExitStack() as lock:
                lock.enter_context(wheel_lock(ctx, step))
                wheel = None if step.name in rebuild else found_wheel(ctx, step)
                if wheel:
                    found[step.name] = wheel
                    say_left_out(ctx.reporter, wheel.path)  # a compile says it
                else:
                    locks.push(lock.pop_all())
        absent = [step for step in plan.of_kind("wheel") if step.name not in found]
        made = _compile_all(ctx, plan, engine, absent, rebuild) if absent else ()
    built = found | {wheel.name: wheel for wheel in made}
    return tuple(built[step.name] for step in plan.of_kind("wheel"))


def _compile_all(
    ctx: Context, plan: Plan, engine: Callable[[], Engine], steps: Sequence[Step], rebuild: Collection[str]
) -> tuple[Wheel, ...]:
    """Compile at the same time: the stages share cores and memory by inside/room.py, and the first failure stops all.

    A stage whose compilers nothing holds back would take what others were promised: then one runs after the other.
    """
    compiler = partial(_compile, ctx, engine(), plan)

    def work(step: Step) -> Wheel:
        return made_wheel(ctx.store, step, partial(compiler, step, rebuild=step.name in rebuild))

    if all(has_launcher(plan, step) for step in steps):
        return together(ctx.stop, [partial(work, step) for step in steps])
    return tuple(work(step) for step in steps)


def say_left_out(reporter: Reporter, wheel: Path) -> None:
    """Print the requested units that a wheel does not hold, from the log of its compile stage."""
    for name, why in read_manifest(wheel).left_out.items():
        reporter.say(f"{LEFT_OUT}{name}: {why}")


def installable(plan: Plan, built: Iterable[Wheel]) -> tuple[Wheel, ...]:
    """The wheels that are installed unchanged. Libraries of an engine's own project go into upstream's wheel."""
    return tuple(wheel for wheel in built if plan.recipe.wheels[wheel.name].method != "source")


def _compile(ctx: Context, engine: Engine, plan: Plan, step: Step, work: Path, *, rebuild: bool) -> None:
    build_args = {"REBUILD": uuid.uuid4().hex} if rebuild else {}
    compile_step(
        ctx,
        engine,
        plan,
        step,
        work,
        target="wheel",
        inputs=wheel_inputs(plan, step.name),
        files=_files(ctx, plan, step),
        build_args=build_args,
    )
    _seal(work)


def check_sources(ctx: Context, plan: Plan) -> None:
    """Check the names of CMake targets, take sources from git, and apply the patches, before anything is compiled.

    Raises UsageError, FetchError, PatchError.
    """
    absent = [step for step in plan.of_kind("wheel") if not ctx.store.entry("wheels", step.key).exists()]
    for step in absent:
        check_targets(ctx, plan, step)
    for step in absent:
        fetch_nested(ctx, wheel_inputs(plan, step.name))
    for step in absent:
        patched = [origin for origin in wheel_inputs(plan, step.name).origins if origin.patches]
        if patched:
            fetch_files(ctx, (step,))
            for origin in patched:
                patched_source(ctx, origin)


def try_sources(ctx: Context, plan: Plan) -> None:
    """Try patches from the command line on the source archives in the store. Raises PatchError."""
    tried = set()
    for step in plan.of_kind("wheel"):
        for origin in wheel_inputs(plan, step.name).origins:
            by_hand = tuple(use.sha256 for use in origin.patches if use.path)
            if not by_hand or (origin.file, by_hand) in tried:
                continue
            tried.add((origin.file, by_hand))
            (archive,) = store_paths(ctx.store, [origin.file])
            if archive.exists():
                patched_source(ctx, origin)
            else:
                ctx.reporter.say(
                    f"not checked yet: patches of what {step.name} compiles (no {archive.name} in the store)"
                )


def _files(ctx: Context, plan: Plan, step: Step) -> dict[str, bytes]:
    own, build = ctx.catalog.contents, plan.recipe.wheels[step.name]
    how = compilers(ctx, plan, step, wheel_inputs(plan, step.name))
    text = wheel_dockerfile(plan, step, ctx.catalog.templates, **how)
    return {
        "Dockerfile": text.encode(),
        **({"kernels.json": json.dumps(step.kernels).encode()} if step.kernels else {}),
        **{name: own[name] for name in ctx.catalog.toolkit.of(*compile_files(build))},
    }


def _seal(work: Path) -> None:
    """Prove that every module holds the GPU code it declares, and record the wheel's hash."""
    check_exported(work, *EXPORTED)
    wheel = wheel_file(work)
    prove_wheel(wheel)
    seal(wheel)


def selected(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """The wheel steps that ``--rebuild NAME`` names, by wheel, by source, or as our own kernels.

    Raises UsageError for a name that stands for none.
    """
    builds = {step.name: plan.recipe.wheels[step.name] for step in plan.of_kind("wheel")}
    known = {wheel: {wheel, OURS if build.method == "extension" else build.source} for wheel, build in builds.items()}
    for name in names:
        if not any(name in own for own in known.values()):
            listed = ", ".join(sorted(set().union(*known.values())))
            raise UsageError(
                f"--rebuild {name}: the recipe builds no wheel from {name}",
                hint=f"valid: {listed or 'none'}{_idle(plan, name)}",
            )
    return frozenset(wheel for wheel, own in known.items() if own & {*names})


def _idle(plan: Plan, name: str) -> str:
    """The hint for a source that is compiled only with ``--targets``."""
    idle = [wheel for one, wheel in plan.recipe.wheels.items() if one not in plan.recipe.built]
    return f"; {name}, too, when --targets names some" if name in {wheel.source for wheel in idle} else ""


def show_in_checkout(ctx: Context, wheel: Wheel) -> None:
    """Link the wheel into the checkout's ``wheels/``; a message if it is read-only. An installed gb10 gets no link."""
    if is_installed(ctx.catalog.root):
        return
    view = ctx.catalog.root / "wheels"
    link = view / wheel.path.name
    try:
        view.mkdir(exist_ok=True)
        aside = view / f".{wheel.key}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(wheel.path)
        aside.replace(link)
    except OSError as error:
        ctx.reporter.say(f"not linked into {view}: {error.strerror}")


COMPILED = "compiled"
"""In a graft's entry: what was compiled for it, by sha256."""


def early_grafts(ctx: Context, plan: Plan, *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafts without compiled libraries, from the store or made now. The patches of the others are only tried.

    So a patch that does not fit stops before anything is compiled. Raises PatchError, FetchError.
    """
    steps = [step for step in plan.of_kind("graft") if not _compiles(plan, step)]
    made = make_grafts(ctx, plan, steps, rebuild_id=rebuild_id)
    for step in plan.of_kind("graft"):
        if _compiles(plan, step) and not ctx.store.entry("wheels", step.key).exists():
            fetch_files(ctx, (step,))
            _hold(ctx, plan, step, ctx.reporter.detail)
    return made


def late_grafts(ctx: Context, plan: Plan, *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafts with compiled libraries, from the store or made now. The libraries must be in the store."""
    return make_grafts(
        ctx, plan, [step for step in plan.of_kind("graft") if _compiles(plan, step)], rebuild_id=rebuild_id
    )


def make_grafts(ctx: Context, plan: Plan, steps: Iterable[Step], *, rebuild_id: bool = False) -> tuple[Wheel, ...]:
    """The grafted wheels of these steps. One with other libraries than the store's is made again."""
    return tuple(
        kept_wheel(ctx, step, partial(_graft, ctx, plan, step), rebuild=rebuild_id or not _holds(ctx.store, plan, step))
        for step in steps
    )


def _hold(ctx: Context, plan: Plan, step: Step, tell: Callable[[str], None]) -> None:
    (wheel,) = store_paths(ctx.store, step.files)
    if uses := _uses(plan, step):
        check_changes(wheel, patched_files(ctx.catalog.patches, wheel, uses, tell))


def try_patches(ctx: Context, plan: Plan) -> None:
    """Try patches from the command line on the wheels in the store. Raises PatchError."""
    for step in plan.of_kind("graft"):
        (wheel,) = store_paths(ctx.store, step.files)
        if not any(use.path for use in _uses(plan, step)):
            continue
        if wheel.exists():
            _hold(ctx, plan, step, ctx.reporter.say)
        else:
            ctx.reporter.say(f"not checked yet: the patches of {step.project} (its wheel is not in the store)")


def _uses(plan: Plan, step: Step) -> list[PatchUse]:
    return [use for use in plan.options.patches_of(step.project or "") if use.installable]


def graft_files(store: Store, step: Step) -> dict[str, Path | bytes]:
    """What a graft changed, by name, read from the wheel itself: its METADATA, and each file that upstream's lacks."""
    (upstream,) = store_paths(store, step.files)
    with (
        zipfile.ZipFile(upstream) as before,
        zipfile.ZipFile(wheel_file(store.entry("wheels", step.key))) as after,
    ):
        same = {(entry.filename, entry.CRC, entry.file_size) for entry in before.infolist()}
        changed = [
            entry.filename for entry in after.infolist() if (entry.filename, entry.CRC, entry.file_size) not in same
        ]
        return {name: after.read(name) for name in changed if ".dist-info/" not in name or name.endswith("/METADATA")}


def _graft(ctx: Context, plan: Plan, step: Step, work: Path) -> None:
    fetch_files(ctx, (step,))
    (wheel,) = store_paths(ctx.store, step.files)
    with ctx.reporter.task(step.name):
        uses = _uses(plan, step)
        changes = patched_files(ctx.catalog.patches, wheel, uses, ctx.reporter.say) if uses else {}
        seal(graft(wheel, {**changes, **_libraries(ctx.store, plan, step)}, step.key, work))
        (work / COMPILED).write_text(_compiled(ctx.store, plan, step), encoding="ascii")


def _libraries(store: Store, plan: Plan, step: Step) -> dict[str, bytes]:
    """What the targets of the engine's own project installed, by its name in the wheel."""
    found: dict[str, bytes] = {}
    for path in _sources(store, plan, step):
        with zipfile.ZipFile(path) as archive:
            found |= {name: archive.read(name) for name in read_manifest(path).modules}
    return found


def _compiles(plan: Plan, step: Step) -> list[Step]:
    """The steps that compile a graft's libraries."""
    return [need for need in map(plan.step, step.needs) if need.kind == "wheel"]


def _sources(store: Store, plan: Plan, step: Step) -> list[Path]:
    """The compiled wheels that a graft takes libraries from."""
    return [wheel_file(store.entry("wheels", need.key)) for need in _compiles(plan, step)]


def _compiled(store: Store, plan: Plan, step: Step) -> str:
    """The sha256 of each file that was compiled for a graft, one per line."""
    return "".join(f"{file_sha256(path)}\n" for path in _sources(store, plan, step))


def _holds(store: Store, plan: Plan, step: Step) -> bool:
    """Whether the graft in the store holds the store's current libraries; a rebuild may change them."""
    note = store.entry("wheels", step.key) / COMPILED
    return not note.exists() or note.read_text(encoding="ascii") == _compiled(store, plan, step)
