"""Why an engine stopped: the error that began it, where, and whether the engine, the config or explain is at fault."""

import dis
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any

RAISES = dis.opmap["RAISE_VARARGS"]
"""``raise``, and an ``assert`` that fails."""
READERS = ("transformers", "huggingface_hub", "pydantic", "compressed_tensors", "tokenizers")
"""Packages that read a model's config: their errors are about the config."""
NO_GPU = ("accelerator device", "not compiled with CUDA", "NVIDIA driver", "meta tensor", "Torch not compiled")
"""Words in torch's errors where a GPU is used."""
STAND_INS = ("'Nothing'", "'Anything'", "stand-in", "a package that explain does not have")
"""Words in errors where a stand-in is used as if it were the package."""
LONGEST = 1000
"""Characters of an error."""


def raising_package(error: BaseException) -> str:
    """The package whose own statement raised this error; empty when Python raised it within a statement."""
    last = _frame(error)
    if last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != RAISES:
        return ""
    return str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def stopped(error: BaseException, engine: str, model: str = "") -> dict[str, Any]:
    """``stopped``: the error in words, with its place. ``missing``: a module that is not here, or None. ``whose``:

    ``engine`` when a statement of the engine raised it; ``config`` when a reader of the config did; ``explain`` when a
    GPU, a module or the value of a package is missing that the image has; else ``unknown``. ``model``: the folder of
    the model, whose path no reader needs.
    """
    chain = [*_chain(error)]
    missing = next((one for one in chain if isinstance(one, ImportError)), None)
    first = missing or next((one for one in chain if _is_ours(one)), chain[-1] if _inner(error) else chain[0])
    package = raising_package(first)
    owner = "config" if package in READERS else "engine" if package == engine else "unknown"
    words = f"{type(first).__name__}: {str(first).strip()[:LONGEST]}{_place(first)}"
    return {
        "stopped": words.replace(model or "\0", "MODEL"),
        "missing": (missing.name or str(missing)[:200]) if missing else None,
        "whose": "explain" if missing or _is_ours(first) else owner,
    }


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised for, the first last."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = _inner(error) or error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _inner(error: BaseException) -> BaseException | None:
    """The error that pydantic caught: the engine checks its arguments in pydantic's validators."""
    errors = getattr(error, "errors", None)
    if type(error).__name__ != "ValidationError" or errors is None:
        return None
    found = (one.get("ctx", {}).get("error") for one in errors())
    return next((one for one in found if isinstance(one, Exception)), None)


def _frame(error: BaseException) -> TracebackType | None:
    """The innermost frame."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last


def _place(error: BaseException) -> str:
    """The line that was executed, below the folder of packages."""
    last = _frame(error)
    if last is None:
        return ""
    path = last.tb_frame.f_code.co_filename
    return f" ({path.rpartition('/site/')[2] or path}:{last.tb_lineno})"


def _is_ours(error: BaseException) -> bool:
    """Whether the error is about what explain puts in place of a GPU or of a package."""
    return any(word in str(error) for word in (*NO_GPU, *STAND_INS))


def unknown_parts(config: dict[str, Any], architectures: Collection[str], types: Collection[str]) -> dict[str, Any]:
    """``lacks``: what the release's registries lack of a model: all its architectures, its model_type.

    ``own_code``: whether only the model_type is missing, and the model brings code of its own for it.
    """
    named, kind = config.get("architectures"), config.get("model_type")
    names = [str(one) for one in named] if isinstance(named, list) else []
    absent = [] if any(one in architectures for one in names) else names
    strange = isinstance(kind, str) and kind not in types
    own = strange and not absent and bool(config.get("auto_map"))
    return {"lacks": [*absent, *([f"model_type {kind}"] if strange and not own else [])], "own_code": own}
