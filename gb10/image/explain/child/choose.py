"""Asks an engine which kernels it takes for some models, and prints the answers as JSON. The argument: a request.

The engine runs its own selection code. Only the answers of the device, of compiled modules and of packages are ours.
No weights are loaded, nothing of the model is executed, and there is no network.
"""

import gc
import importlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

ENGINES = "gb10.image.explain.child"
"""The package in which a request's ``script`` is: ``vllm.choose``."""


def limit(limits: dict[str, int]) -> None:
    """Set bounds on what a hostile config can use: seconds of CPU, bytes of memory, bytes of a file."""
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, name), (most, most))


def main() -> None:
    """Read the request, and answer on stdout; what the engine prints goes to stderr."""
    gc.disable()  # imported modules stay: a collection finds nothing
    out = os.dup(1)
    os.dup2(2, 1)
    request: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    limit(request["limits"])
    os.environ.update(request["environment"])
    sys.path[:0] = request["path"]
    with os.fdopen(out, "w", encoding="utf-8") as result:
        json.dump(importlib.import_module(f"{ENGINES}.{request['script']}").answer(request), result)


if __name__ == "__main__":
    main()
