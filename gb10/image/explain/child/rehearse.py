"""Starts an engine on a device without memory and keeps what it compiles. The arguments: a request, and the report.

Only the answers of the device, of compiled modules and of packages are ours. No weights are loaded, nothing of the
model is executed, and there is no network. Compiled kernels lie where the image looks them up. The request's ``script``
names the module that knows the engine, with ``prepare``, ``serve``, ``made`` and ``left``.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

sys.setdlopenflags(os.RTLD_LAZY)  # torch's libraries name functions of CUDA libraries that this machine lacks

# ruff: noqa: E402 - torch is imported below, and needs the flags
from gb10.image.explain.child.choose import ENGINES, limit
from gb10.image.explain.child.shared import cute_compiles, flashinfer_modules, meta_tensors, triton_cache
from gb10.image.explain.child.shared.values import Request, Row


def main() -> None:
    """Read the request, run the engine, write the report."""
    request, report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    limit(request["limits"])
    os.environ.update(request["environment"])
    engine: Any = importlib.import_module(f"{ENGINES}.{request['script']}")
    stopped = run_engine(engine, request)
    made: list[Row] = engine.made(request)
    report.write_text(json.dumps(report_of(engine, stopped, made), indent=1) + "\n", encoding="utf-8")


def run_engine(engine: Any, request: Request) -> str | None:
    """Configure and start the engine, and serve requests. The error at which it stopped, None if it did not."""
    import torch

    triton_cache.compile_launched(request["image"])
    torch.version.cuda = request["cuda"]
    engine.prepare(request)
    try:
        engine.serve(request)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error).strip()[:500]}"
    return None


def report_of(engine: Any, stopped: str | None, made: list[Row]) -> dict[str, Any]:
    """The report: kernels that were compiled, those that the image lacks and why, and where the engine stopped."""
    left = [*triton_cache.LEFT]
    for name, compiled in sorted(flashinfer_modules.REQUESTED.items()):
        if not compiled:
            left.append({"what": f"FlashInfer {name}", "why": "not in the image's kernel set"})
    left += [*cute_compiles.left(), *engine.left()]
    for name, count in sorted(triton_cache.TUNED.items()):
        left.append(
            {"what": f"choice for {name}", "why": f"{count} configurations are compiled, and timed on the device"}
        )
    return {
        "stopped": stopped,
        "made": [*triton_cache.MADE, *made],
        "left": left,
        "flashinfer": sorted(name for name, compiled in flashinfer_modules.REQUESTED.items() if compiled),
        "zeroed": meta_tensors.ZEROED,
    }


if __name__ == "__main__":
    main()
