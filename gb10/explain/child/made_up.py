"""The engine starts and serves requests that are made up: its own worker, scheduler and model, with tensors of no memory."""

import types

import torch
from no_memory import GPU, NoMemory

MEMORY = 64 << 30
"""Bytes that the engine may think it has for its cache."""
STEPS = 16
"""Steps of the engine for a request at most: it makes four tokens."""
TOKENS = 4


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

    return MadeUp


def serve(core, lengths, together):
    """Requests of these lengths, one by one; then several at once, as many as ``together`` names."""
    for number, length in enumerate(lengths):
        _run(core, [_request(core, f"alone-{number}", length, greedy=number % 2 == 0)])
    for count in together:
        _run(core, [_request(core, f"{count}-{one}", 2 + one % 3, greedy=one % 2 == 0) for one in range(count)])


def _request(core, name, length, greedy):
    from vllm import SamplingParams
    from vllm.v1.request import Request

    sampling = {"temperature": 0.0} if greedy else {"temperature": 0.7, "top_p": 0.9, "top_k": 40}
    params = SamplingParams(max_tokens=TOKENS, ignore_eos=True, **sampling)
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


def modes():
    """What is active while the engine runs."""
    return NoMemory()
