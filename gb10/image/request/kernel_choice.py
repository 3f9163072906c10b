"""The kernel set of a build: the recipe's, another by name (``--kernels``), or a model's (``--for-model``)."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.errors import FetchError, Gb10Error, LockStaleError, UsageError
from gb10.image.context import Context
from gb10.image.explain.engine_choice import ready_to_ask, refuse
from gb10.image.plan.options import Options, Served
from gb10.image.plan.steps import why_none
from gb10.image.plan.values import Toolkit
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.kernel_sets import entries, merged, model_set, set_name
from gb10.image.recipe.locked import Lock
from gb10.models.memory.shapes.config_fields import QUANTIZED

CONFIG: Final = "config.json"
LARGEST: Final = 4 << 20  # bytes of a config
NAMES: Final = ("architectures", "model_type")
"""What says of which kind a model is: a config has one of them at least."""
WRAPPED: Final = "config"


def with_set(recipe: Recipe, kernels: str) -> Recipe:
    """The recipe with another kernel set. Raises UsageError when the recipe compiles no kernels."""
    name = _wheel(recipe)
    wheel = recipe.wheels[name].model_copy(update={"kernels": kernels})
    return recipe.model_copy(update={"wheels": {**recipe.wheels, name: wheel}})


def with_model(
    host: Host, recipe: Recipe, toolkit: Toolkit, model: Served, chosen: Collection[str] | None
) -> tuple[Recipe, Toolkit]:
    """The recipe with a model's kernel set, that of its engine if it adds nothing; and the toolkit with it.

    ``chosen``: the kernels that the engine takes for it, where that is known. Raises UsageError.
    """
    short = model.name
    wheel = recipe.wheels[_wheel(recipe)]
    source, whole = wheel.source, toolkit.kernel_sets[f"{wheel.source}-core"].get("unasked")
    base = whole if whole and wheel.kernels == whole else "core"
    name, releases = f"{source}-{set_name(short)}", toolkit.kernel_sets[f"{source}-{base}"]["flashinfer"]
    own = {**model_set(json.loads(model.config), short, releases, chosen), "includes": [base]}
    host.reporter.say(
        f"FlashInfer's kernels for {short}: {', '.join([base, *(entry['name'] for entry in entries(own))])}"
    )
    if not entries(own):
        return with_set(recipe, base), toolkit
    sets = {**toolkit.kernel_sets, name: merged(name, {**toolkit.kernel_sets, name: own})}
    return with_set(recipe, set_name(short)), replace(toolkit, kernel_sets=sets)


def _wheel(recipe: Recipe) -> str:
    """The name of the wheel that method ``aot`` compiles."""
    name = next((name for name, wheel in recipe.wheels.items() if wheel.method == "aot"), None)
    if name is None:
        raise UsageError(
            f"the {recipe.engine} recipe compiles no FlashInfer kernels",
            hint="add a wheel of method aot to its wheels",
        )
    return name


def read_config(host: Host, model: str) -> Mapping[str, Any]:
    """A model's config.json, with its quantization, which may be in a separate file. Raises UsageError, FetchError."""
    return parsed_config(_of_folder(Path(model)) if Path(model).exists() else _of_hub(host, model), model)


def check_model(config: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The config, if it says of which kind the model is. Raises UsageError with what the file has instead."""
    if any(name in config for name in NAMES):
        return config
    has = ", ".join(sorted(config)[:8]) or "nothing"
    raise UsageError(
        f"{model} is not the config of a model: it has neither {' nor '.join(NAMES)}",
        where=f"it has {has}",
        hint="give the config.json as it is on the hub",
    )


def read_files(host: Host, model: str) -> Mapping[str, Any]:
    """The same for an engine: ModelOpt's file, where there is one, is also under its own name.

    SGLang reads some of it from there although config.json has its quantization, too.
    """
    texts = _of_folder(Path(model)) if Path(model).exists() else _of_hub(host, model)
    return _with_file(texts, model)


def local_files(path: Path) -> Mapping[str, Any]:
    """``read_files`` of a folder, or of a file. Raises UsageError."""
    return _with_file(_of_folder(path), str(path))


def _with_file(texts: tuple[str, str | None], model: str) -> Mapping[str, Any]:
    config = parsed_config(texts, model)
    return config if texts[1] is None else {**config, QUANTIZED: json.loads(texts[1])}


def local_config(path: Path) -> Mapping[str, Any]:
    """The config.json of a folder, or of a file, with its quantization. Raises UsageError."""
    return parsed_config(_of_folder(path), str(path))


def parsed_config(texts: tuple[str, str | None], model: str) -> Mapping[str, Any]:
    """The two files of a model as one config. Raises UsageError."""
    try:
        config, quantized = (json.loads(text) if text is not None else {} for text in texts)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the config of {model} is not JSON", where=str(error)) from error
    if not isinstance(config, dict) or not isinstance(quantized, dict):
        raise UsageError(f"the config of {model} is not a JSON object")
    # A file of recipes/models/configs keeps the config beside where it is from.
    own, inner = config, config.get(WRAPPED)
    if isinstance(inner, dict) and not any(name in config for name in NAMES) and any(name in inner for name in NAMES):
        own = inner
    return {"quantization_config": quantized, **own} if quantized else own


def _of_folder(path: Path) -> tuple[str, str | None]:
    """The two files of a folder as text, or one file alone. Raises UsageError for a folder without config.json."""
    file, quantized = (path / CONFIG, path / QUANTIZED) if path.is_dir() else (path, path.parent / QUANTIZED)
    if not file.is_file():
        raise UsageError(f"{path} has no {CONFIG}", hint="give a model folder, or a model name on the hub")
    return _text(file), _text(quantized) if quantized.is_file() else None


def _text(path: Path) -> str:
    """A config; raises UsageError if it is too large or not text."""
    raw = read_plain_file(path, LARGEST, "this file is to be the config of a model")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not the config of a model", where=str(error)) from error


def _of_hub(host: Host, model: str) -> tuple[str, str | None]:
    """The two files from the hub as text, at ``NAME@COMMIT`` or at the newest commit, which is printed."""
    from gb10.sources.hub import open_hub  # noqa: PLC0415 - the import takes a third of a second

    name, _, commit = model.partition("@")
    if "/" not in name or name.startswith((".", "/")):
        raise UsageError(f"{model} does not exist", hint="give a folder, a config.json, or OWNER/NAME on the hub")
    hub = open_hub(name, host.env)
    head = commit or hub.head()
    with host.store.folder("hub") as work:
        config, quantized = (hub.fetch(file, head, work) for file in (CONFIG, QUANTIZED))
        if config is None:
            raise FetchError(
                f"{name} has no {CONFIG}", where=f"at {head}", hint="choose another model, or give a local folder"
            )
        if not commit:
            host.reporter.say(f"{CONFIG} of {name}@{head}: use this name to get the same kernels again")
        return _text(config), _text(quantized) if quantized else None


ASKED: Final = ("attention_backend", "moe_backend", "linear_backend", "kv_cache_dtype", "block_size")
"""Options of the engine that decide which kernels it takes."""
WITHOUT_ANSWER: Final = (UsageError, LockStaleError, FetchError, Gb10Error)
"""Errors after which a plan goes on: explain, or the engine in it, gave no answer."""
MOST: Final = 300
"""Characters of an engine's words in a line."""


def chosen_kernels(
    ctx: Context, recipe: Recipe, lock: Lock, config: Mapping[str, Any], options: Mapping[str, str | int]
) -> frozenset[str] | None:
    """The names of the kernels that serve the model; None where explain cannot answer, with a line that says why.

    An index may lack PyTorch's build for the CPU, which explain runs: that is such a case. Raises VerifyError when the
    engine has no kernel for a layer, FetchError for every other failed download, PatchError.
    """
    asked = {name: str(value) for name, value in options.items() if name in ASKED}
    try:
        answer = ready_to_ask(ctx, recipe, lock).answer(ctx, config, asked)
        refuse(answer, f"{recipe.engine} {recipe.version}")
    except Gb10Error as error:
        if type(error) not in WITHOUT_ANSWER or (isinstance(error, FetchError) and not error.absent):
            raise
        ctx.reporter.say(f"kernels are chosen by the model's config alone: {error.message}{_reason(error)}")
        return None
    return frozenset(row.chosen for row in answer.rows if row.chosen)


def _reason(error: Gb10Error) -> str:
    """The first line of what the engine said."""
    said = (error.where or "").strip().splitlines()
    return f" ({said[0][:MOST]})" if said else ""


NUMBERS: Final = ("block_size", "max_model_len", "max_num_batched_tokens", "max_num_seqs")
"""Options of the engine that bound its batches and blocks, as whole numbers."""
LARGEST_CONFIG: Final = 1 << 24


def served_model(ctx: Context, model: str | None, served_with: Sequence[str]) -> Served | None:
    """The model with its config, and the options that it is served with. Raises UsageError, FetchError."""
    pairs = [_option(text) for text in served_with]
    options = dict(pairs)
    if len(options) != len(pairs):
        raise UsageError("--served-with names an option twice", hint=f"given: {', '.join(served_with)}")
    if model is None:
        if options:
            raise UsageError("--served-with needs a model", hint="name one: --for-model OWNER/NAME")
        return None
    config, folder = json.dumps(read_config(ctx, model), sort_keys=True), Path(model)
    name = folder.resolve().name.removesuffix(".json") if folder.exists() else model.partition("@")[0]
    return Served(name=name, config=config, options=tuple(sorted(options.items())))


def with_warmup_run(
    ctx: Context, recipe: Recipe, toolkit: Toolkit, options: Options, served: Served | None
) -> Served | None:
    """The model, if a rehearsal with it is possible; why it is not is printed. Raises UsageError."""
    if served is None:
        return None
    why = why_none(recipe, toolkit, options)
    if why:
        ctx.reporter.say(f"kernels of Triton, CuTe DSL and the engine's own compiler are not made ahead: {why}")
        return None
    known = toolkit.rehearsals[recipe.engine].arguments
    absent = [name for name, _ in served.options if name not in known]
    if absent:
        hint = f"it has {', '.join(known)}"
        raise UsageError(f"{recipe.engine} has no option for {absent[0]}", hint=hint)
    return replace(served, environment=tuple(sorted(toolkit.rehearsals[recipe.engine].image.items())))


def _option(text: str) -> tuple[str, str | int]:
    """``NAME=VALUE`` as an option of the engine. Raises UsageError for one that is not known."""
    name, mark, value = text.replace("-", "_", text.partition("=")[0].count("-")).partition("=")
    known = tuple(dict.fromkeys((*ASKED, *NUMBERS)))
    if not mark or name not in known or not value:
        raise UsageError(
            f"--served-with {text[:80]!r} is no option that changes kernels", hint=f"known: {', '.join(known)}"
        )
    if name not in NUMBERS:
        if not value.replace("_", "").replace("-", "").isalnum() or len(value) > 40:
            raise UsageError(f"--served-with {text[:80]!r}: the value is not a word")
        return name, value
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 0 < int(value) <= LARGEST_CONFIG:
        raise UsageError(f"--served-with {text[:80]!r}: the value is not a whole number up to {LARGEST_CONFIG}")
    return name, int(value)
