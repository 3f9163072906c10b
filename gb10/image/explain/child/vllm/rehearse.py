"""vLLM starts and serves made-up requests: its own worker, scheduler and model, on tensors without memory."""

import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import torch

from gb10.image.explain.child.b12x import attention
from gb10.image.explain.child.b12x import compile as b12x
from gb10.image.explain.child.shared import gpu, known_values, prompts, shape_ops
from gb10.image.explain.child.shared.meta_tensors import GPU, NoMemory
from gb10.image.explain.child.shared.values import Request, Row
from gb10.image.explain.child.stage import install_stand_ins, note_compilers
from gb10.image.explain.child.vllm.choose import engine_config
from gb10.image.explain.child.vllm.packages import answer_packages
from gb10.image.explain.child.vllm.platform import install_platform

MEMORY = 64 << 30
"""Bytes that the engine may think it has for its cache."""
STEPS = 16
"""Steps of the engine for a request at most: it makes four tokens."""
DEEP_GEMM: set[str] = set()
"""Functions of DeepGEMM that were called."""


def prepare(request: Request) -> None:
    """Install stand-ins, operators and device, in the order in which vLLM looks for them."""
    import vllm  # noqa: F401 - its start must not meet a stand-in

    late = [*chain.from_iterable(request["late"].values())]
    install_stand_ins(request, shape_ops.compiled_operators(request["returns"], late))
    import vllm.utils.torch_utils as utils

    spaces = chain.from_iterable(request["operators"].values())
    shape_ops.run_python_operators(utils, [f"{space}::{name}" for space in spaces for name in request["returns"]])
    gpu.answer_run_time(install_platform(tuple(request["capability"])))
    answer_packages(request["present"])
    note_compilers(request["image"]["site"])
    _answer_engine(utils, request["deep_gemm"])
    if importlib.util.find_spec("b12x"):
        from vllm.model_executor.layers.fused_moe.b12x import B12xExperts

        attention.listen()
        known_values.known_within(B12xExperts, "_prepare_experts")  # b12x refuses scales that are not one


def _answer_engine(utils: Any, numbers: Mapping[str, int]) -> None:
    """Answer what vLLM's modules ask of the device or of a compiled package. ``numbers``: DeepGEMM's, by function."""
    import vllm.v1.worker.gpu.buffer_utils as buffers
    from vllm.utils import deep_gemm

    utils._current_stream_tls.value = gpu.Stream()
    buffers.is_uva_available = lambda: True
    buffers.get_accelerator_view_from_cpu_tensor = lambda one: torch.empty(one.shape, dtype=one.dtype, device="meta")
    deep_gemm._lazy_init = lambda: None
    deep_gemm.set_mk_alignment_for_contiguous_layout = lambda _: None
    for name in [name for name in vars(deep_gemm) if name.endswith("_impl")]:
        setattr(deep_gemm, name, _deep_gemm_call(name.strip("_").removesuffix("_impl"), numbers))


def _deep_gemm_call(name: str, numbers: Mapping[str, int]) -> Callable[..., Any]:
    """A function of DeepGEMM, which compiles in its own library: it returns a number, or its first tensor."""

    def call(*args: Any, **named: Any) -> Any:
        if name in numbers:
            return numbers[name]
        DEEP_GEMM.add(name)
        return next((one for one in (*args, *named.values()) if isinstance(one, torch.Tensor)), None)

    return call


def made(request: Request) -> list[Row]:
    """vLLM compiles nothing itself; b12x keeps what it compiles."""
    b12x.make(request)
    return b12x.MADE


def left() -> list[Row]:
    """What only vLLM leaves for the device: operators whose library has PTX alone, and what DeepGEMM compiles."""
    late = "its library has PTX alone for 12.x, which the driver compiles"
    rows = [{"what": f"operator {name}", "why": late} for name in sorted(shape_ops.USED)]
    asks = "compiled by its library, which asks the device"
    rows += b12x.LEFT
    return [*rows, *({"what": f"DeepGEMM {name}", "why": asks} for name in sorted(DEEP_GEMM))]


def serve(request: Request) -> None:
    """Configure and start vLLM, and serve requests of the given lengths; for b12x also each batch that has a graph."""
    config = engine_config(request)
    with NoMemory():
        core = start_core(config)
        most, many = config.scheduler_config.max_num_batched_tokens, config.scheduler_config.max_num_seqs
        longest = config.model_config.max_model_len
        for batch in prompts.batches(request, most, many, longest):
            _run(core, [_request(core, *one) for one in batch])
        if b12x.REQUESTED:
            graphs = engine_config(request, eager=False).compilation_config.cudagraph_capture_sizes
            core.model_executor.collective_rpc("run_batches", args=(graphs,))


def start_core(config: Any) -> Any:
    """The engine's core, warmed up by itself."""
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    module = types.ModuleType("made_up_worker")  # vLLM imports its worker by name
    vars(module)["Worker"] = _worker()
    sys.modules[module.__name__] = module
    config.parallel_config.worker_cls = f"{module.__name__}.Worker"
    return EngineCore(config, UniProcExecutor, log_stats=False)


def _worker() -> Any:
    import vllm.distributed.parallel_state as parallel
    import vllm.model_executor.model_loader.dummy_loader as loader
    from vllm.config import set_current_vllm_config
    from vllm.v1.worker.gpu_worker import Worker

    loader.initialize_single_dummy_weight = lambda *_, **__: None

    class MadeUp(Worker):
        """The engine's worker without the device's memory and network."""

        def init_device(self) -> None:
            """Make only the groups of one process."""
            self.device = GPU
            store = torch.distributed.HashStore()
            torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
            parallel.init_distributed_environment(1, 0, "env://", 0, "gloo")
            parallel.ensure_model_parallel_initialized(1, 1)
            self._init_workspace_and_model_runner()

        def determine_available_memory(self) -> int:
            """Make the engine's profile run, and give it MEMORY."""
            with set_current_vllm_config(self.vllm_config):
                self.model_runner.profile_run()
            return MEMORY

        def run_batches(self, sizes: Iterable[int]) -> None:
            """Run each batch as vLLM does before it makes the graph: one token per request, if there may be so many."""
            with set_current_vllm_config(self.vllm_config):
                for size in sizes:
                    self.model_runner._dummy_run(size, uniform_decode=size <= self.scheduler_config.max_num_seqs)

    return MadeUp


def _request(core: Any, name: str, number: int, length: int) -> Any:
    from vllm import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(max_tokens=prompts.TOKENS, **prompts.sampling(number))
    params.update_from_generation_config({}, None)
    return Request(name, list(range(1, length + 1)), params, None, block_hasher=core.request_block_hasher)


def _run(core: Any, requests: list[Any]) -> None:
    """Serve requests that come together; what is not done after STEPS is aborted."""
    from vllm.v1.request import RequestStatus

    for request in requests:
        core.add_request(request)
    for _ in range(STEPS):
        core.step_fn()
        if not core.scheduler.has_requests():
            return
    core.scheduler.finish_requests([request.request_id for request in requests], RequestStatus.FINISHED_ABORTED)
    core.step_fn()
