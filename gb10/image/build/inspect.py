"""Any image of the engine, ours or not: its scan, what is known of it beside its files, and imports by its Python."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.utils import canonicalize_name

from gb10.containers.buildx.build import BuildRequest
from gb10.containers.connection import Engine
from gb10.containers.emulation import PROGRAMS, emulated, fetch_emulator
from gb10.containers.image_programs import TIMED_OUT, run_once
from gb10.containers.images import ImageInfo, find_image, read_folders, refuse_triggers
from gb10.containers.reference import NAMESPACE
from gb10.errors import EngineError, FetchError, UsageError, VerifyError
from gb10.image.build.bases import Bases
from gb10.image.build.contexts import build_context, scanner_files
from gb10.image.build.stage import engine_with_images, run_build
from gb10.image.context import Context, build_architecture
from gb10.image.moe.file_verdict import FileVerdict, judge_files
from gb10.image.moe.image_files import ENGINES, read_image
from gb10.image.moe.input_files import Sizes
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.plan.plan_record import SLIM, RecordedPlan
from gb10.image.plan.render import part_dockerfile
from gb10.image.plan.values import Plan, Step
from gb10.image.proof.check import Facts
from gb10.image.proof.reading import ImageScan
from gb10.image.proof.scans import PLAN, SCANS, image_scan_path, known_image, known_layers, own_changes, own_plan
from gb10.image.request.planning import Request, make_plan
from gb10.inside.scan.installed import Distribution

SIZES: Final = Sizes(topk=8, group=128)
"""What `moe check` takes when nothing is said."""
Wrong = tuple[tuple[str, str], ...]


def tuned_problems(ctx: Context, engine: Engine, image: ImageInfo, reference: str, changed: Container[str]) -> Wrong:
    """Path and reason of each file that breaks the engine, and of each one ``changed`` here that it does not find.

    A release brings files for other releases of Triton, which it does not find. An engine that is not known, or whose
    release cannot be had, is told and not judged.
    """
    try:
        found = read_image(ctx, ctx.catalog.root, engine, image, reference)
        if not found.batch.files:
            return ()
        with ctx.reporter.task(f"files of tiles of {found.judge.engine}"):
            verdicts = judge_files(found.judge, found.batch, SIZES)
    except (FetchError, UsageError) as error:
        ctx.reporter.say(f"files of tiles are not judged: {error.message}")
        return ()
    placed = [(f"{found.site}/{verdict.path}".lstrip("/"), verdict) for verdict in verdicts]
    return tuple((path, why) for path, verdict in placed if (why := wrong(verdict, changed=path in changed)))


def wrong(verdict: FileVerdict, *, changed: bool) -> str:
    """What is wrong with a file, nothing if it is good or only one for another release. Pure."""
    if verdict.verdict == "not found":
        return f"the engine does not read it: {'; '.join(verdict.reasons)}" if changed else ""
    if verdict.verdict == "raises":
        return f"the engine stops: {verdict.told}"
    return "; ".join(dict.fromkeys(problem for row in verdict.rows for problem in row.problems))


def read_by_stage(
    ctx: Context, engine: Engine, plan: Plan, step: Step, files: Mapping[str, bytes], *, out: Path
) -> None:
    """Export the stage ``result`` of the Dockerfile among ``files`` to ``out``; the log is the step's.

    The plan's build base fills the stage ``base-build``. Raises BuildError, EngineError, FetchError.
    """
    tars, images = Bases(ctx, plan, engine).provide(["base-build"])
    with build_context(ctx.store, {**files, **tars}, {}) as context:
        request = BuildRequest(
            dockerfile=context.folder / "Dockerfile",
            target="result",
            context=context.folder,
            contexts=images,
            platform=f"linux/{build_architecture()}",
            out=out,
        )
        run_build(ctx, engine, request, step, lambda event: None)


RULES, SAVED = re.compile(r"[a-z0-9-]+(?: [a-z0-9-]+){0,63}", re.ASCII), re.compile(r"[0-9]{1,6}", re.ASCII)
PLATFORM = re.compile(r"[a-z0-9._-]+(?:/[a-z0-9._-]+){1,3}")
CUDA = re.compile(r"\d{1,2}\.\d{1,2}", re.ASCII)
SEARCH = "LD_LIBRARY_PATH="


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """An image of an engine: what the engine knows of it, its plan if it is ours, and its scan."""

    reference: str
    engine: Engine
    image: ImageInfo
    plan: RecordedPlan | None
    recorded: Mapping[str, tuple[str, str]]
    """Files that its own scans say were changed on purpose: sha256, and the step."""
    found: ImageScan


def inspect_image(ctx: Context, reference: str) -> Inspected:
    """The scan of an image, and what it says of itself. Raises UsageError when the engine has no such image."""
    engine = engine_with_images(ctx)
    image = find_image(engine, reference) if engine else None
    if engine is None or image is None:
        raise no_image(engine, reference)
    check_platform(reference, image.platform)
    if summary := slimmed(image.labels):
        ctx.reporter.say(summary)
    own = read_folders(engine, ctx.store, image, [PLAN, SCANS])[0]
    found = known_layers(ctx, reference, image.diff_ids) or known_image(ctx, reference, image.diff_ids)
    return Inspected(
        reference=reference,
        engine=engine,
        image=image,
        plan=own_plan(own),
        recorded=own_changes(own),
        found=found or _scanned(ctx, engine, reference, image),
    )


def facts_of(ctx: Context, one: Inspected) -> Facts:
    """What checks need to know of an image beside its files; its files of tiles are judged for that."""
    cuda = one.image.labels.get(f"{NAMESPACE}.cuda", "")
    has_engine = any(package.name in ENGINES for package in one.found.scan.distributions)
    tuned = tuned_problems(ctx, one.engine, one.image, one.reference, one.recorded) if has_engine else ()
    return Facts(
        platform=one.image.platform,
        user=one.image.user,
        environment=one.image.environment,
        cuda=cuda if CUDA.fullmatch(cuda) else "",
        plan=one.plan,
        recorded=one.recorded,
        tuned=tuned,
    )


def slimmed(labels: Mapping[str, str]) -> str:
    """What an image says that its builder left out, nothing if it has no such labels, or others wrote them. Pure."""
    rules, saved = labels.get(SLIM, ""), labels.get(f"{SLIM}.mb", "")
    if RULES.fullmatch(rules) is None or SAVED.fullmatch(saved) is None:
        return ""
    return f"slimmed by {len(rules.split())} rules, {int(saved):,} MB less: {rules}"


def no_image(engine: Engine | None, reference: str) -> UsageError:
    """The error for what names no path, so an image, which the engine has not. Pure."""
    path = "no file or directory has this name, either; ./build.py pull REF pulls an image"
    if engine is None:
        return UsageError(f"no image {reference} on this machine: there is no Docker, and nothing was built", hint=path)
    listing = "docker images" if engine.kind == "user" else f"docker -H {engine.endpoint.host} images"
    return UsageError(f"{engine.name} has no image {reference}", hint=f"{listing} lists its images\n{path}")


def check_platform(reference: str, platform: str) -> None:
    """Raise UsageError for a malformed platform: it is written into a Dockerfile."""
    if PLATFORM.fullmatch(platform) is None:
        raise UsageError(
            f"the image {reference} names a platform that cannot be one: {platform!r}",
            hint="its author wrote that into the image: do not run it",
        )


def _scanned(ctx: Context, engine: Engine, reference: str, image: ImageInfo) -> ImageScan:
    """The scan of an image whose layers are not known: its root is mounted in a build stage, nothing of it runs.

    It is kept, so that the next look at the same image takes seconds.
    """
    refuse_triggers(engine, image)
    plan = make_plan(ctx, Request(engine=DEFAULT_ENGINE, arch="12.1f"))  # for its build base alone
    search = next((one.removeprefix(SEARCH) for one in image.environment if one.startswith(SEARCH)), "")
    files: dict[str, bytes] = {
        "Dockerfile": part_dockerfile(
            plan, "scan", ctx.catalog.templates, reference=reference, platform=image.platform
        ).encode(),
        "search.txt": search.encode(),
        **scanner_files(ctx.catalog.contents),
    }

    def make(out: Path) -> None:
        with ctx.reporter.task(f"scan {reference}"):
            read_by_stage(ctx, engine, plan, plan.step("proof"), files, out=out)

    kept = image_scan_path(ctx, image.diff_ids)
    with ctx.store.locked("image-scan", ctx.reporter.waiting_for("scan")):
        ctx.store.replace(kept, make)
    found = known_image(ctx, reference, image.diff_ids)
    if found is None:
        raise VerifyError(f"the scan of {reference} cannot be read", where=str(kept), hint="run the command again")
    return found


SECONDS: Final = 600.0
"""vLLM takes some 160 s under qemu on an idle machine."""
PLACE: Final = re.compile(r"(.*)lib/python(3(?:\.\d+)?)/[a-z]+-packages")
SYSTEM: Final = ("usr/", "usr/local/")


def try_imports(ctx: Context, one: Inspected) -> tuple[tuple[str, str], ...]:
    """Each package that recipes/verify.yaml names and the image has, and what went wrong; nothing where all is well.

    Raises EngineError when this machine has no way to run the image's programs.
    """
    emulator = _emulator(ctx, one)
    modules = ctx.catalog.allowances.imports
    tried = []
    for package in one.found.scan.distributions:
        module = modules.get(canonicalize_name(package.name))
        if module:
            with ctx.reporter.task(f"import {module}"):
                tried.append((package.name, _imported(ctx, one, package, module, emulator)))
    return tuple(tried)


def _imported(ctx: Context, one: Inspected, package: Distribution, module: str, emulator: Path | None) -> str:
    programs = {binary.path for binary in one.found.scan.binaries}
    argv = (interpreter(package.site, programs), "-c", f"import {module}")
    code, output = run_once(one.engine, ctx.store, one.image, argv, emulator=emulator, seconds=SECONDS)
    if code == TIMED_OUT:
        return f"import {module} did not end within {SECONDS / 60:.0f} minutes"
    return f"import {module} ended with {code}: {last_line(output)}" if code else ""


def interpreter(site: str, programs: set[str]) -> str:
    """The Python that finds the packages of a folder: the system's, else that of the environment. Pure."""
    match = PLACE.fullmatch(site)
    prefix, version = (match[1], match[2]) if match else ("usr/", "3")
    places = [f"{place}bin/python{version}" for place in (SYSTEM if prefix in SYSTEM else ())]
    return "/" + next((place for place in places if place in programs), f"{prefix}bin/python3")


def last_line(output: str) -> str:
    """The last line that says something: of a traceback, the error. Pure."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")


def _emulator(ctx: Context, one: Inspected) -> Path | None:
    """The emulator to start the image's programs with; None where the machine or the kernel runs them."""
    architecture = PurePosixPath(one.image.platform).parts[1]
    if architecture == build_architecture() or (architecture in PROGRAMS and emulated(ctx.store, architecture)):
        return None
    if architecture not in PROGRAMS or one.engine.data is None:
        raise EngineError(
            f"nothing here runs programs of {one.image.platform}",
            where=one.engine.endpoint.host,
            hint="verify it on a machine of its own platform, or by an engine on this machine",
        )
    return fetch_emulator(ctx.store, ctx.env, PROGRAMS[architecture][0])
