"""What each engine's rehearsal finds in place of compiled modules, of packages that are not there, and of compilers."""

import importlib.util
import sys
from pathlib import Path


def stand_in(request, implement):
    """Put stand-ins where packages and compiled modules are missing, and define the operators of the latter.

    ``implement``: what gives an operator an implementation.
    """
    import shape_ops
    import stand_ins

    absent = [name for name in request["stand_ins"] if importlib.util.find_spec(name) is None]
    stand_ins.install(dict.fromkeys(absent, "9999"), request["compiled"])
    spaces = {**request["operators"], **request["late"]}
    schemas = {module: _schemas(module) for module in spaces}
    shape_ops.KEPT += stand_ins.register(schemas, spaces, request["answers"], implement)


def _schemas(module):
    """The schemas in a compiled module, by its path below a folder of packages."""
    import operators

    found = [path for folder in sys.path for path in Path(folder).glob(f"{module}.*so")]
    return operators.schemas(found[0].read_bytes())


def listen(site):
    """Note what compilers other than Triton's are asked for. ``site``: the image's packages."""
    import b12x_programs
    import cute_asked
    import flashinfer_asked

    flashinfer_asked.listen()
    cute_asked.listen()
    b12x_programs.listen(site)
