"""vLLM's platform on a GB10 that is not there: vLLM's own class, with our answers in place of the driver's."""

from typing import Any

from gb10.image.explain.child.shared import gpu


def install_platform(capability: tuple[int, int]) -> Any:
    """Make vLLM's CUDA platform the current one, with this capability, and let torch answer. Returns its class."""
    from vllm import platforms
    from vllm.platforms.cuda import NvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Platform(NvmlCudaPlatform):
        """Only the answers of the driver are replaced."""

        get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(*capability))
        get_device_name = classmethod(lambda cls, device_id=0: gpu.NAME)
        get_device_uuid = classmethod(lambda cls, device_id=0: gpu.NAME)
        get_device_total_memory = classmethod(lambda cls, device_id=0: gpu.MEMORY)
        is_fully_connected = classmethod(lambda cls, ids: True)
        device_count = classmethod(lambda cls: 1)
        num_compute_units = classmethod(lambda cls, device_id=0: gpu.UNITS)
        log_warnings = classmethod(lambda cls: None)

        @classmethod
        def has_device_capability(cls, wanted: tuple[int, int] | int, device_id: int = 0) -> bool:
            """Whether the device has at least this capability: ``(12, 1)`` or 121."""
            return capability >= (wanted if isinstance(wanted, tuple) else divmod(wanted, 10))

    platforms._current_platform = Platform()
    gpu.answer_device(capability)
    return Platform
