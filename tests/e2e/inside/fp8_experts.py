"""In an image: the backend that vLLM's own oracle picks for FP8 experts, by capability and quantization scheme.

    fp8_experts.py [CUSTOM_OPS.py]      the file stands in for the installed vllm/_custom_ops.py

Prints a line of JSON per capability. The device is a platform object of vLLM's own class that answers with another
capability; all else is what is installed.
"""

import ctypes
import importlib
import importlib.util
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import torch

# vLLM's library names the driver's, which comes with a GPU; the image's stub has its name, and none of its functions.
ctypes.CDLL(str(Path(torch.__file__).parents[1] / "nvidia/cu13/lib/stubs/libcuda.so"))
sys.setdlopenflags(os.RTLD_LAZY)

import vllm.platforms
from vllm.platforms import cuda
from vllm.platforms.interface import DeviceCapability

CAPABILITIES = (80, 89, 90, 100, 103, 110, 120, 121, 130)


class Device(cuda.NonNvmlCudaPlatform):
    """A CUDA device of the capability in the environment."""

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        major, minor = divmod(int(os.environ["CAPABILITY"]), 10)
        return DeviceCapability(major=major, minor=minor)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "a device that is not there"


def main() -> None:
    """A child for each capability: vLLM keeps what it has found out about its device."""
    logging.disable(logging.INFO)
    vllm.platforms._current_platform = Device()
    os.environ["CAPABILITY"] = "121"
    if sys.argv[1:]:
        replace_custom_ops(sys.argv[1])
    schemes = known_schemes()
    importlib.import_module("vllm.model_executor.layers.fused_moe.oracle.fp8")
    for capability in CAPABILITIES:
        child = os.fork()
        if child == 0:
            os.environ["CAPABILITY"] = str(capability)
            print(json.dumps({"capability": capability, "chosen": ask(schemes)}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def replace_custom_ops(path: str) -> None:
    """Another text as vllm._custom_ops, before anything imports it."""
    spec = importlib.util.spec_from_file_location("vllm._custom_ops", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["vllm._custom_ops"] = vllm._custom_ops = module
    spec.loader.exec_module(module)


def known_schemes() -> dict[str, tuple[Any, Any, bool]]:
    """Weight, activation, and whether the layer allows vLLM's CUTLASS: what vLLM's quantization methods hand over."""
    from vllm.model_executor.layers.quantization.utils import quant_utils as keys

    tensor, channel, block = keys.kFp8StaticTensorSym, keys.kFp8StaticChannelSym, keys.kFp8Static128BlockSym
    return {
        "compressed-tensors channel token": (channel, keys.kFp8DynamicTokenSym, True),
        "compressed-tensors tensor dynamic": (tensor, keys.kFp8DynamicTensorSym, True),
        "compressed-tensors tensor static": (tensor, tensor, True),
        "compressed-tensors block": (block, keys.kFp8Dynamic128Sym, True),
        "fp8 tensor dynamic": (tensor, keys.kFp8DynamicTensorSym, False),
        "fp8 tensor static": (tensor, tensor, False),
        "fp8 block": (block, keys.kFp8Dynamic128Sym, False),
    }


def ask(schemes: dict[str, tuple[Any, Any, bool]]) -> dict[str, str]:
    """The choice for each scheme on the device of the environment: the value of vLLM's enumeration, or the refusal."""
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.fused_moe.oracle.fp8 import select_fp8_moe_backend

    chosen = {}
    with set_current_vllm_config(VllmConfig()):
        layer = some_layer()
        for name, (weight, activation, cutlass) in schemes.items():
            try:
                chosen[name] = select_fp8_moe_backend(layer, weight, activation, cutlass)[0].value
            except NotImplementedError as error:
                chosen[name] = str(error)
    return chosen


def some_layer() -> Any:
    """Mixtral's experts on one GPU."""
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig, FusedMoEParallelConfig, RoutingMethodType

    return FusedMoEConfig(
        num_experts=8,
        num_local_experts=8,
        num_logical_experts=8,
        experts_per_token=2,
        hidden_dim=4096,
        intermediate_size=14336,
        activation=MoEActivation.SILU,
        device="cuda",
        in_dtype=torch.bfloat16,
        routing_method=RoutingMethodType.Renormalize,
        moe_parallel_config=FusedMoEParallelConfig.make_no_parallel(),
    )


if __name__ == "__main__":
    main()
