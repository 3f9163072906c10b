"""SGLang's own start until its model is built: arguments, configuration, groups, layers. Tensors have no memory."""

import sys

import kernel_calls
import torch


def prepare(request):
    """Stand-ins, device and listeners, in the order in which SGLang looks for them."""
    torch.version.cuda = request["cuda"]
    torch.cuda.is_available = lambda: True
    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    import gpu_answers
    import spark
    import stand_ins

    spark.answer_torch(tuple(request["capability"]))
    stand_ins.install(request["stand_ins"], request["compiled"])
    kept = stand_ins.register(request["schemas"], request["operators"], request["answers"], kernel_calls.compiled_ones)
    major, minor = request["capability"]
    kernel_calls.listen_to_triton(10 * major + minor)
    gpu_answers.answer(type("Platform", (), {}))
    kernel_calls.listen_to_flashinfer()
    listen_to_own_kernels()
    stand_ins.install(dict.fromkeys(request.get("late", ()), "9999"), ())  # FlashInfer would take it for the package
    import sglang.srt.models.registry  # every model's module, once

    return kept


def listen_to_own_kernels():
    """Kernels that SGLang compiles at first use are noted; its operators written in Python run, as they do on a GPU."""
    import sglang.kernels.jit.utils.compile.loader as loader
    import sglang.srt.utils.custom_op as custom_op

    custom_op._call_directly_in_eager = kernel_calls.first_itself
    own = loader.load_jit

    def load(name, *_, **__):
        return kernel_calls.Noted(f"SGLang {name}")

    for module in [*sys.modules.values()]:
        if vars(module).get("load_jit") is own:
            module.load_jit = load


def resolved(model, options):
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


def configured(given):
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


def groups(given):
    """The groups of one process, without a network."""
    import sglang.srt.distributed.bootstrap as bootstrap

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    bootstrap._init_parallel_groups(backend="gloo", dist_init_method="env://", server_args=given, gpu_id=0)


def built(given, config):
    """The model with all its layers, in the groups of one process."""
    import sglang.srt.distributed.bootstrap as bootstrap
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.model_loader.loader import _get_quantization_config, _initialize_model
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    groups(given)
    bootstrap.init_layer_runtime(model_config=config)
    load = LoadConfig(load_format="dummy")
    quantization = _get_quantization_config(config, load)
    with set_default_torch_dtype(config.dtype), torch.device("meta"):
        return _initialize_model(config, load, quantization)
