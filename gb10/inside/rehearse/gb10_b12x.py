"""b12x's cache with kernels that the image brings: those are read from the image, all others from the cache's folder.

vLLM loads it as a plugin in each of its processes. Nothing is written where the image's kernels lie.
"""

import importlib
import importlib.util
import logging
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

FOLDER = Path("/usr/share/gb10/caches/b12x")
Ask = Callable[[str], object]


def register() -> None:
    """Look in the image first; once is enough."""
    if importlib.util.find_spec("b12x") is None:
        return
    try:
        compiler = importlib.import_module("b12x._lib.compiler")
        if not hasattr(compiler, "gb10_prepared"):
            look_first(compiler, FOLDER)
            compiler.gb10_prepared = str(FOLDER)  # type: ignore[attr-defined]  # a mark of ours
    except (ImportError, AttributeError) as error:  # another b12x than the image's: vLLM starts all the same
        logging.getLogger(__name__).warning("the image's kernels of b12x are not used: %s", error)


def look_first(compiler: ModuleType, folder: Path) -> None:
    """Both questions of b12x's cache, whether it has a kernel and for the kernel, are asked of ``folder`` first."""
    place: ContextVar[Path | None] = ContextVar("gb10_prepared", default=None)
    own: Callable[[], Path] = compiler._cute_compile_cache_dir

    def first(ask: Ask) -> Ask:
        def asked(key: str) -> object:
            if (folder / key[:2] / f"{key}.o").is_file():
                before = place.set(folder)
                try:
                    found = ask(key)
                finally:
                    place.reset(before)
                if found is not None and found is not False:
                    return found
            return ask(key)

        return asked

    changed: dict[str, object] = {
        "_cute_compile_cache_dir": lambda: place.get() or own(),
        "_load_cute_compile_from_disk": first(compiler._load_cute_compile_from_disk),
        "_valid_cute_compile_cache": first(compiler._valid_cute_compile_cache),
    }
    vars(compiler).update(changed)
