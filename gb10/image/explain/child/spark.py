"""The GPU that the engine's own platform code sees: capability 12.1, and what else a GB10 answers."""

import types

import torch

NAME = "NVIDIA GB10"
UNITS = 48
MEMORY = 128 << 30
SHARED = 101376
"""Bytes of shared memory that a block can have."""


def properties(*_):
    """What CUDA answers about the device."""
    return types.SimpleNamespace(
        name=NAME,
        major=12,
        minor=1,
        multi_processor_count=UNITS,
        total_memory=MEMORY,
        shared_memory_per_block_optin=SHARED,
    )


def become_spark(capability: tuple[int, int]):
    """Make the engine's CUDA platform the current one, with this capability. Returns its class."""
    import vllm.platforms as platforms
    from vllm.platforms.cuda import NvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Spark(NvmlCudaPlatform):
        """The engine's own platform; only the answers of the driver are replaced."""

        get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(*capability))
        get_device_name = classmethod(lambda cls, device_id=0: NAME)
        get_device_uuid = classmethod(lambda cls, device_id=0: NAME)
        get_device_total_memory = classmethod(lambda cls, device_id=0: MEMORY)
        is_fully_connected = classmethod(lambda cls, ids: True)
        device_count = classmethod(lambda cls: 1)
        num_compute_units = classmethod(lambda cls, device_id=0: UNITS)
        log_warnings = classmethod(lambda cls: None)

        @classmethod
        def has_device_capability(cls, wanted, device_id=0):
            """Whether the device has at least this capability."""
            return capability >= (wanted if isinstance(wanted, tuple) else divmod(wanted, 10))

    platforms._current_platform = Spark()
    answer_torch(capability)
    return Spark


def answer_torch(capability: tuple[int, int]) -> None:
    """What torch answers about the device."""
    torch.cuda.get_device_capability = lambda *_: capability
    torch.cuda.get_device_properties = properties
    torch.cuda.get_device_name = lambda *_: NAME
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = torch.accelerator.current_device_index = lambda: 0
    for name in ("Stream", "Event"):
        setattr(torch.cuda, name, type(name, (), {"__init__": lambda self, *_, **__: None}))
