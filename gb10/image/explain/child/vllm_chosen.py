"""Builds a model's layers on the meta device with vLLM's own code, and says what it chose."""

import importlib
import json
import sys
import traceback
from pathlib import Path

ENGINE = "vllm"
SHARED = ("torch._inductor.config", "torch._dynamo", "torch.distributed.tensor", "transformers", "aiohttp")
"""What the patched release and the stock one import alike, and what takes longest of it."""
SELDOM_READ = ("quantization_config", "compression_config")


def engine_config(request, eager=True):
    """The engine's own configuration of this model, from its command-line options; ``eager``: without CUDA graphs."""
    import vllm.model_executor.models.registry as registry
    from vllm.engine.arg_utils import EngineArgs

    registry._run_in_subprocess = lambda inspect: inspect()
    _tell_what_inspection_meets(registry)
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
    importlib.import_module("flashinfer")  # it takes a stand-in of these for the package
    stand_ins.install(dict.fromkeys(request["late"], "9999"), ())
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


def _tell_what_inspection_meets(registry):
    """The engine logs why a model's class cannot be imported, and raises that it cannot: the former is the reason."""
    inspect, refuse = registry._LazyRegisteredModel.inspect_model_cls, registry._ModelRegistry._raise_for_unsupported
    met = []

    def noting(self):
        try:
            return inspect(self)
        except Exception as error:
            met.append(error)
            raise

    def refusing(self, architectures):
        if met:
            raise met[-1]
        refuse(self, architectures)

    registry._LazyRegisteredModel.inspect_model_cls = noting
    registry._ModelRegistry._raise_for_unsupported = refusing


def registries():
    """The architectures and the types of configurations that the release knows."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    import vllm.transformers_utils.config as configs
    from vllm.model_executor.models.registry import ModelRegistry

    return {*ModelRegistry.get_supported_archs()}, {*CONFIG_MAPPING, *configs._CONFIG_REGISTRY}


def given(request):
    """The model's config.json."""
    return json.loads(Path(request["model"], "config.json").read_text(encoding="utf-8"))


def unread(config, request):
    """Words for a config that says how it is quantized, of which the engine reads nothing."""
    own = given(request)
    places = (own, own.get("text_config") if isinstance(own.get("text_config"), dict) else {})
    named = [name for place in places for name in SELDOM_READ if place.get(name)]
    if not named or config.model_config.quantization is not None:
        return []
    return [f"vLLM reads no quantization from the config's {named[0]}: every layer is as if it had none"]


def asked(request):
    """The documents of one release for the models."""
    from forked import Forked

    kept = prepare(request)
    found = [Forked(document, {**request, "model": model}).document() for model in request["models"]]
    del kept
    return found


def document(request):
    """A row for every kind of layer of one model, and the engine's error when it stopped."""
    import rows
    import told

    failed, built = {"stopped": None}, None
    try:
        config = engine_config(request)
        built = build(config)
    except Exception as error:
        traceback.print_exc()
        failed = {**told.stopped(error, ENGINE, request["model"]), **told.known(given(request), *registries())}
    found = rows.rows(built, config) if built is not None else []
    notes = unread(config, request) if built is not None else []
    return {**failed, "rows": found, "tried": rows.unfinished() if built is None else [], "notes": notes}


def stock(request):
    """The documents of upstream's release: the files that patches change are upstream's, and no package is ours."""
    import stand_ins

    sys.meta_path.insert(0, stand_ins.Originals(request["originals"]))
    sys.path[:] = [path for path in sys.path if path not in request["own"]]
    return asked(request)


def answer(request):
    """The documents; where the patched release is asked, each row with what the stock one chooses instead."""
    if not request["originals"]:
        return asked(request)
    from forked import Forked

    for name in SHARED:
        importlib.import_module(name)
    if request["upstream"]:
        return stock(request)
    others = Forked(stock, request)
    found = asked(request)
    return [{**one, **beside(one["rows"], other)} for one, other in zip(found, others.document(), strict=True)]


def beside(rows, stock):
    """The rows with upstream's kernel, where it is another one; and upstream's error, if it stopped."""
    kernels = {(row["name"], row["class"], row["count"]): row["chosen"] for row in stock["rows"]}
    told = []
    for row in rows:
        other = kernels.get((row["name"], row["class"], row["count"]), row["chosen"])
        told.append({**row, "upstream": other} if other not in (None, row["chosen"]) else row)
    return {"rows": told, "upstream_stopped": stock["stopped"]}
