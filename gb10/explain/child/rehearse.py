"""Starts the engine on a device without memory and keeps what it compiles. The arguments: a request, and the report.

The engine is not changed but for the answers of the device, of compiled modules and of packages. Nothing is loaded,
nothing of the model is executed, and there is no network. What is compiled lies where the image looks it up.
"""

import importlib.util
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
    report.write_text(json.dumps(told(rehearse(request)), indent=1) + "\n", encoding="utf-8")


def rehearse(request):
    """The engine's life: configuration, start, requests. Returns the error at which it stopped, if it did."""
    import triton_kept

    triton_kept.keep(request["image"])
    prepare(request)
    import made_up
    from vllm_chosen import engine_config

    try:
        config = engine_config(request, None)
        with made_up.modes():
            core = made_up.start(config)
            most = config.scheduler_config.max_num_batched_tokens
            many = config.scheduler_config.max_num_seqs
            longest = config.model_config.max_model_len - made_up.TOKENS
            lengths = [one for one in (*request["lengths"], most, most + 1) if one <= longest]
            made_up.serve(core, lengths, [one for one in (*request["together"], many) if one <= many])
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error).strip()[:500]}"
    return None


def prepare(request):
    """Stand-ins, operators and device, in the order in which the engine looks for them."""
    import torch

    torch.version.cuda = request["cuda"]
    import stand_ins

    import vllm

    absent = [name for name in request["stand_ins"] if importlib.util.find_spec(name) is None]
    stand_ins.install(dict.fromkeys(absent, "9999"), request["compiled"])
    import operators
    import shape_ops
    import vllm.utils.torch_utils as utils

    site, late = Path(vllm.__file__).parent, tuple(request["late"])
    spaces, modules = request["operators"], (*request["operators"], *late)
    schemas = {name: operators.schemas(next(site.rglob(f"{Path(name).name}.*so")).read_bytes()) for name in modules}
    implement = shape_ops.compiled_ones(request["returns"], late)
    shape_ops.KEPT += stand_ins.register(schemas, spaces, request["answers"], implement)
    own = [f"{space}::{name}" for found in spaces.values() for space in found for name in request["returns"]]
    shape_ops.python_ones(utils, own)
    import gpu_answers
    import presence
    import spark

    gpu_answers.answer(spark.become_spark(tuple(request["capability"])))
    presence.answer_packages(request["present"])
    import cute_asked
    import flashinfer_asked

    flashinfer_asked.listen()
    cute_asked.listen()
    engine_answers(utils, request["deep_gemm"])


def engine_answers(utils, numbers):
    """What the engine's own modules ask of the device or of a compiled package. ``numbers``: DeepGEMM's by function."""
    import gpu_answers
    import torch
    import vllm.utils.deep_gemm as deep_gemm
    import vllm.v1.worker.gpu.buffer_utils as buffers

    utils._current_stream_tls.value = gpu_answers.Stream()
    buffers.is_uva_available = lambda: True
    buffers.get_accelerator_view_from_cpu_tensor = lambda one: torch.empty(one.shape, dtype=one.dtype, device="meta")
    deep_gemm._lazy_init = lambda: None
    deep_gemm.set_mk_alignment_for_contiguous_layout = lambda _: None
    for name in [name for name in vars(deep_gemm) if name.endswith("_impl")]:
        setattr(deep_gemm, name, deep_gemm_call(name.strip("_").removesuffix("_impl"), numbers))


def deep_gemm_call(name, numbers):
    """A function of DeepGEMM, which compiles in its own library: it returns a number, or its first tensor."""

    def call(*args, **named):
        import torch

        if name in numbers:
            return numbers[name]
        DEEP_GEMM.add(name)
        return next((one for one in (*args, *named.values()) if isinstance(one, torch.Tensor)), None)

    return call


DEEP_GEMM = set()


def told(stopped):
    """The report: what was made, what the image does not have ready and why, and where the engine stopped."""
    import cute_asked
    import flashinfer_asked
    import no_memory
    import shape_ops
    import triton_kept

    left = [*triton_kept.LEFT, *cute_asked.LEFT]
    for name, there in sorted(flashinfer_asked.ASKED.items()):
        if not there:
            left.append({"what": f"FlashInfer {name}", "why": "not in the image's kernel set"})
    for name, count in sorted(cute_asked.STARTS.items()):
        left.append({"what": f"CuTe DSL {name}", "why": f"cute.compile keeps no file: {count} at each start"})
    for name in sorted(shape_ops.USED):
        left.append(
            {"what": f"operator {name}", "why": "its library has PTX alone for 12.x, which the driver compiles"}
        )
    for name in sorted(DEEP_GEMM):
        left.append({"what": f"DeepGEMM {name}", "why": "compiled by its library, which asks the device"})
    for name, count in sorted(triton_kept.TUNED.items()):
        left.append(
            {"what": f"choice for {name}", "why": f"{count} configurations are compiled, and timed on the device"}
        )
    return {
        "stopped": stopped,
        "made": triton_kept.MADE,
        "left": left,
        "flashinfer": sorted(name for name, there in flashinfer_asked.ASKED.items() if there),
        "zeroed": no_memory.ZEROED,
    }


if __name__ == "__main__":
    main()
