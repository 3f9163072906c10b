"""What torch answers about a GB10 that is not there: its properties, its memory, streams that do nothing."""

import contextlib
import itertools

import spark
import torch
from no_memory import GPU

FREE = 100 << 30
PER_UNIT = {
    "shared_memory_per_block": 49152,
    "shared_memory_per_multiprocessor": 102400,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 1536,
    "warp_size": 32,
    "L2_cache_size": 24 << 20,
    "is_integrated": True,
    "uuid": "GPU-0",
}


NUMBERS = itertools.count(1)


class Stream:
    """A stream or an event: every method does nothing. Each has a number of its own."""

    device = GPU

    def __init__(self, *_, **__):
        self.cuda_stream = next(NUMBERS)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Generator:
    """The random numbers of the GPU: a state of zeros."""

    device = GPU

    def get_state(self):
        """Seed and offset."""
        return torch.zeros(16, dtype=torch.uint8)

    def set_state(self, _):
        """Nothing."""

    def initial_seed(self):
        """Zero."""
        return 0


def properties(*_):
    """All that a kernel's author may ask."""
    found = spark.properties()
    for name, value in PER_UNIT.items():
        setattr(found, name, value)
    return found


def answer(platform):
    """Put the answers where torch and the engine's platform look for them; each has its own function."""
    for name in ("synchronize", "_lazy_init", "init", "empty_cache", "set_device", "set_stream"):
        setattr(torch.cuda, name, _giving(None))
    for name in ("synchronize", "empty_cache", "set_device_index", "set_stream"):
        setattr(torch.accelerator, name, _giving(None))
    for place in (torch.cuda, torch):
        place.Stream = place.Event = Stream
    for place, name in (
        (torch.cuda, "current_stream"),
        (torch.cuda, "default_stream"),
        (torch.accelerator, "current_stream"),
    ):
        setattr(place, name, _making(Stream))
    for place, name in (
        (torch.cuda, "stream"),
        (torch.cuda, "StreamContext"),
        (torch.cuda, "device"),
        (torch.accelerator, "device_index"),
    ):
        setattr(place, name, _making(contextlib.nullcontext))
    torch.Tensor.record_stream = _giving(None)
    torch.backends.cudnn.version = _giving(None)
    torch.cuda.get_device_properties = properties
    torch.cuda.is_current_stream_capturing = _giving(False)
    for place in (torch.cuda, torch.accelerator):
        place.is_available, place.max_memory_allocated = _giving(True), _giving(0)
    torch.cuda.mem_get_info, torch.accelerator.get_memory_info = (
        _giving((FREE, spark.MEMORY)),
        _giving((FREE, spark.MEMORY)),
    )
    torch.accelerator.current_device_index, torch.accelerator.device_count = _giving(0), _giving(1)
    torch.cuda.default_generators = (Generator(),)
    platform.get_current_memory_usage = classmethod(lambda cls, device=None: 0)


def _giving(value):
    return lambda *_, **__: value


def _making(kind):
    return lambda *_, **__: kind()
