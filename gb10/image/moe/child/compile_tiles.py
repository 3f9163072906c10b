"""Compiles rows for a GB10 by the engine's own launch code and kernel: Triton's compiler runs, no GPU is there.

The request is a JSON file; each answer is printed as a line of JSON as soon as it is there.
"""

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gb10.image.moe.child.ask import limit
from gb10.image.moe.child.cut import Cut, Module
from gb10.image.moe.child.launching import GROUPED, LAUNCHES, launch_arguments
from gb10.image.moe.child.stand_in import machine, standard

CAPABILITY = 121
WARP = 32
MMA = re.compile(r"\b((?:mma|wgmma|tcgen05)[\w.:]*)")
KINDS = ("m16n8", "e4m3", "e5m2", "f16", "bf16", "s8", "s32", "tf32", "f32")
REGISTERS = re.compile(r"Used (\d+) registers")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def main() -> None:
    """Compile every row that is asked."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    limit(request["limits"])
    sys.path.insert(0, request["triton"])
    become_gb10()
    path = request["source"]
    module = Module(Path(path).read_text(encoding="utf-8"), path)
    for number, job in enumerate(request["rows"]):
        print(json.dumps({"row": number, **compile_row(module, request, job)}), flush=True)


def become_gb10() -> None:
    """Make the active driver one that answers capability 12.1, and nothing else."""
    import triton  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.runtime.driver import driver  # noqa: PLC0415

    target = GPUTarget("cuda", CAPABILITY, WARP)
    answers = {
        "get_current_target": lambda *_: target,
        "get_current_device": lambda *_: 0,
        "get_current_stream": lambda *_: 0,
        "get_device_interface": lambda *_: None,
    }
    driver.set_active(type("NoGpu", (), answers)())
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.compilation.always_compile = True


def compile_row(module: Module, request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Both GEMMs of a row, or the one of a dense layer: what the compiler says of each, or its error."""
    kernels: list[dict[str, Any]] = []
    grouped = job["shape"].get("dtype") in GROUPED
    function, kernel = LAUNCHES[request["engine"], request["family"], grouped]
    for gemm in ("up", "down") if request["family"] == "moe" else ("up",):
        try:
            kernels.append(compile_kernel(module, request, {**job, "gemm": gemm}, function, kernel))
        except Exception as error:
            return {"kernels": kernels, "error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    return {"kernels": kernels, "error": None}


def compile_kernel(
    module: Module, request: dict[str, Any], job: dict[str, Any], function: str, kernel: str
) -> dict[str, Any]:
    """One kernel, compiled by Triton itself."""
    import triton  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415

    known = {**machine(request["device"], request["shared"], request["version"], None), "triton": triton, "tl": tl}
    known |= launch_answers()

    def importing(source: str, name: str) -> Any:
        return known[name] if name in known else standard(source, name)

    if request["family"] == "dense":
        known |= {"get_w8a8_block_fp8_configs": lambda *_: {job["size"]: job["config"]}}
    space = Cut(module, (kernel,), known).run({"__name__": "kernel", **known}, importing)
    launches: list[Any] = []
    found = Recorder(space[kernel], launches)
    launch = Cut(module, (function,), {**known, kernel: found}).run(
        {"__name__": "launch", **known, kernel: found}, importing
    )[function]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        launch(**launch_arguments(launch, request["engine"], request["family"], job, tl))
    return kernel_facts(launches[-1], text.getvalue())


class Recorder:
    """Stands where the kernel is launched: it compiles for the arguments of the launch and does not run."""

    def __init__(self, kernel: Any, launches: list[Any]) -> None:
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid: object) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            self.launches.append(self.kernel.warmup(*arguments, grid=(1,), **options))

        return launch


def launch_answers() -> dict[str, Any]:
    """What launch code asks beside the look-ups: this capability has no swap of operands, no descriptors by default."""
    from gb10.image.moe.child.launching import quantized  # noqa: PLC0415

    return {
        "enable_swap_ab": lambda *_: False,
        "should_enable_swap_ab": lambda *_: False,
        "resolve_moe_use_td": lambda *_: False,
        "warn_if_moe_use_td_ineffective": lambda *_, **__: None,
        "set_triton_allocator": lambda *_: None,
        "is_arch_support_pdl": lambda *_: True,
        "padding_size": 0,
        **quantized(),
    }


def kernel_facts(kernel: Any, log: str) -> dict[str, Any]:
    """Bytes of shared memory, registers, the stack frame, spills, and the instructions that multiply."""
    frame = FRAME.search(log)
    registers = REGISTERS.search(log)
    ptx = kernel.asm["ptx"]
    return {
        "shared": kernel.metadata.shared,
        "registers": int(registers[1]) if registers else None,
        "stack": int(frame[1]) if frame else None,
        "spilled": int(frame[2]) + int(frame[3]) if frame else None,
        "mma": sorted(set(MMA.findall(ptx))),
    }
