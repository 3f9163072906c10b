"""Families that the traceback's frames and the options of the log decide, each with what is nearly so and is not."""

import pytest

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.log_scan import scan_log
from gb10.serving.doctor.rule_files import load_doctor_rules, load_stages
from tests.kept_cases import scanned

RULES = load_doctor_rules()
VLLM = "INFO 11-02 10:00:00 [utils.py:1] non-default args: {{'model': 'o/m', {options}}}\n"
SGLANG = "[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/models/m', {options})\n"


def log_of(error: str, *frames: str, start: str = "") -> str:
    """A log of one traceback; a frame is ``file:function`` or ``file:function:code``."""
    steps = ""
    for file, function, code in ((*frame.split(":", 2), "g()")[:3] for frame in frames):
        path = file if file.startswith("/") else f"/v/lib/python3.12/site-packages/{file}"
        steps += f'  File "{path}", line 9, in {function}\n    {code}\n'
    return f"{start}Traceback (most recent call last):\n{steps}{error}\n"


def told(log: str) -> tuple[str, str]:
    """The code of the only finding, and what is said of it."""
    (one,) = diagnose(RULES, Evidence(logs={"log": scanned(log)})).seen
    return one.code, f"{one.words(one.rule.meaning)} {one.words(one.rule.action)} {one.note}" if one.rule else one.note


ENCODER = ("vllm/models/o_mm.py:embed", "vllm/models/o_vision.py:forward", "vllm/quantization/w4a4_nvfp4.py:apply")
JOINED = "ValueError: cannot fold ['wq', 'wk'] into model.layers.3.attn.wqk: their quantization differs"
LORA = "ValueError: q_proj is not supported by this LoRA adapter"
HCA = "a1:21:30 [0] NCCL INFO NCCL_IB_HCA set by environment to rocep9s0\n"
INIT = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
NCCL = ("vllm/distributed/pynccl.py:__init__:self.comm = self.nccl.ncclCommInitRank(",)
CUDART = "OSError: libnppicc.so.13: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("log", "code", "wanted"),
    [
        (log_of("RuntimeError: rows of (9, 4) are packed", *ENCODER), "quantized-layer-is-read", "images or sound"),
        (log_of(JOINED, "vllm/layers/quantization/o.py:scheme_of"), "quantization-fields", "re:.*wqk$"),
        (log_of(INIT, *NCCL, start=HCA), "adapters-named-by-hand", "NCCL_IB_HCA=rocep9s0"),
        (
            log_of("AttributeError: module 'torch' has no attribute 'fp8_new'", "vllm/v1/o.py:cast",
                   start=VLLM.format(options="'kv_cache_dtype': 'fp8_new'")),
            "value-not-known", "--kv-cache-dtype",
        ),
        (
            log_of("ValueError: rope must be one of ['a', 'b']", "transformers/configuration_utils.py:check"),
            "file-of-a-newer-transformers", "transformers_version",
        ),
        (
            log_of("RuntimeError: grouped_thing failed with CUDA error invalid argument", "flashinfer/o.py:run"),
            "kernel-launch-refused", "CUDA did not start grouped_thing",
        ),
        (
            log_of("AssertionError: </mull> must map to one token", "vllm/reasoning/o_parser.py:__init__",
                   start=VLLM.format(options="'reasoning_parser': 'mull'")),
            "parser-of-another-model", "now --reasoning-parser mull",
        ),
        (log_of(CUDART, "torch/_ops.py:load_library"), "library-of-another-cuda", "nvidia-npp"),
        (
            'E1102 10:00:01.8 1 cmd.go:45] "failed" err="mkdir cache/o: permission denied"\n',
            "not-writable", "does not begin with /",
        ),
        ("error: build failed for kernels/o_sm90.cu\n", "kernel-source-does-not-compile", "o_sm90.cu"),
        (
            log_of("RuntimeError: operation not permitted", "vllm/v1/o.py:capture_model", "vllm/v1/o.py:run"),
            "capture-fails", "--enforce-eager",
        ),
        (
            log_of("O.BadBackend: mm_o does not support backend 'fooround' with capability 121", "flashinfer/u.py:run"),
            "kernel-without-this-arch", "of the backend fooround",
        ),
    ],
)  # fmt: skip
def test_frames_and_options_name_the_part(log: str, code: str, wanted: str) -> None:
    (seen, text) = told(log)
    assert (seen, wanted in text) == (code, True), text


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (log_of("RuntimeError: rows of (9, 4) are packed", ENCODER[2], ENCODER[1]), "quantized-layer-is-read"),
        (log_of(JOINED, "vllm/layers/linear.py:__init__"), "quantization-fields"),
        (
            log_of("ValueError: ['wq', 'wk'] of model.layers.3.attn are quantized and have no kernel",
                   "vllm/layers/quantization/o.py:scheme_of"),
            "quantization-fields",
        ),
        (
            log_of("ValueError: width must be divisible by heads (7 and 2)", "transformers/configuration_o.py:check"),
            "file-of-a-newer-transformers",
        ),
        (log_of(INIT, *NCCL), "adapters-named-by-hand"),
        (log_of(INIT, "vllm/v1/o.py:step", start=HCA), "adapters-named-by-hand"),
        (
            log_of(INIT, *NCCL, start=f"{HCA}a1:21:30 [0] net.cc:9 NCCL WARN socketPollConnect: refused\n"),
            "adapters-named-by-hand",
        ),
        (
            log_of("AttributeError: module 'torch' has no attribute 'fp8_new'", "vllm/v1/o.py:cast",
                   start=VLLM.format(options="'kv_cache_dtype': 'fp8'")),
            "value-not-known",
        ),
        (
            log_of("ValueError: a request has one of the keys twice", "transformers/tokenization_utils.py:check"),
            "file-of-a-newer-transformers",
        ),
        (log_of("RuntimeError: the upload failed with error 7", "flashinfer/o.py:run"), "kernel-launch-refused"),
        (log_of("RuntimeError: o ended with error: invalid argument", "vllm/v1/o.py:run"), "kernel-launch-refused"),
        (log_of("RuntimeError: o failed with error: invalid argument of --o", "flashinfer/o.py:run"),
         "kernel-launch-refused"),
        (log_of("RuntimeError: o needs compute capability 10.0", *ENCODER), "quantized-layer-is-read"),
        (log_of("TypeError: apply() got an unexpected keyword argument 'o'", *ENCODER), "quantized-layer-is-read"),
        (
            log_of("AttributeError: module 'torch' has no attribute 'auto'", "vllm/v1/o.py:cast",
                   start=VLLM.format(options="'kv_cache_dtype': 'auto'")),
            "value-not-known",
        ),
        (
            log_of("ValueError: /m has no known model type", "transformers/models/auto/configuration_auto.py:check"),
            "file-of-a-newer-transformers",
        ),
        (log_of("RuntimeError: operation not permitted", "vllm/v1/o.py:run"), "capture-fails"),
        (
            log_of("RuntimeError: operation not permitted", "vllm/v1/o.py:capture_hidden_states"),
            "capture-fails",
        ),
        (
            log_of("RuntimeError: (9, 4) is not divisible by 16", "vllm/models/o_mm.py:forward",
                   "vllm/models/o.py:forward", "vllm/quantization/w4a4_nvfp4.py:apply"),
            "quantized-layer-is-read",
        ),
        (
            log_of("AttributeError: module 'torch' has no attribute 'cuda'", "sglang/srt/o.py:get",
                   start=SGLANG.format(options="device='cuda'")),
            "value-not-known",
        ),
        (
            log_of("huggingface_hub.errors.StrictDataclassClassValidationError: Class validation error for 'o':\n"
                   "    ValueError: The width (7) is not a multiple of the heads (2)", "huggingface_hub/o.py:validate"),
            "file-of-a-newer-transformers",
        ),
        (log_of("ValueError: 'model.safetensors.index.json' is empty", "vllm/o.py:load_weights"), "weights-do-not-fit"),
        (log_of("ValueError: no kernel is in 'vllm.layers.o'", "vllm/o.py:load_weights"), "weights-do-not-fit"),
        (
            log_of("RuntimeError: cudaHostRegister failed with CUDA error: invalid argument", "vllm/v1/o.py:run"),
            "kernel-launch-refused",
        ),
        ("error: build failed for chart.yaml\n", "kernel-source-does-not-compile"),
    ],
)  # fmt: skip
def test_what_is_nearly_such_a_part_is_another(log: str, code: str) -> None:
    assert code not in {one.code for one in diagnose(RULES, Evidence(logs={"log": scanned(log)})).seen}


@pytest.mark.parametrize(
    ("error", "frames", "wrong"),
    [
        ("RuntimeError: no buffer for these", ("vllm/v1/o.py:capture_hidden_states",), "CUDA graphs"),
        ("RuntimeError: the device is at an odd level", ("sglang/srt/o.py:step",), "left out"),
        (
            "TypeError: Autotuner.__init__() got an unexpected keyword argument 'o'",
            ("fla/o.py:<module>", "triton/runtime/autotuner.py:decorator"),
            "read the source",
        ),
        (
            "ValueError: float64 is not supported by this architecture, supported dtypes: [bfloat16]",
            ("sglang/srt/o.py:step",),
            "e4m3 begins",
        ),
    ],
)
def test_words_that_are_nearly_a_sign_are_no_evidence(error: str, frames: tuple[str, ...], wrong: str) -> None:
    assert wrong not in told(log_of(error, *frames, start=SGLANG.format(options="device='cuda', log_level='info'")))[1]


def test_a_download_after_ready_is_no_stopped_start() -> None:
    up = "INFO 11-02 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.33.0)\nINFO: Application startup complete.\n"
    stages = load_stages()
    fetch, again = "Fetching 3 files:  10%|#\n", up.partition("\n")[0]
    for log, ready in ((up, True), (f"{up}{fetch}", True), (fetch, False), (f"{up}{again}\n{fetch}", False)):
        assert scan_log([log.encode()], RULES, marks=stages.mark).start.is_ready == ready


def test_a_message_about_a_layer_names_the_option_of_lora_only_if_it_is_about_lora() -> None:
    assert "--lora-target-modules" in told(log_of(LORA, "vllm/lora/o.py:check", start=VLLM.format(options="'a': 1")))[1]
    _, text = told(
        log_of(
            "ValueError: q_proj is not supported in two groups",
            "vllm/models/o.py:check",
            start=VLLM.format(options="'a': 1"),
        )
    )
    assert "lora" not in text.lower()


def test_a_buffer_of_the_program_s_own_is_no_memory_to_set_free() -> None:
    frame = "vllm/v1/o.py:reserve"
    buffer = told(log_of("AssertionError: the workspace needs 9.50 MB, current size is 4.25 MB", frame))
    memory = told(log_of("AssertionError: the cache needs 9.50 GiB, but only 4.25 GiB are left", frame))
    assert "Free some" not in buffer[1]
    assert memory[0] == "numbers-do-not-agree"


def test_a_message_that_says_what_to_do_is_asked_before_the_library_that_it_comes_from() -> None:
    frame = "vllm/v1/attention/backends/o.py:plan"
    code, text = told(log_of("RuntimeError: o is not planned. Use reserve_o() before the first call.", frame))
    assert (code, "Use reserve_o()" in text) == ("message-says", True)
    assert told(log_of("RuntimeError: o is not planned.", frame))[0] == "kernel-call-fails"


def test_a_file_of_an_engine_is_no_build_script_by_its_name() -> None:
    error = "ValueError: the sum of o is another one"
    assert told(log_of(error, "sglang/srt/loader/build.py:pack"))[0] != "build-script-fails"
    assert told(log_of(error, "/v/pip-req-build-9/setup.py:<module>"))[0] == "build-script-fails"


def test_an_option_that_nobody_gave_is_said_to_be_counted() -> None:
    error = "ValueError: max_num_scheduled_tokens is 0, and must be positive"
    frame = "vllm/config/o.py:check"
    _, counted = told(log_of(error, frame, start=VLLM.format(options="'max_num_seqs': 99")))
    _, given = told(log_of(error, frame, start=VLLM.format(options="'max_num_scheduled_tokens': 0")))
    assert "less the draft tokens" in counted
    assert "less the draft tokens" not in given


@pytest.mark.parametrize(
    ("start", "file", "wanted", "other"),
    [
        (SGLANG, "sglang/layers/o_fp8_gemm.py", "--fp8-gemm-backend", "--linear-backend"),
        (SGLANG, "sglang/layers/o_fp4_gemm.py", "--fp4-gemm-backend", "--linear-backend"),
        (VLLM, "vllm/layers/o_fp8_gemm.py", "--linear-backend", "gemm-backend"),
        (VLLM, "vllm/models/o_vision.py", "--mm-encoder-attn-backend", "--linear-backend"),
    ],
)
def test_each_engine_s_own_option_takes_another_kernel(start: str, file: str, wanted: str, other: str) -> None:
    log = log_of("RuntimeError: scaled_mm is not implemented for SM121", f"{file}:f", start=start.format(options="a=1"))
    code, text = told(log)
    assert code == "kernel-without-this-arch"
    assert wanted in text
    assert other not in text


def test_what_a_call_of_cuda_returned_is_no_comparison_of_tensors() -> None:
    _, status = told(log_of("RuntimeError: Check failed: (got == cudaSuccess) is false", "flashinfer/o.py:run"))
    _, tensor = told(log_of("RuntimeError: Check failed: (q.dtype() == k.dtype()) is false", "flashinfer/o.py:run"))
    assert "the GPU is not the cause" not in status
    assert "the GPU is not the cause" in tensor


def test_an_exception_that_a_message_quotes_is_not_another_error() -> None:
    log = log_of("RuntimeError: the worker says:\n  ValueError: o_mode is unknown", "vllm/v1/o.py:start")
    (one,) = diagnose(RULES, Evidence(logs={"log": scanned(log)})).seen
    assert one.value.startswith("RuntimeError")


def test_drafts_are_seen_in_what_the_scheduler_had_in_hand() -> None:
    dump = "ERROR 11-02 10:00:01 [dump.py:1] scheduled_spec_decode_tokens={%s}, num_common_prefix_blocks=[1]\n"
    error = log_of("RuntimeError: o went wrong", "vllm/v1/o.py:step")
    assert "drafts" in told(f"{dump % 'r1: [5, 6]'}{error}")[1]
    assert "drafts" not in told(f"{dump % ''}{error}")[1]


def test_a_download_by_itself_is_no_start_that_stopped() -> None:
    bars = "Fetching 3 files:  33%|###| 1/3 [00:09<00:18,  9.0s/it]\no.safetensors:   4%|4  | 99M/2.1G [00:09<03:00]\n"
    assert diagnose(RULES, Evidence(logs={"log": scanned(bars)})).seen == ()
    began = VLLM.format(options="'max_num_seqs': 9")
    assert told(f"{began}{bars}")[0] == "start-stopped"


@pytest.mark.parametrize(
    ("last", "stage"),
    [
        ("Fetching 3 files:  33%|###       | 1/3 [00:09<00:18,  9.0s/it]\n", "download"),
        ("model-00001.safetensors:   4%|4         | 99M/2.1G [00:09<03:00, 11MB/s]\n", "download"),
        ("[09:00] Fetched 3 files\n", None),
        ("Fetching origin\n", None),
    ],
)
def test_a_bar_of_a_download_is_its_stage(last: str, stage: str | None) -> None:
    ranks = scanned(last).start.ranks
    assert (ranks[""].stage if ranks else None) == stage
