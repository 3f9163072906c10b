"""Wheels: each compiled in a BuildKit stage and proven, or a locked one with patches; kept in the store by key."""

import json
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.core.concurrency import run_all
from gb10.core.fetch import store_paths
from gb10.core.host import Host
from gb10.core.installation import is_installed
from gb10.core.machine import MACHINES, glibc
from gb10.core.reporter import Reporter
from gb10.core.store import Store, file_sha256, is_sealed, seal
from gb10.errors import BuildError
from gb10.image.build.compile import LEFT_OUT, CompileJob, compilers
from gb10.image.build.costs import has_launcher
from gb10.image.build.input_checks import check_patches, installable_patches
from gb10.image.build.library_tags import read_mark, tags_with
from gb10.image.build.stage import check_exported
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.patches.graft import graft
from gb10.image.patches.patched import patched_files
from gb10.image.plan.compiles import compile_files, stage_files
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, Step, wheel_inputs
from gb10.image.proof.scans import prove_wheel
from gb10.image.proof.wheel_files import read_manifest
from gb10.image.request.unit_reads import READS, keep_reads


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A proven wheel in the store."""

    name: str
    key: str
    path: Path
    sha256: str
    hit: bool

    @classmethod
    def of(cls, step: Step, path: Path, *, hit: bool) -> "Wheel":
        return cls(name=step.name, key=step.key, path=path, sha256=file_sha256(path), hit=hit)


@dataclass(frozen=True, slots=True)
class HeldWheels:
    """The wheels of some steps while the locks of those that are missing are held: only now may they be made."""

    cache: "WheelCache"
    found: Mapping[str, Wheel]
    """By step name."""

    def build(self, step: Step, make: Callable[[Path], None]) -> Wheel:
        """Make the wheel of a step; ``make`` fills and seals a fresh entry."""
        entry = self.cache.host.store.entry("wheels", step.key)
        self.cache.host.store.replace(entry, make)
        return Wheel.of(step, wheel_file(entry), hit=False)


@dataclass(frozen=True, slots=True)
class WheelCache:
    """The wheels in the store, by key. One run makes a wheel at a time; another one waits and then uses it."""

    host: Host

    def get(self, key: str) -> Path | None:
        """The wheel of a key, if it exists and is whole."""
        found = sorted(self.host.store.entry("wheels", key).glob("*.whl"))
        return found[0] if len(found) == 1 and is_sealed(found[0]) else None

    def get_or_build(self, step: Step, make: Callable[[Path], None], *, rebuild: bool = False) -> Wheel:
        """The wheel of a step, made now if it is missing, damaged, or to be made again."""
        with self.lock_all([step], [step.name] if rebuild else []) as held:
            return held.found.get(step.name) or held.build(step, make)

    @contextmanager
    def lock_all(self, steps: Iterable[Step], rebuild: Collection[str] = ()) -> Iterator[HeldWheels]:
        """Find the wheels of these steps, and hold the locks of the others and of ``rebuild``.

        All runs take the locks in the same order, so that none waits for another in a circle.
        """
        found = dict[str, Wheel]()
        with ExitStack() as locks:
            for step in sorted(steps, key=lambda one: one.key):
                with ExitStack() as lock:
                    lock.enter_context(
                        self.host.store.locked(f"wheel-{step.key}", self.host.reporter.waiting_for(step.name))
                    )
                    wheel = None if step.name in rebuild else self._whole(step)
                    if wheel:
                        found[step.name] = wheel
                    else:
                        locks.push(lock.pop_all())
            yield HeldWheels(self, found)

    def _whole(self, step: Step) -> Wheel | None:
        """The wheel of a step if it is whole; a damaged one is reported."""
        path = self.get(step.key)
        if path is None:
            if self.host.store.entry("wheels", step.key).exists():
                self.host.reporter.say(f"{step.name} is damaged in the store: making it again")
            return None
        self.host.reporter.hit(step.name)
        return Wheel.of(step, path, hit=True)


def wheel_file(entry: Path) -> Path:
    """The one wheel of a fresh entry; raises BuildError when the compile stage wrote none or several."""
    found = sorted(entry.glob("*.whl"))
    if len(found) != 1:
        raise BuildError(f"the compile stage wrote {len(found)} wheels, not one", where=str(entry))
    return found[0]


EXPORTED = ("*.whl", "manifest.json", "measured.json", READS)


def build_wheels(
    ctx: Context, plan: Plan, engine: Callable[[], Engine], *, rebuild: Collection[str]
) -> tuple[Wheel, ...]:
    """Every wheel of a plan: from the store, or compiled now. Raises BuildError, VerifyError.

    The engine is started only when something must be compiled, and after the locks of that are taken. Stages compile
    at the same time: they share cores and memory by compile_slots.py, and the first failure stops all. A stage whose
    compilers nothing holds back would take what others were promised: then one runs after the other.
    """
    with WheelCache(ctx).lock_all(plan.of_kind("wheel"), rebuild) as held:
        built = dict(held.found)
        for wheel in held.found.values():
            say_left_out(ctx.reporter, wheel.path)  # a compile says it
        absent = [step for step in plan.of_kind("wheel") if step.name not in built]
        if absent:
            compiler = partial(_compile, ctx, engine(), plan)

            def work(step: Step) -> Wheel:
                return held.build(step, partial(compiler, step, rebuild=step.name in rebuild))

            if all(has_launcher(plan, step) for step in absent):
                made = run_all(ctx.stop, [partial(work, step) for step in absent])
            else:
                made = tuple(work(step) for step in absent)
            built |= {wheel.name: wheel for wheel in made}
    return tuple(built[step.name] for step in plan.of_kind("wheel"))


def _compile(ctx: Context, engine: Engine, plan: Plan, step: Step, work: Path, *, rebuild: bool) -> None:
    """Compile a wheel into ``work``, prove that every module holds the GPU code it declares, and record its hash."""
    own, inputs = ctx.catalog.contents, wheel_inputs(plan, step.name)
    text = wheel_dockerfile(plan, step, ctx.catalog.templates, **compilers(ctx, plan, step, inputs))
    scripts = ctx.catalog.toolkit.digests_of(*compile_files(plan.recipe, plan.recipe.wheels[step.name]))
    job = CompileJob(
        plan=plan,
        step=step,
        target="wheel",
        inputs=inputs,
        files={
            "Dockerfile": text.encode(),
            **({"kernels.json": json.dumps(step.kernels).encode()} if step.kernels else {}),
            **stage_files(scripts, own),
        },
        build_args={"REBUILD": uuid.uuid4().hex} if rebuild else {},
    )
    job.run(ctx, engine, work)
    check_exported(work, *EXPORTED)
    keep_reads(work, plan, step)
    wheel = wheel_file(work)
    prove_wheel(wheel)
    seal(wheel)


def say_left_out(reporter: Reporter, wheel: Path) -> None:
    """Print the requested units that a wheel does not hold, from the log of its compile stage."""
    for name, why in read_manifest(wheel).left_out.items():
        reporter.say(f"{LEFT_OUT}{name}: {why}")


def installable(plan: Plan, built: Iterable[Wheel]) -> tuple[Wheel, ...]:
    """The wheels that are installed unchanged. Libraries, of an engine's own project or not, go into a locked wheel."""
    return tuple(wheel for wheel in built if plan.recipe.wheels[wheel.name].method not in ("source", "library"))


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


def early_grafts(ctx: Context, plan: Plan, *, again: bool = False) -> tuple[Wheel, ...]:
    """The grafts without compiled libraries, from the store or made now. The patches of the others are only tried.

    So a patch that does not fit stops before anything is compiled. Raises PatchError, FetchError.
    """
    steps = [step for step in plan.of_kind("graft") if not _compiles(plan, step)]
    made = make_grafts(ctx, plan, steps, again=again)
    for step in plan.of_kind("graft"):
        if _compiles(plan, step) and not ctx.store.entry("wheels", step.key).exists():
            fetch_files(ctx, (step,))
            check_patches(ctx, plan, step, ctx.reporter.detail)
    return made


def late_grafts(ctx: Context, plan: Plan, *, again: bool = False) -> tuple[Wheel, ...]:
    """The grafts with compiled libraries, from the store or made now. The libraries must be in the store."""
    return make_grafts(ctx, plan, [step for step in plan.of_kind("graft") if _compiles(plan, step)], again=again)


def make_grafts(ctx: Context, plan: Plan, steps: Iterable[Step], *, again: bool = False) -> tuple[Wheel, ...]:
    """The grafted wheels of these steps. One with other libraries than the store's is made again."""
    cache = WheelCache(ctx)
    return tuple(
        cache.get_or_build(step, partial(_graft, ctx, plan, step), rebuild=again or not _holds(ctx.store, plan, step))
        for step in steps
    )


def graft_files(store: Store, step: Step) -> dict[str, Path | bytes]:
    """What a graft changed, by name, read from the wheel itself: its METADATA, and each file that upstream's lacks.

    WHEEL, when its tags changed, is under the name that it has in the layer below.
    """
    (upstream,) = store_paths(store, step.files)
    with (
        zipfile.ZipFile(upstream) as before,
        zipfile.ZipFile(wheel_file(store.entry("wheels", step.key))) as after,
    ):
        same = {(entry.filename, entry.CRC, entry.file_size) for entry in before.infolist()}
        changed = [
            entry.filename for entry in after.infolist() if (entry.filename, entry.CRC, entry.file_size) not in same
        ]
        found: dict[str, Path | bytes] = {
            name: after.read(name) for name in changed if ".dist-info/" not in name or name.endswith("/METADATA")
        }
        (mark, had), (_, has) = read_mark(before), read_mark(after)
        if has != had:
            found[mark] = has
        return found


def _graft(ctx: Context, plan: Plan, step: Step, work: Path) -> None:
    fetch_files(ctx, (step,))
    (wheel,) = store_paths(ctx.store, step.files)
    with ctx.reporter.task(step.name):
        uses = installable_patches(plan, step)
        changes = patched_files(ctx.catalog.patches, wheel, uses, ctx.reporter.say) if uses else {}
        libraries = dict[str, bytes]()
        for path in _sources(ctx.store, plan, step):  # what the targets of the engine's own project installed
            with zipfile.ZipFile(path) as archive:
                libraries |= {name: archive.read(name) for name in read_manifest(path).modules}
        tags = tags_with(wheel, libraries, MACHINES[plan.options.target], glibc(plan.recipe.base.suite))
        made = graft(wheel, {**changes, **libraries, **tags.marks}, step.key, work)
        seal(made.rename(made.with_name(f"{made.stem.rpartition('-')[0]}-{tags.platform}.whl")))
        (work / COMPILED).write_text(_compiled(ctx.store, plan, step), encoding="ascii")


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
