"""Which kernels vLLM chooses for a model: its own code builds the model's layers on torch's meta device."""

import importlib
import json
import pkgutil
import sys
import traceback
from pathlib import Path
from typing import Any

from gb10.image.explain.child.shared import stand_ins
from gb10.image.explain.child.shared.engine_errors import stopped, unknown_parts
from gb10.image.explain.child.shared.fork import Forked
from gb10.image.explain.child.shared.values import Request, Row
from gb10.image.explain.child.vllm import packages, recorder, rows
from gb10.image.explain.child.vllm.platform import install_platform

ENGINE = "vllm"
SLOW = ("torch._inductor.config", "torch._dynamo", "torch.distributed.tensor", "transformers", "aiohttp")
"""Slow imports of both the patched release and upstream's: made once, before this process forks."""
QUANTIZATIONS = ("quantization_config", "compression_config")


def answer(request: Request) -> list[dict[str, Any]]:
    """The documents of the models. For the patched release each row also has the kernel that upstream's chooses."""
    if not request["originals"]:
        return release_answers(request)
    for name in SLOW:
        importlib.import_module(name)
    if request["upstream"]:
        return upstream_answers(request)
    upstream = Forked(upstream_answers, request)
    found = release_answers(request)
    return [{**one, **with_upstream(one["rows"], other)} for one, other in zip(found, upstream.document(), strict=True)]


def upstream_answers(request: Request) -> list[dict[str, Any]]:
    """The documents of upstream's release: without our patches, and without packages of ours."""
    sys.meta_path.insert(0, stand_ins.Originals(request["originals"]))
    sys.path[:] = [path for path in sys.path if path not in request["own"]]
    return release_answers(request)


def release_answers(request: Request) -> list[dict[str, Any]]:
    """The documents of one release for the models."""
    kept = prepare(request)
    found = [Forked(document, {**request, "model": model}).document() for model in request["models"]]
    del kept
    return found


def prepare(request: Request) -> Any:
    """Install stand-ins, device and listeners, in the order in which vLLM looks for them. What must stay alive."""
    import torch

    torch.version.cuda = request["cuda"]
    import vllm  # noqa: F401 - what it imports of torch must not meet the stand-in of Triton

    stand_ins.install(request["stand_ins"], request["compiled"])
    kept = stand_ins.register(request["schemas"], request["operators"], request["answers"])
    platform = install_platform(tuple(request["capability"]))
    packages.answer_from_sources(request["present"])
    packages.answer_b12x(tuple(request["capability"]))
    importlib.import_module("flashinfer")  # it takes a stand-in of these for the package
    stand_ins.install(dict.fromkeys(request["late"], "9999"), ())
    import vllm.model_executor.layers.fused_moe.modular_kernel as experts
    import vllm.model_executor.layers.fused_moe.oracle as package
    from vllm.model_executor.kernels import linear

    recorder.listen_to_linear(linear)
    recorder.listen_to_experts(experts.FusedMoEExperts)
    recorder.listen_to_attention(platform)
    # Each chooses experts of one format. All are imported before one is wrapped: some take functions of others.
    names = [found.name for found in pkgutil.iter_modules(package.__path__)]
    recorder.listen_to_oracles([importlib.import_module(f"{package.__name__}.{name}") for name in names])
    return platform, kept


def document(request: Request) -> dict[str, Any]:
    """A row for every kind of layer of one model, and the engine's error when it stopped."""
    failed: dict[str, Any] = {"stopped": None}
    found: list[Row] = []
    tried: list[tuple[str, str | None]] = []
    notes: list[str] = []
    try:
        config = engine_config(request)
        model = build(config)
    except Exception as error:
        traceback.print_exc()
        lacks = unknown_parts(model_config(request), *registries())
        failed = {**stopped(error, ENGINE, request["model"]), **lacks}
        tried = rows.unfinished()
    else:
        found, notes = rows.rows(model, config), unread_quantization(config, request)
    return {**failed, "rows": found, "tried": tried, "notes": notes}


def engine_config(request: Request, eager: bool = True) -> Any:
    """The engine's own configuration of this model, from its command-line options; ``eager``: without CUDA graphs."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda inspect: inspect()
    _raise_import_errors(registry)
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


def _raise_import_errors(registry: Any) -> None:
    """Raise why a model's class cannot be imported: vLLM logs it, and raises that the model is not supported."""
    inspect, refuse = registry._LazyRegisteredModel.inspect_model_cls, registry._ModelRegistry._raise_for_unsupported
    met: list[Exception] = []

    def noting(self: Any) -> Any:
        try:
            return inspect(self)
        except Exception as error:
            met.append(error)
            raise

    def refusing(self: Any, architectures: Any) -> None:
        if met:
            raise met[-1]
        refuse(self, architectures)

    registry._LazyRegisteredModel.inspect_model_cls = noting
    registry._ModelRegistry._raise_for_unsupported = refusing


def build(config: Any) -> Any:
    """The model with all its layers, without memory for their weights."""
    import torch
    import vllm.distributed.parallel_state as parallel
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    with set_current_vllm_config(config):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        parallel.init_distributed_environment(1, 0, "env://", 0, "gloo")
        parallel.ensure_model_parallel_initialized(1, 1)
        torch.set_default_dtype(config.model_config.dtype)
        with torch.device("meta"), stand_ins.OnMeta():
            return initialize_model(vllm_config=config)


def registries() -> tuple[set[str], set[str]]:
    """The architectures and the types of configurations that the release knows."""
    import vllm.transformers_utils.config as configs
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from vllm.model_executor.models.registry import ModelRegistry

    return {*ModelRegistry.get_supported_archs()}, {*CONFIG_MAPPING, *configs._CONFIG_REGISTRY}


def model_config(request: Request) -> dict[str, Any]:
    """The model's config.json."""
    found: dict[str, Any] = json.loads(Path(request["model"], "config.json").read_text(encoding="utf-8"))
    return found


def unread_quantization(config: Any, request: Request) -> list[str]:
    """A note where config.json says how the model is quantized, and the engine reads nothing of it."""
    own = model_config(request)
    places = (own, own.get("text_config") if isinstance(own.get("text_config"), dict) else {})
    named = [name for place in places for name in QUANTIZATIONS if place and place.get(name)]
    if not named or config.model_config.quantization is not None:
        return []
    return [f"vLLM reads no quantization from the config's {named[0]}: every layer is as if it had none"]


def with_upstream(found: list[Row], upstream: dict[str, Any]) -> dict[str, Any]:
    """The rows, with upstream's kernel where it is another one; and upstream's error, if it stopped."""
    kernels = {(row["name"], row["class"], row["count"]): row["chosen"] for row in upstream["rows"]}
    compared = []
    for row in found:
        other = kernels.get((row["name"], row["class"], row["count"]), row["chosen"])
        compared.append({**row, "upstream": other} if other not in (None, row["chosen"]) else row)
    return {"rows": compared, "upstream_stopped": upstream["stopped"]}
