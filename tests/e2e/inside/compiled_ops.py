"""In an image: vLLM's two largest libraries loaded, and what the first says of grouped FP8 GEMM; a line of JSON."""

import ctypes
import importlib
import json
import os
import sys
from pathlib import Path

import torch

# They name the driver's library, which comes with a GPU; the image's stub has its name, and none of its functions.
ctypes.CDLL(str(Path(torch.__file__).parents[1] / "nvidia/cu13/lib/stubs/libcuda.so"))
sys.setdlopenflags(os.RTLD_LAZY)
BEFORE = set(torch._C._dispatch_get_all_op_names())
CAPABILITIES = (80, 89, 90, 100, 103, 110, 120, 121, 130)

files = [importlib.import_module(f"vllm.{name}").__file__ for name in ("_C_stable_libtorch", "_moe_C_stable_libtorch")]
asked = torch.ops._C.cutlass_group_gemm_supported
print(
    json.dumps(
        {
            "files": {Path(file).name: Path(file).stat().st_size for file in files},
            "operators": sorted(set(torch._C._dispatch_get_all_op_names()) - BEFORE),
            "grouped": [capability for capability in CAPABILITIES if asked(capability)],
        }
    )
)
