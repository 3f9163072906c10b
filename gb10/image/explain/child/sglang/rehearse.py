"""SGLang starts and serves made-up requests: its own scheduler, worker and model, on tensors without memory."""

import array
from functools import partial
from typing import Any

from gb10.image.explain.child.sglang import jit_modules, start
from gb10.image.explain.child.shared import gpu, kernel_calls, prompts, shape_ops
from gb10.image.explain.child.shared.meta_tensors import NoMemory
from gb10.image.explain.child.shared.values import Request, Row
from gb10.image.explain.child.stage import install_stand_ins, note_compilers


def prepare(request: Request) -> None:
    """Install stand-ins, operators, device and listeners, in the order in which SGLang looks for them."""
    import torch

    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    import psutil

    gpu.answer_device(tuple(request["capability"]))
    install_stand_ins(request, shape_ops.compiled_operators(request["returns"], ()))
    gpu.answer_run_time()
    memory = psutil.virtual_memory()._replace(total=gpu.MEMORY, available=gpu.FREE)
    psutil.virtual_memory = lambda: memory  # an integrated GPU has the machine's memory
    note_compilers(request["image"]["site"])
    from sglang.srt.utils import custom_op

    custom_op._call_directly_in_eager = partial(kernel_calls.run_or_note, always=True)
    jit_modules.listen(request["image"])
    import sglang.srt.models.registry  # noqa: F401 - every model's module, once


def made(request: Request) -> list[Row]:
    """The modules that SGLang would compile itself."""
    jit_modules.make(request["image"])
    return jit_modules.MADE


def left() -> list[Row]:
    """What only SGLang leaves for the device: modules that could not be compiled, and operators that did not run."""
    called = sorted(name for name in kernel_calls.CALLS if name.startswith("operator "))
    return [*jit_modules.LEFT, *({"what": name, "why": "it did not run without a GPU"} for name in called)]


def serve(request: Request) -> None:
    """Start SGLang with its arguments, and serve requests of the given lengths."""
    from sglang.srt.distributed import bootstrap
    from sglang.srt.model_loader import loader
    from sglang.srt.server_args import PortArgs

    loader.initialize_dummy_weights = lambda *_, **__: None
    bootstrap.init_parallel_runtime = lambda server_args, **_: start.init_groups(server_args)
    given = start.resolve_arguments(request["model"], request["options"])
    with NoMemory():
        scheduler = _scheduler()(given, PortArgs.init_new(given))
        most, many, longest = scheduler.bounds()
        batches = prompts.batches(request, most, many, longest, times=2)  # SGLang keeps a prompt
        scheduler.serve([[_request(*one) for one in batch] for batch in batches])


def _request(name: str, number: int, length: Any) -> Any:
    """One request. Prompts with different numbers have nothing in common."""
    from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    params = SamplingParams(max_new_tokens=prompts.TOKENS, **prompts.sampling(number))
    params.normalize(None)
    return TokenizedGenerateReqInput(
        rid=name,
        input_text="",
        input_ids=array.array("q", [number, *range(1, length)]),
        input_embeds=None,
        mm_inputs=None,
        token_type_ids=None,
        sampling_params=params,
        return_logprob=False,
        logprob_start_len=-1,
        top_logprobs_num=0,
        token_ids_logprob=None,
        stream=False,
    )


def _channels(port_args: Any) -> Any:
    """To other processes: none."""
    from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels

    return SchedulerIpcChannels.create(
        port_args=port_args,
        is_rank_zero=False,
        skip_tokenizer_init=True,
        metrics_enabled=False,
        enable_scripted_runtime=False,
    )


def _scheduler() -> Any:
    from sglang.srt.managers.scheduler import Scheduler

    class MadeUp(Scheduler):
        """SGLang's scheduler without other processes: requests come from a list, and nobody gets an answer."""

        def init_ipc_channels(self, port_args: Any) -> None:
            """None."""
            self.ipc_channels = _channels(port_args)
            self.load_snapshot_writer = self.recv_from_tokenizer = None

        def bounds(self) -> tuple[int, int, int]:
            """The largest part of a prompt, the most requests at once, the longest request."""
            from sglang.srt.runtime_context import get_schedule

            most = get_schedule().chunked_prefill_size or self.max_prefill_tokens
            return most, self.max_running_requests, self.max_req_input_len

        def serve(self, batches: Any) -> None:
            """Its own loop, until all are served."""
            self.batches = batches
            self.run_event_loop()

        def ingest_requests(self, stop_at_pause: Any = False) -> Any:
            """The next ones, when no other is there."""
            if self.batches and self.is_fully_idle():
                self.process_input_requests(self.batches.pop(0))
            return []

        def on_idle(self) -> None:
            """The end, after the last."""
            self.gracefully_exit = not self.batches

    return MadeUp
