"""Builds a model's layers on the meta device with vLLM's own code, and says what it chose."""

import traceback


def engine_config(request, eager=True):
    """The engine's own configuration of this model, from its command-line options; ``eager``: without CUDA graphs."""
    import vllm.model_executor.models.registry as registry
    from vllm.engine.arg_utils import EngineArgs

    registry._run_in_subprocess = lambda inspect: inspect()
    registry._LazyRegisteredModel._load_modelinfo_from_cache = lambda *_: None
    registry._LazyRegisteredModel._save_modelinfo_to_cache = lambda *_: None
    given = EngineArgs(
        model=request["model"],
        skip_tokenizer_init=True,
        trust_remote_code=False,
        load_format="dummy",
        enforce_eager=eager,
        **request["options"],
    )
    return given.create_engine_config()


def build(config):
    """The model with all its layers, without memory for their weights."""
    import torch
    import vllm.distributed.parallel_state as parallel
    from stand_ins import OnMeta
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    with set_current_vllm_config(config):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        parallel.init_distributed_environment(1, 0, "env://", 0, "gloo")
        parallel.ensure_model_parallel_initialized(1, 1)
        torch.set_default_dtype(config.model_config.dtype)
        with torch.device("meta"), OnMeta():
            return initialize_model(vllm_config=config)


def prepare(request):
    """Stand-ins, device and listeners, in the order in which the engine looks for them."""
    import torch

    torch.version.cuda = request["cuda"]
    import stand_ins

    import vllm  # what it imports of torch must not meet the stand-in of Triton

    stand_ins.install(request["stand_ins"], request["compiled"])
    kept = stand_ins.register(request["schemas"], request["operators"], request["answers"])
    import presence
    import spark

    platform = spark.become_spark(tuple(request["capability"]))
    presence.answer_from(request["present"])
    presence.answer_b12x(tuple(request["capability"]))
    import recorder
    import vllm.model_executor.kernels.linear as linear
    import vllm.model_executor.layers.fused_moe.modular_kernel as experts

    recorder.listen_to_linear(linear)
    recorder.listen_to_experts(experts.FusedMoEExperts)
    recorder.listen_to_attention(platform)
    recorder.listen_to_oracles(oracles())
    return platform, kept


def oracles():
    """The engine's modules that choose experts, one for each format."""
    import importlib
    import pkgutil

    import vllm.model_executor.layers.fused_moe.oracle as package

    names = [found.name for found in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def answer(request):
    """The document: a row for every kind of layer, and the engine's error when it stopped."""
    prepare(request)
    import rows

    stopped = None
    try:
        config = engine_config(request)
        built = build(config)
    except Exception as error:
        stopped, built = f"{type(error).__name__}: {error}", None
        traceback.print_exc()
    found = rows.rows(built, config) if built is not None else []
    return {"stopped": stopped, "rows": found, "tried": rows.unfinished() if stopped else []}
