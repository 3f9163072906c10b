"""SGLang's own start until its model is built: arguments, configuration, groups, layers. Tensors have no memory."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from gb10.image.explain.child.shared import gpu, kernel_calls, stand_ins
from gb10.image.explain.child.shared.values import Request


def prepare(request: Request) -> Any:
    """Install stand-ins, device and listeners, in the order in which SGLang looks for them. What must stay alive."""
    torch.version.cuda = request["cuda"]
    torch.cuda.is_available = lambda: True
    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    gpu.answer_device(tuple(request["capability"]))
    stand_ins.install(request["stand_ins"], request["compiled"])
    kept = stand_ins.register(
        request["schemas"], request["operators"], request["answers"], kernel_calls.implement_noting
    )
    major, minor = request["capability"]
    kernel_calls.listen_to_triton(10 * major + minor)
    gpu.answer_run_time()
    kernel_calls.listen_to_flashinfer()
    listen_to_own_kernels()
    stand_ins.install(dict.fromkeys(request.get("late", ()), "9999"), ())  # FlashInfer would take it for the package
    import sglang.srt.models.registry  # noqa: F401 - every model's module, once

    return kept


def listen_to_own_kernels() -> None:
    """Note kernels that SGLang compiles at first use; its operators written in Python run, as they do on a GPU."""
    from sglang.kernels.jit.utils.compile import loader
    from sglang.srt.utils import custom_op

    custom_op._call_directly_in_eager = kernel_calls.run_or_note
    own = loader.load_jit

    def load(name: str, *_: object, **__: object) -> Any:
        return kernel_calls.Noted(f"SGLang {name}")

    for module in [*sys.modules.values()]:
        if vars(module).get("load_jit") is own:
            vars(module)["load_jit"] = load


def resolve_arguments(model: str, options: Mapping[str, Any]) -> Any:
    """SGLang's arguments for this model, resolved and published by itself."""
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    given = ServerArgs(
        model_path=model,
        skip_tokenizer_init=True,
        load_format="dummy",
        device="cuda",
        disable_cuda_graph=True,
        **options,
    )
    publish(given, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
    return given


def load_config(given: Any) -> Any:
    """The model's configuration, with the choices that SGLang's scheduler makes before it loads."""
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.layers.moe import initialize_moe_config
    from sglang.srt.layers.quantization.fp4_utils import initialize_fp4_gemm_config
    from sglang.srt.layers.quantization.fp8_utils import initialize_fp8_gemm_config
    from sglang.srt.layers.quantization.unquant import initialize_bf16_gemm_config

    config = ModelConfig.from_server_args(given)
    initialize_moe_config()
    initialize_fp8_gemm_config()
    initialize_fp4_gemm_config()
    initialize_bf16_gemm_config()
    return config


def init_groups(given: Any) -> None:
    """Make the groups of one process, without a network."""
    from sglang.srt.distributed import bootstrap

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    bootstrap._init_parallel_groups(backend="gloo", dist_init_method="env://", server_args=given, gpu_id=0)


def build(given: Any, config: Any) -> Any:
    """The model with all its layers, in the groups of one process."""
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.distributed import bootstrap
    from sglang.srt.model_loader.loader import _get_quantization_config, _initialize_model
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    init_groups(given)
    bootstrap.init_layer_runtime(model_config=config)
    load = LoadConfig(load_format="dummy")
    quantization = _get_quantization_config(config, load)
    with set_default_torch_dtype(config.dtype), torch.device("meta"):
        return _initialize_model(config, load, quantization)
