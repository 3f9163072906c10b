"""Builds a model's layers with SGLang's own code, and says what it chose; each option's value in a process of its own."""

import json
import os
import re
import traceback

from sglang_started import built, configured, prepare, resolved

FLAGS = {
    "attention": ("--attention-backend",),
    "experts": ("--moe-runner-backend",),
    "linear": ("--fp8-gemm-backend", "--fp4-gemm-backend"),
}
UNKNOWN = "unknown:"
"""How a reason begins that is not SGLang's: a package of the image is not here."""
PLACE = re.compile(r" \((?:/[^)]*|unknown location)\)")
REACHED = []
"""Whether this process came to the layers."""
LONGEST = 1000
"""Characters of a reason."""


def answer(request):
    """The document: a row for every kind of layer, what other options choose, and SGLang's error when it stopped."""
    kept = prepare(request)
    model, options = request["model"], request["options"]
    first = apart(chosen, model, options)
    rows = first.get("rows", [])
    kinds = {row["kind"] for row in rows} or set(FLAGS)
    others = {name: apart(look, model, {**options, argument: value}) for name, argument, value, look in variants(kinds)}
    for row in rows:
        add(row, others)
    del kept
    return {"stopped": first.get("stopped"), "rows": rows, "tried": without_kernel(first, others)}


def without_kernel(first, others):
    """The options of the first kind of layer that has no kernel: none fits, and the model's own config is not the reason.

    It is not where SGLang had come to the layers, or where its reason depends on the option.
    """
    stopped = first.get("stopped", UNKNOWN)
    for flag in () if stopped.startswith(UNKNOWN) else sum(FLAGS.values(), ()):
        found = {name: other.get("stopped") for name, other in others.items() if name.partition(" ")[0] == flag}
        alike = sum(reason == stopped for reason in found.values())
        if found and None not in found.values() and (first["layers"] or alike <= 1):
            return list(found.items())
    return []


def chosen(model, options):
    """The rows for one set of options."""
    import sglang_rows
    from no_memory import NoMemory

    given = resolved(model, options)
    config = configured(given)
    REACHED.append("layers")
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


def variants(kinds):
    """Options that choose among kernels of these kinds of layers: name, SGLang's argument, value, what answers."""
    from sglang.srt.arg_groups import choices

    acting = [
        ("attention", "--attention-backend", "attention_backend", choices.ATTENTION_BACKEND_CHOICES, attention),
        ("experts", "--moe-runner-backend", "moe_runner_backend", choices.MOE_RUNNER_BACKEND_CHOICES, chosen),
        ("linear", "--fp8-gemm-backend", "fp8_gemm_runner_backend", choices.FP8_GEMM_RUNNER_BACKEND_CHOICES, chosen),
        ("linear", "--fp4-gemm-backend", "fp4_gemm_runner_backend", choices.FP4_GEMM_RUNNER_BACKEND_CHOICES, chosen),
    ]
    for kind, flag, argument, values, look in acting:
        if kind in kinds:
            yield from ((f"{flag} {value}", argument, value, look) for value in values if value != "auto")


def add(row, others):
    """What each option would choose for a row, or SGLang's reason against it; an option without effect is left out."""
    for flag in FLAGS.get(row["kind"], ()):
        found = {name: other for name, other in others.items() if name.partition(" ")[0] == flag}
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


def apart(look, model, options):
    """The answer of a forked process: what it configures ends with it."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        with os.fdopen(theirs, "w", encoding="utf-8") as out:
            json.dump(told(look, model, options), out)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as read:
        text = read.read()
    os.wait()
    return json.loads(text) if text else {"stopped": "SGLang's process ended without a word"}


def told(look, model, options):
    """What was found, or SGLang's own error."""
    try:
        return look(model, options)
    except ImportError as error:
        traceback.print_exc()
        return {"stopped": f"{UNKNOWN} {said(error)}"}
    except Exception as error:
        traceback.print_exc()
        return {"stopped": said(error), "layers": bool(REACHED)}


def said(error):
    """An error without the paths of this machine."""
    return f"{type(error).__name__}: {PLACE.sub('', str(error)).strip()[:LONGEST]}"
