"""vLLM starts and serves requests that are made up: its own worker, scheduler and model, with tensors of no memory."""

import importlib.util
import types

import made_up
import torch
from no_memory import GPU, NoMemory

MEMORY = 64 << 30
"""Bytes that the engine may think it has for its cache."""
STEPS = 16
"""Steps of the engine for a request at most: it makes four tokens."""
DEEP_GEMM = set()
"""Functions of DeepGEMM that were called."""


def prepare(request):
    """Stand-ins, operators and device, in the order in which vLLM looks for them."""
    import gpu_answers
    import presence
    import shape_ops
    import spark
    import stage_answers

    import vllm  # its start is not to meet a stand-in

    late = sum(request["late"].values(), [])
    stage_answers.stand_in(request, shape_ops.compiled_ones(request["returns"], late))
    import vllm.utils.torch_utils as utils

    spaces = sum(request["operators"].values(), [])
    shape_ops.python_ones(utils, [f"{space}::{name}" for space in spaces for name in request["returns"]])
    gpu_answers.answer(spark.become_spark(tuple(request["capability"])))
    presence.answer_packages(request["present"])
    stage_answers.listen(request["image"]["site"])
    _answer_engine(utils, request["deep_gemm"])
    if importlib.util.find_spec("b12x"):
        import b12x_attention
        import known_values
        from vllm.model_executor.layers.fused_moe.b12x import B12xExperts

        b12x_attention.listen()
        known_values.known_within(B12xExperts, "_prepare_experts")  # b12x refuses scales that are not one


def _answer_engine(utils, numbers):
    """What the engine's own modules ask of the device or of a compiled package. ``numbers``: DeepGEMM's by function."""
    import gpu_answers
    import vllm.utils.deep_gemm as deep_gemm
    import vllm.v1.worker.gpu.buffer_utils as buffers

    utils._current_stream_tls.value = gpu_answers.Stream()
    buffers.is_uva_available = lambda: True
    buffers.get_accelerator_view_from_cpu_tensor = lambda one: torch.empty(one.shape, dtype=one.dtype, device="meta")
    deep_gemm._lazy_init = lambda: None
    deep_gemm.set_mk_alignment_for_contiguous_layout = lambda _: None
    for name in [name for name in vars(deep_gemm) if name.endswith("_impl")]:
        setattr(deep_gemm, name, _deep_gemm_call(name.strip("_").removesuffix("_impl"), numbers))


def _deep_gemm_call(name, numbers):
    """A function of DeepGEMM, which compiles in its own library: it returns a number, or its first tensor."""

    def call(*args, **named):
        if name in numbers:
            return numbers[name]
        DEEP_GEMM.add(name)
        return next((one for one in (*args, *named.values()) if isinstance(one, torch.Tensor)), None)

    return call


def made(request):
    """vLLM compiles nothing itself; b12x keeps what it compiles."""
    import b12x_programs

    b12x_programs.make(request)
    return b12x_programs.MADE


def left():
    """What only vLLM leaves for the device: operators whose library has PTX alone, and what DeepGEMM compiles."""
    import b12x_programs
    import shape_ops

    late = "its library has PTX alone for 12.x, which the driver compiles"
    rows = [{"what": f"operator {name}", "why": late} for name in sorted(shape_ops.USED)]
    asks = "compiled by its library, which asks the device"
    rows += b12x_programs.LEFT
    return [*rows, *({"what": f"DeepGEMM {name}", "why": asks} for name in sorted(DEEP_GEMM))]


def serve(request):
    """vLLM's life: configuration, start, requests of the asked lengths; b12x's kernels differ by batch, too."""
    import b12x_programs
    from vllm_chosen import engine_config

    config = engine_config(request)
    with NoMemory():
        core = start(config)
        most, many = config.scheduler_config.max_num_batched_tokens, config.scheduler_config.max_num_seqs
        longest = config.model_config.max_model_len
        for batch in made_up.batches(request, most, many, longest):
            _run(core, [_request(core, *one) for one in batch])
        if b12x_programs.ASKED:
            core.model_executor.collective_rpc("run_batches", args=(graph_sizes(request),))


def graph_sizes(request):
    """The batches for which the engine makes CUDA graphs on the device."""
    from vllm_chosen import engine_config

    return engine_config(request, eager=False).compilation_config.cudagraph_capture_sizes


def start(config):
    """The engine's core, warmed up as it does itself."""
    import sys

    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    place = types.ModuleType("made_up_worker")
    place.Worker = _worker()
    sys.modules[place.__name__] = place
    config.parallel_config.worker_cls = f"{place.__name__}.Worker"
    return EngineCore(config, UniProcExecutor, log_stats=False)


def _worker():
    import vllm.distributed.parallel_state as parallel
    import vllm.model_executor.model_loader.dummy_loader as loader
    from vllm.config import set_current_vllm_config
    from vllm.v1.worker.gpu_worker import Worker

    loader.initialize_single_dummy_weight = lambda *_, **__: None

    class MadeUp(Worker):
        """The engine's worker without the device's memory and network."""

        def init_device(self):
            """Only the groups of one process."""
            self.device = GPU
            store = torch.distributed.HashStore()
            torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
            parallel.init_distributed_environment(1, 0, "env://", 0, "gloo")
            parallel.ensure_model_parallel_initialized(1, 1)
            self._init_workspace_and_model_runner()

        def determine_available_memory(self):
            """The engine's own run for its profile, and a number."""
            with set_current_vllm_config(self.vllm_config):
                self.model_runner.profile_run()
            return MEMORY

        def run_batches(self, sizes):
            """Each as the engine runs it before it makes the graph: one token of each request, where there are as many."""
            with set_current_vllm_config(self.vllm_config):
                for size in sizes:
                    self.model_runner._dummy_run(size, uniform_decode=size <= self.scheduler_config.max_num_seqs)

    return MadeUp


def _request(core, name, number, length):
    from vllm import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(max_tokens=made_up.TOKENS, **made_up.sampling(number))
    params.update_from_generation_config({}, None)
    return Request(name, list(range(1, length + 1)), params, None, block_hasher=core.request_block_hasher)


def _run(core, requests):
    for request in requests:
        core.add_request(request)
    for _ in range(STEPS):
        core.step_fn()
        if not core.scheduler.has_requests():
            return
    core.scheduler.finish_requests([request.request_id for request in requests], _ended())
    core.step_fn()


def _ended():
    from vllm.v1.request import RequestStatus

    return RequestStatus.FINISHED_ABORTED
