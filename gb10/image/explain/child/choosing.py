"""Asks the engine which kernels it takes, by the engine's own script here, and prints the answers. The argument: a request.

The engine is not changed but for the answers of the device, of compiled modules and of packages. Nothing is loaded,
nothing of the model is executed, and there is no network.
"""

import gc
import importlib
import json
import os
import resource
import sys


def limit(request):
    """Bounds on what a hostile config can use up: seconds, bytes of memory, and bytes of a file."""
    for kind, most in request["limits"].items():
        resource.setrlimit(getattr(resource, kind), (most, most))


def main():
    """Read the request, answer it on the stdout that there was: what the engine prints goes to stderr."""
    gc.disable()  # nothing that is imported goes away again
    out = os.dup(1)
    os.dup2(2, 1)
    with open(sys.argv[1], encoding="utf-8") as asked:
        request = json.load(asked)
    limit(request)
    os.environ.update(request["environment"])
    sys.path[:0] = request["path"]
    with os.fdopen(out, "w", encoding="utf-8") as result:
        json.dump(importlib.import_module(request["script"]).answer(request), result)


if __name__ == "__main__":
    main()
