"""Plans of plain requests, kept in the store for what only shows a plan. What builds makes its plan anew."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gb10.core.files import DoubtedFileError, digest, read_state_file
from gb10.core.inputs_digest import inputs_digest
from gb10.image.context import Context
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan
from gb10.image.request.image_request import Request

ROOM: Final = "plans"
LARGEST: Final = 16 << 20
"""Bytes of a kept plan; vLLM's has 400 kB."""
PLAIN: Final = frozenset({"engine", "arch", "platform", "kernels", "targets", "without", "without_patches", "slim"})
"""What a request may have for its plan to be made of the checkout alone."""


def planned(ctx: Context, request: Request, *, shown: bool) -> Plan:
    """The plan of a request. Raises as ``make_plan``.

    One that is only ``shown`` is kept while no setting and no file of the checkout changes, if the checkout alone
    decides it. One at whose making something was printed is made every time.
    """
    usual = Request(engine=request.engine, arch=request.arch)
    other = {name for name, value in asdict(request).items() if value != getattr(usual, name)} - PLAIN
    by_checkout = not other and ctx.catalog.root == ROOT and request.engine in ctx.catalog.engines()
    if not shown or not by_checkout:
        return _made(ctx, request)
    words = ("plan", os.uname().machine, version("uv"), json.dumps(asdict(request)))
    inputs = inputs_digest(words, ctx.env)
    if inputs is None:
        return _made(ctx, request)
    place = ctx.store.entry(ROOM, f"{digest([str(ROOT), *words])[:32]}.json")  # other checkouts have their own
    kept = _read(place, inputs)
    if kept:
        return kept
    before = ctx.reporter.lines
    plan = _made(ctx, request)
    # a file that changed meanwhile may be as before tomorrow
    if ctx.reporter.lines == before and inputs_digest(words, ctx.env) == inputs:
        text = _plans().dump_json(plan)
        if _plans().validate_json(text) == plan:
            with suppress(OSError):  # a full or read-only disk: the next call plans again
                ctx.store.write_text(place, f"{_head(inputs, text)}\n{text.decode()}")
    return plan


def _made(ctx: Context, request: Request) -> Plan:
    from gb10.image.request.planning import make_plan  # noqa: PLC0415 - half of a second that a kept plan spares

    return make_plan(ctx, request)


def _read(place: Path, inputs: str) -> Plan | None:
    """The kept plan, if it is whole, of these inputs, and this user's alone to write."""
    try:
        head, _, text = read_state_file(place, LARGEST)[0].partition(b"\n")
        return _plans().validate_json(text) if head == _head(inputs, text).encode() else None
    except (OSError, DoubtedFileError, ValidationError):  # none yet, or one to doubt: the plan is made anew
        return None


def _head(inputs: str, text: bytes) -> str:
    return f"{inputs} {hashlib.sha256(text).hexdigest()}"


@cache
def _plans() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)
