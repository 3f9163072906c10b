"""Which kernels SGLang chooses for a model: its own code builds the layers, for each option's value in a process."""

import argparse
import errno
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gb10.image.explain.child.sglang import rows
from gb10.image.explain.child.sglang.attention import AbsentError, backends
from gb10.image.explain.child.sglang.start import build, load_config, prepare, resolve_arguments
from gb10.image.explain.child.shared import stand_ins
from gb10.image.explain.child.shared.engine_errors import raising_package, stopped, unknown_parts
from gb10.image.explain.child.shared.fork import Forked
from gb10.image.explain.child.shared.meta_tensors import NoMemory
from gb10.image.explain.child.shared.values import Request, Row

Answer = dict[str, Any]
"""The rows of a model, or a backend of attention, or ``stopped`` with the reason."""
Look = Callable[[str, Mapping[str, Any]], Answer]
UNKNOWN = "unknown:"
"""How a reason begins that is not SGLang's: this machine lacks a package of the image."""
PLACE = re.compile(r" \((?:/[^)]*|unknown location)\)")
LONGEST = 1000
"""Characters of a reason."""
SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)
"""Errors that say something of this machine now, and nothing of the model."""


def answer(request: Request) -> list[dict[str, Any]]:
    """The documents of the models. Of upstream's release only our patches are left out."""
    if request["upstream"] and request["originals"]:
        sys.meta_path.insert(0, stand_ins.Originals(request["originals"]))
    kept = prepare(request)
    found = [document({**request, "model": model}) for model in request["models"]]
    del kept
    return found


def document(request: Request) -> dict[str, Any]:
    """A row for every kind of layer, what other options choose, and SGLang's error when it stopped."""
    model, options, flags = request["model"], request["options"], request["flags"]
    first = Forked(result_or_error, layers, model, options).document()
    found: list[Row] = first.get("rows", [])
    kinds = {row["kind"] for row in found} or set(flags)
    acting = [
        (flag, attention if kind == "attention" else layers) for kind in flags if kind in kinds for flag in flags[kind]
    ]
    # An error that is not SGLang's own says nothing about kernels, and other options say no more.
    about_kernels = "stopped" not in first or bool(first.get("refused"))
    calls = {
        name: (result_or_error, look, model, {**options, argument: value})
        for name, argument, value, look in (variants(acting) if about_kernels else ())
    }
    without = request["without_code"]
    others = side_by_side({name: call for name, call in calls.items() if name not in without})
    others |= {name: {"stopped": without[name], "refused": True} for name in calls if name in without}
    for row in found:
        add_options(row, flags.get(row["kind"], ()), others)
    failed = {name: first[name] for name in ("missing", "whose", "lacks", "own_code") if name in first}
    return {"stopped": first.get("stopped"), **failed, "rows": found, "tried": without_kernel(first, others)}


def side_by_side(calls: Mapping[str, tuple[Any, ...]]) -> dict[str, Answer]:
    """The documents of these calls by name, as many at a time as this process may use cores."""
    found, waiting = {}, [*calls.items()]
    many = len(os.sched_getaffinity(0))
    running: list[tuple[str, Forked]] = []
    while waiting or running:
        while waiting and len(running) < many:
            name, call = waiting.pop(0)
            running.append((name, Forked(*call)))
        name, first = running.pop(0)
        found[name] = first.document()
    return {name: found[name] for name in calls}


def without_kernel(first: Answer, others: Mapping[str, Answer]) -> list[tuple[str, str]]:
    """The options of the first kind of layer that has no kernel: SGLang itself refuses the model with each of them.

    An error that is not SGLang's own says nothing about kernels.
    """
    for flag in dict.fromkeys(map(flag_of, others)) if first.get("refused") else ():
        found = {name: other for name, other in others.items() if flag_of(name) == flag}
        if all(other.get("refused") for other in found.values()):
            return [(name, other["stopped"]) for name, other in found.items()]
    return []


def layers(model: str, options: Mapping[str, Any]) -> Answer:
    """The rows for one set of options."""
    given = resolve_arguments(model, options)
    config = load_config(given)
    with NoMemory():
        built = build(given, config)
        return {"rows": rows.rows(built, config, attention(model, options))}


def attention(model: str, options: Mapping[str, Any]) -> Answer:
    """The backend of attention for one set of options."""
    from sglang.srt.runtime_context import get_model

    given = resolve_arguments(model, options)
    return {**backends(given, load_config(given)), "format": str(get_model().kv_cache_dtype)}


def variants(acting: Iterable[tuple[str, Look]]) -> Iterator[tuple[str, str, str, Look]]:
    """Each value of these options but ``auto``, by SGLang's parser: name, SGLang's argument, value, what answers."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    for flag, look in acting:
        option = parser._option_string_actions[flag]
        yield from ((f"{flag} {value}", option.dest, value, look) for value in option.choices or () if value != "auto")


def flag_of(name: str) -> str:
    """The option of a name of ``variants``."""
    return name.partition(" ")[0]


def add_options(row: Row, flags: Iterable[str], others: Mapping[str, Answer]) -> None:
    """Add to a row the choice of each option, or SGLang's reason against it. Options without effect are left out."""
    key = ("name", "class", "count")
    for flag in flags:
        found = {name: other for name, other in others.items() if flag_of(name) == flag}
        kernels: dict[str, str | None] = {}
        for name, other in found.items():
            if "name" in other:
                kernels[name] = other["name"]
            elif "stopped" not in other:  # the row of the same name and class
                same = (one["chosen"] for one in other["rows"] if all(one[part] == row[part] for part in key))
                kernels[name] = next(same, None)
        if row["kind"] != "attention" and set(kernels.values()) <= {row["chosen"]}:
            continue
        row["options"] |= {name: kernel for name, kernel in kernels.items() if kernel}
        row["refused"] |= {name: other["stopped"] for name, other in found.items() if "stopped" in other}


def result_or_error(look: Look, model: str, options: Mapping[str, Any]) -> Answer:
    """The result, or SGLang's own error. Ends this process when the machine is short of something."""
    try:
        return look(model, options)
    except AbsentError as error:
        return {"stopped": str(error), "refused": True}
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in SHORTAGES:
            os._exit(1)
        why = stopped(error, "sglang", model)
        words = f"{type(error).__name__}: {PLACE.sub('', str(error)).strip()[:LONGEST]}".replace(model, "MODEL")
        if why["missing"]:
            return {**why, "stopped": f"{UNKNOWN} {words}", **unknown_to_release(model)}
        own = raising_package(error) == "sglang"
        return {**why, "stopped": words, "refused": own, **unknown_to_release(model)}


def unknown_to_release(model: str) -> dict[str, Any]:
    """What the release's registries lack of a model."""
    import sglang.srt.models as package
    from sglang.srt.models.registry import ModelRegistry
    from sglang.srt.utils.hf_transformers.common import _CONFIG_REGISTRY
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = json.loads(Path(model, "config.json").read_text(encoding="utf-8"))
    # SGLang's registry leaves out a module that cannot be imported, as here: then nothing is known of its models.
    for found in pkgutil.iter_modules(package.__path__):
        folder: Any = found.module_finder
        name, path = f"{package.__name__}.{found.name}", Path(folder.path, f"{found.name}.py")
        if name not in sys.modules and path.is_file():
            source = path.read_text(encoding="utf-8")
            if any(str(one) in source for one in config.get("architectures") or ()):
                return {"missing": name, "whose": "explain"}
    return unknown_parts(config, {*ModelRegistry.get_supported_archs()}, {*CONFIG_MAPPING, *_CONFIG_REGISTRY})
