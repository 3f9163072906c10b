"""Why an engine stopped: the error that began it, where, and whose it is."""

import dis

RAISES = dis.opmap["RAISE_VARARGS"]
"""``raise``, and an ``assert`` that fails."""
READERS = ("transformers", "huggingface_hub", "pydantic", "compressed_tensors", "tokenizers")
"""Packages that read a model's config: what they raise is about the config."""
NO_GPU = ("accelerator device", "not compiled with CUDA", "NVIDIA driver", "meta tensor", "Torch not compiled")
"""What torch says where a GPU is used; here is none."""
STAND_INS = ("'Nothing'", "'Anything'", "stand-in", "a package that explain does not have")
"""What is said where a stand-in is used as if it were the package."""
LONGEST = 1000
"""Characters of an error."""


def stopped(error, engine, model=""):
    """``stopped``: the engine's error in words, with its place. ``missing``: a module that is not here. ``whose`` it is.

    ``model`` is the folder of the model, which is of no use to a reader. ``engine``, when the engine's own code raised it by a statement that does so; ``config``, when a reader of the
    config did; ``explain``, when a GPU, a module or the value of a package is missing that the image has; else
    ``unknown``.
    """
    chain = [*_chain(error)]
    missing = next((one for one in chain if isinstance(one, ImportError)), None)
    first = missing or next((one for one in chain if _ours(one)), chain[-1] if _wrapped(error) else chain[0])
    return {
        "stopped": f"{_words(first)}{_place(first)}".replace(model or "\0", "MODEL"),
        "missing": _module(missing) if missing else None,
        "whose": "explain" if missing or _ours(first) else _owner(first, engine),
    }


def _wrapped(error):
    return _inner(error) is not None


def _chain(error):
    """An error, and those that it was raised for, the first last."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = _inner(error) or error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _inner(error):
    """What pydantic caught: the engine checks its arguments in pydantic's validators."""
    ask = getattr(error, "errors", None)
    if type(error).__name__ != "ValidationError" or ask is None:
        return None
    found = (one.get("ctx", {}).get("error") for one in ask())
    return next((one for one in found if isinstance(one, Exception)), None)


def _words(error):
    return f"{type(error).__name__}: {str(error).strip()[:LONGEST]}"


def _frame(error):
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last


def _place(error):
    """The line of the engine that was executed, below the folder of packages."""
    last = _frame(error)
    if last is None:
        return ""
    path = last.tb_frame.f_code.co_filename
    return f" ({path.rpartition('/site/')[2] or path}:{last.tb_lineno})"


def _module(error):
    return error.name or str(error)[:200]


def _ours(error):
    """Whether the error is about what explain puts in place of a GPU or of a package."""
    said = str(error)
    return any(word in said for word in (*NO_GPU, *STAND_INS))


def _owner(error, engine):
    last = _frame(error)
    if last is None:
        return "unknown"
    if last.tb_frame.f_code.co_code[last.tb_lasti] != RAISES:
        return "unknown"
    package = last.tb_frame.f_globals.get("__name__", "").partition(".")[0]
    return "config" if package in READERS else "engine" if package == engine else "unknown"


def known(config, architectures, types):
    """``lacks``: what the release's registries have not of a model: all its architectures, its model_type.

    Where only the latter is missing, and the model brings a class for it in code of its own, ``own_code`` says so.
    """
    named, kind = config.get("architectures"), config.get("model_type")
    named = [str(one) for one in named] if isinstance(named, list) else []
    absent = [] if any(one in architectures for one in named) else named
    strange = isinstance(kind, str) and kind not in types
    own = strange and not absent and bool(config.get("auto_map"))
    return {"lacks": [*absent, *([f"model_type {kind}"] if strange and not own else [])], "own_code": own}
