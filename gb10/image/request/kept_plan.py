"""Plans of plain requests, kept in the store for what only shows a plan. What builds makes its plan anew."""

import datetime
import hashlib
import io
import json
import os
import pickle
import sys
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Final

import pydantic

from gb10.core.fields import Model
from gb10.core.files import DoubtedFileError, digest, read_state_file
from gb10.core.inputs_digest import inputs_digest
from gb10.image.context import Context
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan
from gb10.image.request.image_request import Request

SECTION: Final = "plans"
LARGEST: Final = 16 << 20
"""Bytes of a kept plan; vLLM's has 400 kB."""
OF_PLANS: Final = ("gb10.core.", "gb10.image.", "gb10.sources.")
"""Packages whose values a plan has."""
PLAIN: Final = frozenset({"engine", "arch", "platform", "kernels", "targets", "without", "without_patches", "slim"})
"""What a request may have for its plan to be made of the checkout alone."""


def planned(ctx: Context, request: Request, *, shown: bool) -> Plan:
    """The plan of a request. Raises as ``make_plan``.

    One that is only ``shown`` is kept while no setting and no file of the checkout changes, if the checkout alone
    decides it: uv decides only plans on an image of others. One at whose making something was printed is made every
    time.
    """
    usual = Request(engine=request.engine, arch=request.arch)
    other = {name for name, value in asdict(request).items() if value != getattr(usual, name)} - PLAIN
    by_checkout = not other and ctx.catalog.root == ROOT and request.engine in ctx.catalog.engines()
    if not shown or not by_checkout:
        return _made(ctx, request)
    libraries = (str(sys.implementation.cache_tag), pydantic.VERSION)  # whose values are in the file as they are
    words = ("plan", os.uname().machine, *libraries, json.dumps(asdict(request)))
    inputs = inputs_digest(words, ctx.env)
    if inputs is None:
        return _made(ctx, request)
    place = ctx.store.entry(SECTION, f"{digest([str(ROOT), *words])[:32]}.plan")  # other checkouts have their own
    kept = _read(place, inputs)
    if kept:
        return kept
    before = ctx.reporter.lines
    plan = _made(ctx, request)
    # a file that changed meanwhile may be as before tomorrow
    if ctx.reporter.lines == before and inputs_digest(words, ctx.env) == inputs:
        content = pickle.dumps(plan, protocol=5)
        if Values(io.BytesIO(content)).load() == plan:
            with suppress(OSError):  # a full or read-only disk: the next call plans again
                ctx.store.write_bytes(place, _head(inputs, content) + content)
    return plan


class Values(pickle.Unpickler):
    """Reads values of this package. It takes a tenth of the time of a check against every model's schema, which this
    plan passed when it was made: the file is this user's alone to write, as the programs beside it are.
    """

    def find_class(self, module: str, name: str) -> type:
        """A dataclass or a model of what makes plans, or a date; raises UnpicklingError for anything else."""
        if (module, name) == ("datetime", "date"):
            return datetime.date
        found = super().find_class(module, name) if module.startswith(OF_PLANS) and "." not in name else None
        if isinstance(found, type) and found.__module__ == module and (is_dataclass(found) or issubclass(found, Model)):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no value of a plan")


def _made(ctx: Context, request: Request) -> Plan:
    from gb10.image.request.planning import make_plan  # noqa: PLC0415 - half of a second that a kept plan spares

    return make_plan(ctx, request)


def _read(place: Path, inputs: str) -> Plan | None:
    """The kept plan, if it is whole, of these inputs, and this user's alone to write."""
    try:
        head, newline, content = read_state_file(place, LARGEST)[0].partition(b"\n")
        if head + newline != _head(inputs, content):
            return None
        found = Values(io.BytesIO(content)).load()
        return found if isinstance(found, Plan) else None
    except (OSError, DoubtedFileError):  # none yet, or one that others can write: the plan is made anew
        return None
    except (pickle.UnpicklingError, EOFError, ImportError, AttributeError, TypeError, ValueError, LookupError):
        return None  # of another version of a library: the plan is made anew


def _head(inputs: str, content: bytes) -> bytes:
    """The first line: what decides the plan, and what the rest must be."""
    return f"{inputs} {hashlib.sha256(content).hexdigest()}\n".encode()
