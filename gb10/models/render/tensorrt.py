"""The file of TensorRT-LLM's options that its server takes beside its flags: ``--extra_llm_api_options``. Pure.

sparkrun writes it from the same parameters. The keys are those of TensorRT-LLM's LLM API; JSON is YAML, too.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Final

from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "free_gpu_memory_fraction": ("kv_cache_config", "free_gpu_memory_fraction"),
    "kv_cache_dtype": ("kv_cache_config", "dtype"),
    "kv_cache_enable_block_reuse": ("kv_cache_config", "enable_block_reuse"),
    "cuda_graph_padding": ("cuda_graph_config", "enable_padding"),
    "cuda_graph_max_batch_size": ("cuda_graph_config", "max_batch_size"),
    "moe_backend": ("moe_config", "backend"),
    "print_iter_log": ("print_iter_log",),
}
"""Where each parameter of TENSORRT_FILE stands in the file."""


def options_file(parameters: Mapping[str, object]) -> dict[str, object]:
    """The file's content; empty when no parameter asks for one."""
    content: dict[str, object] = {}
    for name in TENSORRT_FILE:
        value = parameters.get(name)
        if value is None:
            continue
        *sections, key = PLACES[name]
        place = content
        for section in sections:
            below = place.setdefault(section, {})
            if isinstance(below, dict):
                place = below
        place[key] = value
    return content


def with_options_file(command: str, parameters: Mapping[str, object]) -> str:
    """The command after a line that writes the file; the command alone when it needs none."""
    content = options_file(parameters)
    if not content:
        return command
    return f"printf '%s\\n' {shlex.quote(json.dumps(content, default=str))} > {TENSORRT_PATH}\n{command}"
