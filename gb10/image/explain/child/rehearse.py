"""Starts the engine on a device without memory and keeps what it compiles. The arguments: a request, and the report.

The engine is not changed but for the answers of the device, of compiled modules and of packages. Nothing is loaded,
nothing of the model is executed, and there is no network. What is compiled lies where the image looks it up. The
request's script knows the engine: it has ``prepare``, ``serve``, ``made`` and ``left``.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

sys.setdlopenflags(os.RTLD_LAZY)  # torch's libraries name functions of CUDA libraries that are not here


def main():
    """Read the request, run, write the report."""
    request, report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    from choosing import limit

    limit(request)
    os.environ.update(request["environment"])
    engine = importlib.import_module(request["script"])
    stopped = rehearse(engine, request)
    report.write_text(json.dumps(told(engine, stopped, engine.made(request)), indent=1) + "\n", encoding="utf-8")


def rehearse(engine, request):
    """The engine's life: configuration, start, requests. Returns the error at which it stopped, if it did."""
    import torch
    import triton_kept

    triton_kept.keep(request["image"])
    torch.version.cuda = request["cuda"]
    engine.prepare(request)
    try:
        engine.serve(request)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error).strip()[:500]}"
    return None


def told(engine, stopped, made):
    """The report: what was made, what the image does not have ready and why, and where the engine stopped."""
    import cute_asked
    import flashinfer_asked
    import no_memory
    import triton_kept

    left = [*triton_kept.LEFT]
    for name, there in sorted(flashinfer_asked.ASKED.items()):
        if not there:
            left.append({"what": f"FlashInfer {name}", "why": "not in the image's kernel set"})
    left += [*cute_asked.left(), *engine.left()]
    for name, count in sorted(triton_kept.TUNED.items()):
        left.append(
            {"what": f"choice for {name}", "why": f"{count} configurations are compiled, and timed on the device"}
        )
    return {
        "stopped": stopped,
        "made": [*triton_kept.MADE, *made],
        "left": left,
        "flashinfer": sorted(name for name, there in flashinfer_asked.ASKED.items() if there),
        "zeroed": no_memory.ZEROED,
    }


if __name__ == "__main__":
    main()
