"""A rehearsal's stage: stand-ins for compiled modules and absent packages, and compilers whose calls are noted."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gb10.image.explain.child.b12x import compile as b12x
from gb10.image.explain.child.shared import cute_compiles, flashinfer_modules, shape_ops, stand_ins
from gb10.image.explain.child.shared.values import Request
from gb10.image.explain.operators import schemas


def install_stand_ins(request: Request, implement: Callable[[Any, str], None]) -> None:
    """Install stand-ins for absent packages and compiled modules, and define the operators of the latter.

    ``implement`` gets a library of operators and the schema of one, and gives it an implementation.
    """
    absent = [name for name in request["stand_ins"] if importlib.util.find_spec(name) is None]
    stand_ins.install(dict.fromkeys(absent, "9999"), request["compiled"])
    spaces = {**request["operators"], **request["late"]}
    known = {}
    for module in spaces:  # by its path below a folder of packages
        found = [path for folder in sys.path for path in Path(folder).glob(f"{module}.*so")]
        known[module] = schemas(found[0].read_bytes())
    shape_ops.KEPT += stand_ins.register(known, spaces, request["answers"], implement)


def note_compilers(site: str) -> None:
    """Note what compilers other than Triton's would compile. ``site``: the image's packages."""
    flashinfer_modules.listen()
    cute_compiles.listen()
    b12x.listen(site)
