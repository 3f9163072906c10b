"""SGLang starts and serves requests that are made up: its own scheduler, worker and model, with tensors of no memory."""

import array
from functools import partial

import kernel_calls
import sglang_modules
import sglang_started
from no_memory import NoMemory

TOKENS = 4
"""What each request makes."""


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
    stage_answers.listen()
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
        scheduler.serve(_batches(request, *scheduler.bounds()))


def _batches(request, most, many, longest):
    """Lists of requests that come together; each prompt comes once more, when SGLang has kept it.

    ``most``, ``many`` and ``longest``: SGLang's bounds.
    """
    lengths = [one for one in (*request["lengths"], most, most + 1) if one <= longest - TOKENS]
    alone = [[_request(f"alone-{number}", number, length)] for number, length in enumerate(lengths)]
    again = [[_request(f"again-{number}", number, length)] for number, length in enumerate(lengths)]
    counts = [one for one in (*request["together"], many) if one <= many]
    together = [[_request(f"{count}-{one}", one, 2 + one % 3) for one in range(count)] for count in counts]
    return [*alone, *again, *together]


def _request(name, number, length):
    """One request: every second is greedy. Prompts with different numbers have nothing in common."""
    from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
    from sglang.srt.sampling.sampling_params import SamplingParams

    sampling = {"temperature": 0.0} if number % 2 == 0 else {"temperature": 0.7, "top_p": 0.9, "top_k": 40}
    params = SamplingParams(max_new_tokens=TOKENS, ignore_eos=True, **sampling)
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
