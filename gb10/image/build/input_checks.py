"""What is checked before anything is compiled: names of CMake targets, and patches on the archives that they change."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from gb10.core.fetch import store_paths
from gb10.core.files import Artifact
from gb10.errors import FetchError, PatchError, UsageError
from gb10.image.build.costs import known_targets
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files, fetch_locked
from gb10.image.patches.graft import check_changes
from gb10.image.patches.patched import patched_files
from gb10.image.patches.release_files import open_stored
from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import Inputs, Origin, Plan, Step, wheel_inputs
from gb10.image.recipe.image_recipe import ALL

WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"#.*")
COMMANDS = r"\b(?:\w*add_library|\w+_add_module|define_extension_target)\s*\(\s*"
DEFINED = re.compile(rf"{COMMANDS}([A-Za-z_]\w*)")
VARIABLE = re.compile(r"\$\{\w+\}")
COMPOSED = re.compile(rf"{COMMANDS}\"?((?:\w|\$\{{\w+\}})*\$\{{\w+\}}(?:\w|\$\{{\w+\}})*)")


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


def fetch_nested(ctx: Context, inputs: Inputs) -> None:
    """The nested projects of an engine's own project, from git; fetched first. Raises FetchError."""
    for origin in inputs.origins:
        if origin.nested:
            try:
                fetch_locked(ctx, [origin.file])
            except FetchError as error:
                raise FetchError(
                    f"{origin.nested}: {error.message}",
                    where=error.where,
                    hint=f"{error.hint}\nor build without it: leave its targets out of --targets, or "
                    f"{origin.nested} out of nested in the recipe",
                ) from error


def patched_source(ctx: Context, origin: Origin) -> Mapping[str, Path | bytes]:
    """The files that patches change in an archive that is compiled. Raises PatchError."""
    (archive,) = store_paths(ctx.store, [origin.file])
    changes = patched_files(ctx.catalog.patches, archive, origin.patches, ctx.reporter.say)
    kept: dict[str, Path | bytes] = {path: content for path, content in changes.items() if content is not None}
    if len(kept) < len(changes):
        raise PatchError(
            "a patch deletes files of a source that is compiled",
            where="\n".join(changes.keys() - kept),
            hint="empty them instead",
        )
    return kept


def try_sources(ctx: Context, plan: Plan) -> tuple[str, ...]:
    """Try patches from the command line on the source archives that they change; a missing archive is fetched.

    Returns a line for each archive that could not be fetched. Raises PatchError.
    """
    tried, unchecked = set(), list[str]()
    for step in plan.of_kind("wheel"):
        for origin in wheel_inputs(plan, step.name).origins:
            by_hand = tuple(use.sha256 for use in origin.patches if use.path)
            if not by_hand or (origin.file, by_hand) in tried:
                continue
            tried.add((origin.file, by_hand))
            failed = _fetch(ctx, [origin.file], f"the patches of what {step.name} compiles")
            if not failed:
                patched_source(ctx, origin)
            unchecked += failed
    return tuple(unchecked)


def _fetch(ctx: Context, files: Sequence[Artifact], what: str) -> tuple[str, ...]:
    """Fetch locked files that are tried; returns why ``what`` is not checked, nothing when all are there."""
    try:
        fetch_locked(ctx, files)
    except FetchError as error:
        lines = (line.strip() for line in (error.where or "").splitlines())
        return (f"{what}: {error.message} ({', '.join(lines)})" if error.where else f"{what}: {error.message}",)
    return ()


def check_patches(ctx: Context, plan: Plan, step: Step, tell: Callable[[str], None]) -> None:
    """Try the patches of a graft on its wheel, which the store has. Raises PatchError."""
    (wheel,) = store_paths(ctx.store, step.files)
    if uses := installable_patches(plan, step):
        check_changes(wheel, patched_files(ctx.catalog.patches, wheel, uses, tell))


def try_patches(ctx: Context, plan: Plan) -> tuple[str, ...]:
    """Try patches from the command line on the wheels that they change; a missing wheel is fetched.

    Returns a line for each wheel that could not be fetched. Raises PatchError.
    """
    unchecked = list[str]()
    for step in plan.of_kind("graft"):
        if not any(use.path for use in installable_patches(plan, step)):
            continue
        failed = _fetch(ctx, step.files, f"the patches of {step.project}")
        if not failed:
            check_patches(ctx, plan, step, ctx.reporter.say)
        unchecked += failed
    return tuple(unchecked)


def installable_patches(plan: Plan, step: Step) -> list[PatchUse]:
    """The patches of a graft that change files of its wheel."""
    return [use for use in plan.options.patches_of(step.project or "") if use.installable]


def check_targets(ctx: Context, plan: Plan, step: Step) -> None:
    """Raise UsageError for a target that no CMake file of the step's project names or can compose.

    Other steps have no targets.
    """
    asked = set(plan.recipe.wheels[step.name].targets) - {ALL}
    if not asked:
        return
    origin, *_ = wheel_inputs(plan, step.name).origins
    fetch_locked(ctx, [origin.file])
    project = open_stored(ctx.store, store_paths(ctx.store, [origin.file])[0], origin.file)
    changed = patched_source(ctx, origin) if origin.patches else {}
    kept = (path for path in project.paths() if is_cmake(path) and path not in changed)
    unsure = require_targets(asked, (*(project.read(path) or b"" for path in kept), *_texts(changed)))
    if unsure:
        ctx.reporter.say(f"{step.name}: {', '.join(unsure)} is spelled in no CMake file: checked at configure")


def try_targets(ctx: Context, plan: Plan) -> None:
    """Check the names of targets if the source is in the store, else print which are known. Downloads nothing.

    Raises UsageError as ``check_targets``.
    """
    for step in plan.of_kind("wheel"):
        build = plan.recipe.wheels[step.name]
        if not set(build.targets) - {ALL} or ctx.store.entry("wheels", step.key).exists():
            continue
        origin, *_ = wheel_inputs(plan, step.name).origins
        if store_paths(ctx.store, [origin.file])[0].exists():
            check_targets(ctx, plan, step)
        else:
            known = ", ".join(known_targets(ctx.catalog, build.source))
            ctx.reporter.say(
                f"the names of --targets are checked when the source of {build.source} is downloaded"
                + (f"; known from earlier builds: {known}" if known else "")
            )


def require_targets(targets: Collection[str], files: Iterable[bytes]) -> list[str]:
    """The targets that only variables of the CMake files can spell.

    Raises UsageError for a target that is no word in the files, outside comments, and that none of them composes. Pure.
    """
    texts = [COMMENT.sub("", content.decode("utf-8", "replace")) for content in files]
    words = {word for text in texts for word in WORD.findall(text)}
    absent = sorted(set(targets) - words)
    shapes = [shape for text in texts for shape in _shapes(text)]
    missing = [name for name in absent if not any(shape.fullmatch(name) for shape in shapes)]
    if missing:
        raise UsageError(
            f"the project has no CMake target {', '.join(missing)}",
            where=f"defined by name: {', '.join(sorted({name for text in texts for name in DEFINED.findall(text)}))}",
            hint="correct --targets, or the recipe's targets",
        )
    return absent


def _shapes(text: str) -> Iterator[re.Pattern[str]]:
    """What the composed names of a file's targets can be: each variable is any text.

    A name that is one variable is spelled where that is set, or composed there.
    """
    for name in COMPOSED.findall(text):
        found = _values(text, name[2:-1]) if VARIABLE.fullmatch(name) else [name]
        yield from (re.compile(r"\w*".join(map(re.escape, VARIABLE.split(one)))) for one in found)


def _values(text: str, variable: str) -> list[str]:
    """The composed values that a file gives a variable by set, list or foreach."""
    given = re.findall(rf"\b(?:set|foreach|list)\s*\(\s*(?:APPEND\s+)?{variable}\s([^)]*)\)", text)
    words = [word.strip('"') for arguments in given for word in arguments.split()]
    return [word for word in words if VARIABLE.search(word) and not VARIABLE.fullmatch(word)]


def is_cmake(path: str) -> bool:
    """Whether CMake reads a file of this name. Pure."""
    pure = PurePosixPath(path)
    return pure.name == "CMakeLists.txt" or pure.suffix == ".cmake"


def _texts(changed: Mapping[str, Path | bytes]) -> Iterator[bytes]:
    for path, content in changed.items():
        if is_cmake(path):
            yield content if isinstance(content, bytes) else content.read_bytes()
