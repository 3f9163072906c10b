"""Names of CMake targets, checked against the project's own files before anything else is fetched."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from gb10.build.compiling import patched_source
from gb10.errors import UsageError
from gb10.patches.release_files import open_stored
from gb10.plan.inputs import wheel_inputs
from gb10.plan.values import Plan, Step
from gb10.recipe.builds import ALL
from gb10.sources.locked_files import fetch_locked, store_paths
from gb10.workshop import Workshop

WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"#.*")
DEFINED = re.compile(r"\b(?:\w*add_library|\w+_add_module|define_extension_target)\s*\(\s*([A-Za-z_]\w*)")


def check_targets(shop: Workshop, plan: Plan, step: Step) -> None:
    """Raise UsageError for a target that no CMake file of the step's project names; other steps have no targets."""
    asked = set(plan.recipe.wheels[step.name].targets) - {ALL}
    if not asked:
        return
    origin, *_ = wheel_inputs(plan, step.name).origins
    fetch_locked(shop, [origin.file])
    project = open_stored(shop.store, store_paths(shop.store, [origin.file])[0], origin.file)
    changed = patched_source(shop, origin) if origin.patches else {}
    kept = (path for path in project.paths() if is_cmake(path) and path not in changed)
    require_named(asked, (*(project.read(path) or b"" for path in kept), *_texts(changed)))


def require_named(targets: Collection[str], files: Iterable[bytes]) -> None:
    """Raise UsageError unless every target is a word in the CMake files, outside comments. Pure."""
    texts = [COMMENT.sub("", content.decode("utf-8", "replace")) for content in files]
    words = {word for text in texts for word in WORD.findall(text)}
    missing = sorted(set(targets) - words)
    if missing:
        raise UsageError(
            f"the project has no CMake target {', '.join(missing)}",
            where=f"defined by name: {', '.join(sorted({name for text in texts for name in DEFINED.findall(text)}))}",
            hint="correct --targets, or the recipe's targets",
        )


def is_cmake(path: str) -> bool:
    """Whether CMake reads a file of this name. Pure."""
    pure = PurePosixPath(path)
    return pure.name == "CMakeLists.txt" or pure.suffix == ".cmake"


def _texts(changed: Mapping[str, Path | bytes]) -> Iterator[bytes]:
    for path, content in changed.items():
        if is_cmake(path):
            yield content if isinstance(content, bytes) else content.read_bytes()
