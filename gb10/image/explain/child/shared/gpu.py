"""The answers of torch about a GB10 that is not there: its properties, its memory, streams that do nothing."""

import contextlib
import itertools
import types
from collections.abc import Callable
from typing import Any

import torch

from gb10.image.explain.child.shared.meta_tensors import GPU

NAME = "NVIDIA GB10"
UNITS = 48
MEMORY = 128 << 30
SHARED = 101376
"""Bytes of shared memory that a block can have."""
FREE = 100 << 30
NUMBERS = itertools.count(1)


class Stream:
    """A stream or an event: every method does nothing. Each has a number of its own."""

    device = GPU

    def __init__(self, *_: object, **__: object) -> None:
        self.cuda_stream = next(NUMBERS)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Generator:
    """The random numbers of the GPU: a state of zeros."""

    device = GPU

    def get_state(self) -> Any:
        """Seed and offset."""
        return torch.zeros(16, dtype=torch.uint8)

    def set_state(self, _: object) -> None:
        """Nothing."""

    def initial_seed(self) -> int:
        """Zero."""
        return 0


def properties(*_: object) -> types.SimpleNamespace:
    """What CUDA answers about the device."""
    return types.SimpleNamespace(
        name=NAME,
        major=12,
        minor=1,
        multi_processor_count=UNITS,
        total_memory=MEMORY,
        shared_memory_per_block_optin=SHARED,
        shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=102400,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=1536,
        warp_size=32,
        L2_cache_size=24 << 20,
        is_integrated=True,
        uuid="GPU-0",
    )


def answer_device(capability: tuple[int, int]) -> None:
    """Let torch answer about the device: what the choice of a kernel asks."""
    torch.cuda.get_device_capability = _giving(capability)
    torch.cuda.get_device_properties = properties
    torch.cuda.get_device_name = _giving(NAME)
    torch.cuda.device_count = _giving(1)
    torch.cuda.current_device = torch.accelerator.current_device_index = _giving(0)
    torch.cuda.Stream = torch.cuda.Event = Stream


def answer_run_time(platform: Any = None) -> None:
    """Let torch, and the engine's ``platform``, answer what a model that runs asks: streams, memory, random numbers.

    Each name gets a function of its own.
    """
    for name in ("synchronize", "_lazy_init", "init", "empty_cache", "set_device", "set_stream"):
        setattr(torch.cuda, name, _giving(None))
    for name in ("synchronize", "empty_cache", "set_device_index", "set_stream"):
        setattr(torch.accelerator, name, _giving(None))
    torch.cuda.Stream = torch.cuda.Event = torch.Stream = torch.Event = Stream
    torch.cuda.current_stream, torch.cuda.default_stream = _making(Stream), _making(Stream)
    torch.accelerator.current_stream = _making(Stream)
    for name in ("stream", "StreamContext", "device"):
        setattr(torch.cuda, name, _making(contextlib.nullcontext))
    torch.accelerator.device_index = _making(contextlib.nullcontext)
    torch.Tensor.record_stream = _giving(None)
    torch.backends.cudnn.version = _giving(None)
    torch.cuda.is_current_stream_capturing = _giving(False)
    for place in (torch.cuda, torch.accelerator):
        place.is_available, place.max_memory_allocated = _giving(True), _giving(0)
    torch.cuda.mem_get_info, torch.accelerator.get_memory_info = _giving((FREE, MEMORY)), _giving((FREE, MEMORY))
    torch.accelerator.current_device_index, torch.accelerator.device_count = _giving(0), _giving(1)
    torch.cuda.default_generators = (Generator(),)
    if platform:
        platform.get_current_memory_usage = classmethod(lambda cls, device=None: 0)


def _giving(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _making(kind: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *_, **__: kind()
