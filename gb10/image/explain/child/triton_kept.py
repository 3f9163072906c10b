"""Triton's kernels are compiled for capability 12.1 when they would be launched, under the names that the image looks up."""

import json

MADE = []
"""A row for each kernel: its function, the folder of the cache, what Triton itself needs to look it up again."""
LEFT = []
"""What was not compiled, with the reason."""
TUNED = {}
"""Kernels whose configurations are timed on the device, and how many there are."""


class NoLaunch:
    """A driver that answers for a GB10 and launches nothing."""

    class utils:
        """What the compiler asks of the device."""

        get_device_properties = staticmethod(
            lambda *_: {"max_shared_mem": 101376, "multiprocessor_count": 48, "warpSize": 32, "max_num_regs": 65536}
        )

    def __init__(self, target):
        self.target = target

    def get_current_target(self):
        """Capability 12.1."""
        return self.target

    def get_current_device(self):
        """The only one."""
        return 0

    def get_current_stream(self, *_):
        """The only one."""
        return 0

    def get_device_interface(self):
        """None is asked for."""

    def get_active_torch_device(self):
        """As torch names it."""
        import torch

        return torch.device("cuda", 0)

    is_active = staticmethod(lambda: True)


class Launched:
    """A kernel that was not launched: every number of it is zero."""

    n_regs = n_spills = n_max_threads = 0
    __b12x_programs__ = ()

    def __getitem__(self, _):
        return lambda *_, **__: None


def keep(image):
    """Compile what is launched. ``image``: the triton_key and the text of ptxas in the image, by name."""
    import triton.runtime.jit as jit
    from triton.backends.compiler import GPUTarget
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.driver import driver

    driver.set_active(NoLaunch(GPUTarget("cuda", 121, 32)))
    answer_keys(image)
    jit.JITFunction.run = _compiling(jit.JITFunction.run)
    Autotuner._bench = _untimed
    Autotuner.check_disk_cache = _kept_by_nobody
    listen()


def answer_keys(image):
    """What Triton's keys name is the image's."""
    import triton.backends.nvidia.compiler as nvidia
    import triton.runtime.cache as cache

    cache.triton_key = lambda: image["triton"]
    nvidia.get_ptxas_version = lambda arch=80: image["ptxas"]


def listen():
    """Note each kernel that is compiled."""
    import triton
    import triton.runtime.jit as jit

    jit.serialize_specialization_data = _told(jit.serialize_specialization_data)
    compiled = {}
    triton.knobs.compilation.listener = lambda **seen: compiled.update(seen)
    triton.knobs.runtime.jit_post_compile_hook = lambda **seen: _note(seen, compiled)


def _told(serialize):
    def told(*args):
        try:
            return serialize(*args)
        except (TypeError, ValueError):
            return None

    return told


def _compiling(run):
    def compiling(self, *args, grid, warmup, **named):
        try:
            run(self, *args, grid=grid, warmup=True, **named)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip()[:300]}"
            row = {"what": f"Triton {self.module}:{self.fn.__qualname__}", "why": reason}
            if row not in LEFT:
                LEFT.append(row)
        return Launched()

    return compiling


def _untimed(self, *args, config, **meta):
    """Compile a configuration instead of timing it."""
    function = self.fn
    while not hasattr(function, "module"):
        function = function.fn
    TUNED[f"{function.module}:{function.fn.__qualname__}"] = len(self.configs)
    self.fn.run(*args, **{**meta, **config.all_kwargs()})
    return [1.0, 1.0, 1.0]


def _kept_by_nobody(self, tuning_key, configs, bench):
    """An author may ask Triton to keep timings in the cache; there are none here, and the device is to time."""
    bench()
    return False


def _note(seen, compiled):
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
