"""Builds a model's layers with SGLang's own code, and says what it chose; each option's value in a process of its own."""

import argparse
import errno
import json
import os
import pkgutil
import re
import sys
import traceback
from pathlib import Path

from forked import Forked
from refusal import is_own
from sglang_attention import Absent
from sglang_started import built, configured, prepare, resolved
from told import known, stopped

UNKNOWN = "unknown:"
"""How a reason begins that is not SGLang's: a package of the image is not here."""
PLACE = re.compile(r" \((?:/[^)]*|unknown location)\)")
LONGEST = 1000
"""Characters of a reason."""
SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)
"""Errors that say something of this machine now, and nothing of the model."""


def answer(request):
    """The documents of the models. SGLang as its project ships it is asked without our patches alone."""
    if request["upstream"] and request["originals"]:
        import stand_ins

        sys.meta_path.insert(0, stand_ins.Originals(request["originals"]))
    kept = prepare(request)
    found = [document({**request, "model": model}) for model in request["models"]]
    del kept
    return found


def document(request):
    """A row for every kind of layer, what other options choose, and SGLang's error when it stopped."""
    model, options, flags = request["model"], request["options"], request["flags"]
    first = Forked(told, chosen, model, options).document()
    rows = first.get("rows", [])
    kinds = {row["kind"] for row in rows} or set(flags)
    acting = [
        (flag, attention if kind == "attention" else chosen) for kind in flags if kind in kinds for flag in flags[kind]
    ]
    calls = {
        name: (told, look, model, {**options, argument: value})
        for name, argument, value, look in (variants(acting) if ours_is_not(first) else ())
    }
    without = request["without_code"]
    others = side_by_side({name: call for name, call in calls.items() if name not in without})
    others |= {name: {"stopped": without[name], "refused": True} for name in calls if name in without}
    for row in rows:
        add(row, flags.get(row["kind"], ()), others)
    failed = {name: first[name] for name in ("missing", "whose", "lacks", "own_code") if name in first}
    return {"stopped": first.get("stopped"), **failed, "rows": rows, "tried": without_kernel(first, others)}


def ours_is_not(first):
    """Whether other options can say more: an error that is not SGLang's own says nothing about kernels."""
    return "stopped" not in first or bool(first.get("refused"))


def side_by_side(calls):
    """The documents of these calls by name, as many at a time as this process may use cores."""
    found, waiting = {}, [*calls.items()]
    many = len(os.sched_getaffinity(0))
    running = []
    while waiting or running:
        while waiting and len(running) < many:
            name, call = waiting.pop(0)
            running.append((name, Forked(*call)))
        name, first = running.pop(0)
        found[name] = first.document()
    return {name: found[name] for name in calls}


def without_kernel(first, others):
    """The options of the first kind of layer that has no kernel: SGLang itself refuses the model with each of them.

    An error that is not SGLang's own says nothing about kernels.
    """
    for flag in dict.fromkeys(map(flag_of, others)) if first.get("refused") else ():
        found = {name: other for name, other in others.items() if flag_of(name) == flag}
        if all(other.get("refused") for other in found.values()):
            return [(name, other["stopped"]) for name, other in found.items()]
    return []


def chosen(model, options):
    """The rows for one set of options."""
    import sglang_rows
    from no_memory import NoMemory

    given = resolved(model, options)
    config = configured(given)
    with NoMemory():
        layers = built(given, config)
        return {"rows": sglang_rows.rows(layers, config, attention(model, options))}


def attention(model, options):
    """The backend of attention for one set of options."""
    from sglang.srt.runtime_context import get_model

    import sglang_attention

    given = resolved(model, options)
    config = configured(given)
    return {**sglang_attention.backends(given, config), "format": str(get_model().kv_cache_dtype)}


def variants(acting):
    """Each value of these options but ``auto``: name, SGLang's argument, value, what answers. SGLang's parser has them."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    for flag, look in acting:
        option = parser._option_string_actions[flag]
        yield from ((f"{flag} {value}", option.dest, value, look) for value in option.choices if value != "auto")


def flag_of(name):
    """The option of ``variants``' name."""
    return name.partition(" ")[0]


def add(row, flags, others):
    """What each option would choose for a row, or SGLang's reason against it; an option without effect is left out."""
    for flag in flags:
        found = {name: other for name, other in others.items() if flag_of(name) == flag}
        heard = {name: other for name, other in found.items() if "stopped" not in other}
        kernels = {name: other["name"] if "name" in other else same(row, other) for name, other in heard.items()}
        if row["kind"] != "attention" and set(kernels.values()) <= {row["chosen"]}:
            continue
        row["options"] |= {name: kernel for name, kernel in kernels.items() if kernel}
        row["refused"] |= {name: other["stopped"] for name, other in found.items() if "stopped" in other}


def same(row, other):
    """The kernel of the row of this name and class in another answer."""
    key = ("name", "class", "count")
    return next((one["chosen"] for one in other["rows"] if all(one[part] == row[part] for part in key)), None)


def told(look, model, options):
    """What was found, or SGLang's own error."""
    try:
        return look(model, options)
    except Absent as error:
        return {"stopped": str(error), "refused": True}
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in SHORTAGES:
            os._exit(1)
        why = stopped(error, "sglang", model)
        if why["missing"]:
            return {**why, "stopped": f"{UNKNOWN} {said(error, model)}", **of_release(model)}
        return {**why, "stopped": said(error, model), "refused": is_own(error), **of_release(model)}


def of_release(model):
    """What the release's registries know of a model."""
    from sglang.srt.models.registry import ModelRegistry
    from sglang.srt.utils.hf_transformers.common import _CONFIG_REGISTRY
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = json.loads(Path(model, "config.json").read_text(encoding="utf-8"))
    left = unimported(config.get("architectures"))
    if left:
        return {"missing": left, "whose": "explain"}
    return known(config, {*ModelRegistry.get_supported_archs()}, {*CONFIG_MAPPING, *_CONFIG_REGISTRY})


def unimported(architectures):
    """The module of SGLang that has one of these architectures and could not be imported here; None as a rule.

    SGLang leaves such a module out of its registry.
    """
    import sglang.srt.models as package

    for found in pkgutil.iter_modules(package.__path__):
        name, path = f"{package.__name__}.{found.name}", Path(found.module_finder.path, f"{found.name}.py")
        if name not in sys.modules and path.is_file():
            source = path.read_text(encoding="utf-8")
            if any(str(one) in source for one in architectures or ()):
                return name
    return None


def said(error, model):
    """An error without the paths of this machine."""
    return f"{type(error).__name__}: {PLACE.sub('', str(error)).strip()[:LONGEST]}".replace(model, "MODEL")
