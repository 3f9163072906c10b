"""Triton's kernels, compiled for capability 12.1 where they would be launched, under the names of the image's keys."""

import json
from collections.abc import Callable
from typing import Any

from gb10.image.explain.child.shared.values import Row

MADE: list[Row] = []
"""A row for each kernel: its function, the folder of the cache, what Triton itself needs to look it up again."""
LEFT: list[Row] = []
"""What was not compiled, with the reason."""
TUNED: dict[str, int] = {}
"""Kernels whose configurations are timed on the device, and how many there are."""


class NoLaunch:
    """A driver that answers for a GB10 and launches nothing."""

    class utils:
        """What the compiler asks of the device."""

        get_device_properties = staticmethod(
            lambda *_: {"max_shared_mem": 101376, "multiprocessor_count": 48, "warpSize": 32, "max_num_regs": 65536}
        )

    def __init__(self, target: Any) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        """Capability 12.1."""
        return self.target

    def get_current_device(self) -> Any:
        """The only one."""
        return 0

    def get_current_stream(self, *_: object) -> Any:
        """The only one."""
        return 0

    def get_device_interface(self) -> None:
        """None is asked for."""

    def get_active_torch_device(self) -> Any:
        """As torch names it."""
        import torch

        return torch.device("cuda", 0)

    is_active = staticmethod(lambda: True)


class Launched:
    """A kernel that was not launched: every number of it is zero."""

    n_regs = n_spills = n_max_threads = 0
    __b12x_programs__ = ()

    def __getitem__(self, _: object) -> Any:
        return lambda *_, **__: None


def compile_launched(image: dict[str, Any]) -> None:
    """Compile kernels in place of launching them. ``image``: its triton_key, and the version text of its ptxas."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import jit
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.driver import driver

    driver.set_active(NoLaunch(GPUTarget("cuda", 121, 32)))
    answer_keys(image)
    jit.JITFunction.run = _compiling(jit.JITFunction.run)
    Autotuner._bench = _untimed
    Autotuner.check_disk_cache = _never_cached
    listen()


def answer_keys(image: dict[str, Any]) -> None:
    """Let Triton's keys name the image's Triton and ptxas."""
    import triton.backends.nvidia.compiler as nvidia
    from triton.runtime import cache

    cache.triton_key = lambda: image["triton"]
    nvidia.get_ptxas_version = lambda arch=80: image["ptxas"]


def listen() -> None:
    """Note each kernel that is compiled."""
    import triton
    from triton.runtime import jit

    jit.serialize_specialization_data = _without_error(jit.serialize_specialization_data)
    compiled = {}
    triton.knobs.compilation.listener = lambda **seen: compiled.update(seen)
    triton.knobs.runtime.jit_post_compile_hook = lambda **seen: _note(seen, compiled)


def _without_error(serialize: Callable[..., Any]) -> Callable[..., Any]:
    """None for a specialization that Triton cannot serialize."""

    def serialized(*args: Any) -> Any:
        try:
            return serialize(*args)
        except (TypeError, ValueError):
            return None

    return serialized


def _compiling(run: Any) -> Any:
    def compiling(self: Any, *args: Any, grid: Any, warmup: Any, **named: Any) -> Any:
        try:
            run(self, *args, grid=grid, warmup=True, **named)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip()[:300]}"
            row = {"what": f"Triton {self.module}:{self.fn.__qualname__}", "why": reason}
            if row not in LEFT:
                LEFT.append(row)
        return Launched()

    return compiling


def _untimed(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
    """Compile a configuration instead of timing it."""
    function = self.fn
    while not hasattr(function, "module"):
        function = function.fn
    TUNED[f"{function.module}:{function.fn.__qualname__}"] = len(self.configs)
    self.fn.run(*args, **{**meta, **config.all_kwargs()})
    return [1.0, 1.0, 1.0]


def _never_cached(self: Any, tuning_key: Any, configs: Any, bench: Any) -> Any:
    """Keep no timings in Triton's cache, even if a kernel's author asks for it: the device has to time."""
    bench()
    return False


def _note(seen: Any, compiled: Any) -> None:
    """A row for a kernel; none for one that was planned and not compiled."""
    from triton.runtime.cache import _base32

    if not compiled:
        return
    function = seen["fn"].jit_function
    MADE.append(
        {
            "compiler": "triton",
            "kernel": f"{function.module}:{function.fn.__qualname__}",
            "folder": _base32(compiled["metadata"]["hash"]),
            "lookup": json.loads(seen["compile"]["specialization_data"] or "null"),
        }
    )
    compiled.clear()
