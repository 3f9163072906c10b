"""In an image: a library of vLLM's loaded; the operators that it brings as a line of JSON."""

import ctypes
import importlib
import json
import os
import sys
from pathlib import Path

import torch

# It names the driver's library, which comes with a GPU; the image's stub has its name, and none of its functions.
ctypes.CDLL(str(Path(torch.__file__).parents[1] / "nvidia/cu13/lib/stubs/libcuda.so"))
sys.setdlopenflags(os.RTLD_LAZY)
importlib.import_module("vllm")  # with it torch registers operators of its own
BEFORE = set(torch._C._dispatch_get_all_op_names())
importlib.import_module(f"vllm.{sys.argv[1]}")
print(json.dumps(sorted(set(torch._C._dispatch_get_all_op_names()) - BEFORE)))
