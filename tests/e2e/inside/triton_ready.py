"""In an image, without a GPU: the engine's own look-ups of what the image brings, all compilers forbidden.

Arguments: where the kernels and the report lie, if not at their place. Prints how many kernels of Triton are found, how
many modules of the engine itself are loaded, and what is refused.
"""

import functools
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/gb10/caches")
EMULATOR = "/qemu"
COMPILERS = ("ptxas", "nvcc", "cicc", "gcc", "cc", "g++", "c++", "clang")


class ForbiddenError(Exception):
    """A compiler was about to run."""


def forbid() -> None:
    """No compiler runs, but to say its version; and no stage of Triton's compiler."""
    from triton.backends.nvidia.compiler import CUDABackend

    run = subprocess.Popen.__init__

    def guarded(self: Any, argv: Any, *args: Any, **named: Any) -> None:
        program = Path(argv[0]).name if isinstance(argv, list) else str(argv)
        if program.startswith(COMPILERS):
            if argv[1:] != ["--version"]:
                raise ForbiddenError(f"{program} runs")
            argv = [EMULATOR, shutil.which(argv[0]) or argv[0], *argv[1:]]
        run(self, argv, *args, **named)

    def compiling(*_: object) -> None:
        raise ForbiddenError("Triton compiles")

    subprocess.Popen.__init__ = guarded  # type: ignore[method-assign]
    CUDABackend.add_stages = compiling


def become_gb10() -> None:
    """The active driver answers capability 12.1, and nothing else."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaDriver
    from triton.runtime.driver import driver

    CudaDriver.is_active = staticmethod(lambda: True)  # vLLM asks before it uses Triton

    target = GPUTarget("cuda", 121, 32)
    answers = {
        "get_current_target": lambda *_: target,
        "get_current_device": lambda *_: 0,
        "get_current_stream": lambda *_: 0,
    }
    driver.set_active(type("NoGpu", (), answers)())


def tell_sglang() -> None:
    """SGLang asks torch which GPU it is for when its modules are imported."""
    import torch

    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": "NVIDIA GB10",
        "get_device_capability": (12, 1),
        "get_device_properties": SimpleNamespace(name="NVIDIA GB10", major=12, minor=1, multi_processor_count=48),
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, functools.partial(lambda given, *_: given, value))


def function_of(kernel: str) -> Any:
    """Triton's function by its module and name, as Triton itself keeps them."""
    from triton.runtime import jit

    importlib.import_module(kernel.partition(":")[0])
    return jit._triton_jit_function_registry[kernel]


SEEN: list[str] = []


def main() -> None:
    """Look up every kernel; then one with another number of warps, which is not there."""
    forbid()
    become_gb10()
    if importlib.util.find_spec("sglang"):
        tell_sglang()
    import gb10_caches
    from triton import knobs

    gb10_caches.FOLDER = ROOT / "triton"
    assert knobs.cache.manager_class is gb10_caches.Prepared
    knobs.compilation.listener = lambda **seen: SEEN.append(seen["metadata_group"][f"{seen['src'].name[:150]}.json"])
    report = json.loads((ROOT / "report.json").read_text())
    rows = [row for row in report["made"] if row["compiler"] == "triton"]
    own, cute = ([row for row in report["made"] if row["compiler"] == one] for one in ("nvcc", "cute"))
    found, wrong = 0, []
    for row in rows:
        if row["lookup"] is None:
            continue
        try:
            function_of(row["kernel"]).preload(json.dumps(row["lookup"]))
        except ForbiddenError as error:
            wrong.append(f"{row['kernel']}: {error}")
            continue
        found += Path(SEEN[-1]).parent == ROOT / "triton" / row["folder"]
    other = json.loads(json.dumps(rows[0]["lookup"]))
    other["options"]["num_warps"] *= 2
    try:
        function_of(rows[0]["kernel"]).preload(json.dumps(other))
        refused = ""
    except ForbiddenError as error:
        refused = str(error)
    told = {"stopped": report["stopped"], "kernels": len(rows), "found": found, "wrong": wrong, "refused": refused}
    if own:
        import modules_ready

        told["own"] = modules_ready.check(own, ROOT / "modules")
    if cute:
        import b12x_ready

        told["b12x"] = b12x_ready.check(cute, ROOT / "b12x")
    print(json.dumps(told))


main()
