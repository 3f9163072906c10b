"""SGLang starts and serves requests that are made up: its own scheduler, worker and model, with tensors of no memory."""

import array
from functools import partial

import kernel_calls
import made_up
import sglang_modules
import sglang_started
from no_memory import NoMemory


def prepare(request):
    """Stand-ins, operators, device and listeners, in the order in which SGLang looks for them."""
    import torch

    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    import gpu_answers
    import psutil
    import shape_ops
    import spark
    import stage_answers

    spark.answer_torch(tuple(request["capability"]))
    stage_answers.stand_in(request, shape_ops.compiled_ones(request["returns"], ()))
    gpu_answers.answer(type("Platform", (), {}))
    there = psutil.virtual_memory()._replace(total=spark.MEMORY, available=gpu_answers.FREE)
    psutil.virtual_memory = lambda: there  # an integrated GPU has the machine's memory
    stage_answers.listen(request["image"]["site"])
    import sglang.srt.utils.custom_op as custom_op

    custom_op._call_directly_in_eager = partial(kernel_calls.first_itself, always=True)
    sglang_modules.listen(request["image"])
    import sglang.srt.models.registry  # every model's module, once


def made(request):
    """The modules that SGLang would compile itself."""
    sglang_modules.make(request["image"])
    return sglang_modules.MADE


def left():
    """What only SGLang leaves for the device: modules that could not be compiled, and operators that did not run."""
    called = sorted(name for name in kernel_calls.CALLS if name.startswith("operator "))
    return [*sglang_modules.LEFT, *({"what": name, "why": "it did not run without a GPU"} for name in called)]


def serve(request):
    """SGLang's life: arguments, start, requests of the asked lengths."""
    import sglang.srt.distributed.bootstrap as bootstrap
    import sglang.srt.model_loader.loader as loader
    from sglang.srt.server_args import PortArgs

    loader.initialize_dummy_weights = lambda *_, **__: None
    bootstrap.init_parallel_runtime = lambda server_args, **_: sglang_started.groups(server_args)
    given = sglang_started.resolved(request["model"], request["options"])
    with NoMemory():
        scheduler = _scheduler()(given, PortArgs.init_new(given))
        batches = made_up.batches(request, *scheduler.bounds(), times=2)  # SGLang keeps a prompt
        scheduler.serve([[_request(*one) for one in batch] for batch in batches])


def _request(name, number, length):
    """One request. Prompts with different numbers have nothing in common."""
    from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    params = SamplingParams(max_new_tokens=made_up.TOKENS, **made_up.sampling(number))
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


def _channels(port_args):
    """To other processes: none."""
    from sglang.srt.managers.scheduler_components.ipc_channels import SchedulerIpcChannels

    return SchedulerIpcChannels.create(
        port_args=port_args,
        is_rank_zero=False,
        skip_tokenizer_init=True,
        metrics_enabled=False,
        enable_scripted_runtime=False,
    )


def _scheduler():
    from sglang.srt.managers.scheduler import Scheduler

    class MadeUp(Scheduler):
        """SGLang's scheduler without other processes: requests come from a list, and nobody gets an answer."""

        def init_ipc_channels(self, port_args):
            """None."""
            self.ipc_channels = _channels(port_args)
            self.load_snapshot_writer = self.recv_from_tokenizer = None

        def bounds(self):
            """The largest part of a prompt, the most requests at once, the longest request."""
            from sglang.srt.runtime_context import get_schedule

            most = get_schedule().chunked_prefill_size or self.max_prefill_tokens
            return most, self.max_running_requests, self.max_req_input_len

        def serve(self, batches):
            """Its own loop, until all are served."""
            self.batches = batches
            self.run_event_loop()

        def ingest_requests(self, stop_at_pause=False):
            """The next ones, when no other is there."""
            if self.batches and self.is_fully_idle():
                self.process_input_requests(self.batches.pop(0))
            return []

        def on_idle(self):
            """The end, after the last."""
            self.gracefully_exit = not self.batches

    return MadeUp
