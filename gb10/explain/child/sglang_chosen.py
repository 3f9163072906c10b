"""Builds a model's layers with SGLang's own code, and says what it chose; each option's value in a process of its own."""

import argparse
import errno
import json
import os
import re
import traceback

from refusal import is_own
from sglang_started import built, configured, prepare, resolved

UNKNOWN = "unknown:"
"""How a reason begins that is not SGLang's: a package of the image is not here."""
PLACE = re.compile(r" \((?:/[^)]*|unknown location)\)")
LONGEST = 1000
"""Characters of a reason."""
SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)
"""Errors that say something of this machine now, and nothing of the model."""


def answer(request):
    """The document: a row for every kind of layer, what other options choose, and SGLang's error when it stopped."""
    kept = prepare(request)
    model, options, flags = request["model"], request["options"], request["flags"]
    first = apart(chosen, model, options)
    rows = first.get("rows", [])
    kinds = {row["kind"] for row in rows} or set(flags)
    acting = [
        (flag, attention if kind == "attention" else chosen) for kind in flags if kind in kinds for flag in flags[kind]
    ]
    others = {
        name: apart(look, model, {**options, argument: value}) for name, argument, value, look in variants(acting)
    }
    for row in rows:
        add(row, flags.get(row["kind"], ()), others)
    del kept
    return {"stopped": first.get("stopped"), "rows": rows, "tried": without_kernel(first, others)}


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
    _, status = os.wait()
    if not text:  # killed, for want of memory as a rule: that is no answer
        raise SystemExit(f"SGLang's process ended without a word (status {status})")
    return json.loads(text)


def told(look, model, options):
    """What was found, or SGLang's own error."""
    try:
        return look(model, options)
    except ImportError as error:
        traceback.print_exc()
        return {"stopped": f"{UNKNOWN} {said(error)}"}
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in SHORTAGES:
            os._exit(1)
        return {"stopped": said(error), "refused": is_own(error)}


def said(error):
    """An error without the paths of this machine."""
    return f"{type(error).__name__}: {PLACE.sub('', str(error)).strip()[:LONGEST]}"
