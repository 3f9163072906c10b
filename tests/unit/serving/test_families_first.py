"""What doctor says first: the cause before what points to it, and a remedy that the facts at hand decide."""

import pytest

from gb10.serving.doctor.diagnosis import Finding
from tests.unit.serving.test_families import found, spoken

V = "/v/lib/python3.12/site-packages"
NON_DEFAULT = "(APIServer pid=1) INFO 05-07 08:02:11 [utils.py:233] non-default args: {{{options}}}\n"


def trace(*frames: tuple[str, str, str], error: str, options: str = "'model': 'm'") -> str:
    """A traceback behind the options of a server: frames are a file, a function and a line of code."""
    lines = "".join(f'  File "{V}/{file}", line 9, in {where}\n    {code}\n' for file, where, code in frames)
    return f"{NON_DEFAULT.format(options=options)}Traceback (most recent call last):\n{lines}{error}\n"


def first(log: str) -> Finding:
    return next(one for one in found(log) if one.level == "error")


def test_a_line_before_the_first_time_comes_before_it() -> None:
    log = (
        "node:1:2 [0] misc/ibvwrap.cc:205 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
        "rocep1s0f0:1, curr state INIT, next state RTR, local GID index 3\n"
        "(Worker_TP0 pid=88) ERROR 09-14 10:02:11 [a.py:9] RuntimeError: NCCL error: unhandled system error\n"
    )
    one = first(log)
    assert (one.code, one.line) == ("roce-cannot-connect", 1)
    assert [other.code for other in found(log)] == ["roce-cannot-connect"]


def test_a_wrapper_that_points_below_is_an_echo_of_what_stands_there() -> None:
    below = "OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory\n"
    wrapper = "RuntimeError: Could not load it.{end}\n\n"
    frame = f'Traceback (most recent call last):\n  File "{V}/a/b.py", line 9, in f\n    g()\n'
    (one,) = found(f"{frame}{wrapper.format(end=' See the errors below')}{frame}{below}")
    assert (one.code, one.echoes) == ("library-of-another-cuda", 1)
    assert len(found(f"{frame}{wrapper.format(end='')}{frame}{below}")) == 2


def test_a_bare_line_is_told_by_the_traceback_of_the_same_error() -> None:
    error = "KeyError: 'layers.0.self_attn.qkv_proj.weight'\n"
    log = trace(("sglang/srt/models/llama_eagle.py", "load_weights", "param = params_dict[name]"), error=error)
    one = first(f"{error}{log}")
    assert one.line == 1
    assert "draft" in spoken(one)


OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 44.40 GiB"


@pytest.mark.parametrize(
    ("file", "where", "wanted"),
    [
        ("vllm/v1/worker/gpu_model_runner.py", "capture_model", "--max-cudagraph-capture-size"),
        ("flashinfer/autotuner.py", "choose_one", "--no-enable-flashinfer-autotune"),
        ("vllm/v1/worker/gpu_model_runner.py", "profile_run", "--gpu-memory-utilization does not"),
        ("vllm/model_executor/model_loader/base_loader.py", "load_model", "no setting of the cache helps"),
        ("vllm/v1/worker/gpu_model_runner.py", "initialize_kv_cache", "a smaller --gpu-memory-utilization (now 0.95)"),
        ("vllm/v1/sample/sampler.py", "forward", "--max-num-seqs"),
    ],
)
def test_memory_that_runs_out_is_told_by_the_step_that_wanted_it(file: str, where: str, wanted: str) -> None:
    log = trace(
        ("vllm/v1/engine/core.py", "__init__", "f()"),
        (file, where, "x = torch.empty(n)"),
        error=f"{OUT} of which 37.31 MiB is free.",
        options="'model': 'm', 'gpu_memory_utilization': 0.95",
    )
    one = first(log)
    assert one.code == "memory-is-taken"
    assert wanted.lower() in spoken(one).lower()


@pytest.mark.parametrize(("own", "others"), [("44.30", False), ("20.00", True)])
def test_memory_that_others_hold_is_told_by_the_numbers(own: str, others: bool) -> None:
    error = f"{OUT} of which 37.31 MiB is free. Including non-PyTorch memory, this process has {own} GiB memory in use."
    log = trace(("vllm/v1/worker/gpu_model_runner.py", "capture_model", "x()"), error=error)
    assert ("of other processes: end them first" in spoken(first(log))) is others


def test_training_that_runs_out_of_memory_gets_no_option_of_a_server() -> None:
    frame = f'  File "{V}/trainer/loop.py", line 9, in step\n    x()\n'
    one = first(f"Traceback (most recent call last):\n{frame}{OUT} of which 37.31 MiB is free.\n")
    assert "a step of requests" not in spoken(one)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("num_speculative_tokens must be provided with a draft", "a field of --speculative-config"),
        ("this method needs num_speculative_tokens", "a field of --speculative-config"),
        ("this does not require num_speculative_tokens, but speculative decoding is not supported here", ""),
    ],
)
def test_a_setting_that_is_missing_is_what_to_give(said: str, wanted: str) -> None:
    error = (
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n  Value error, {said}"
    )
    text = spoken(first(trace(("vllm/engine/arg_utils.py", "f", "g()"), error=error)))
    assert ("is what is missing" in text) is bool(wanted)
    assert wanted in text


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("is_sm100_supported() or is_sm90_supported()", "kernel-without-this-arch"),
        ("current_platform.is_device_capability(90)", "kernel-without-this-arch"),
        ("current_platform.has_device_capability(80)", "unknown"),
        ("is_sm120_supported()", "unknown"),
    ],
)
def test_a_bare_condition_on_the_gpu_is_read_where_12_1_does_not_pass_it(condition: str, code: str) -> None:
    log = trace(("sglang/srt/layers/quantization/fp8.py", "__init__", f"assert {condition}"), error="AssertionError")
    assert first(log).code == code


@pytest.mark.parametrize(
    ("shapes", "packed"),
    [((2048, 2048, 2048, 4096), True), ((2048, 2048, 2048, 6144), False), ((1024, 2048, 2048, 4096), False)],
)
def test_a_factor_of_two_in_one_dimension_is_a_packed_layer(shapes: tuple[int, int, int, int], packed: bool) -> None:
    one, two, three, four = shapes
    log = trace(
        ("sglang/srt/models/a.py", "load_weights", "loader(param)"),
        ("sglang/srt/layers/parameter.py", "load_qkv_weight", "assert param_data.shape == loaded_weight.shape, ("),
        error=f"AssertionError: param_data.shape=torch.Size([{one}, {two}]), loaded_weight.shape=torch.Size([{three}, "
        f"{four}])",
        options="'model': 'm', 'quantization': 'modelopt_fp4'",
    )
    assert first(log).code == "weights-do-not-fit"
    assert ("packs two numbers into a byte" in spoken(first(log))) is packed


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("unrecognized arguments: bash -c vllm serve m", "command-read-as-options"),
        ("unrecognized arguments: --bash-completion x", "option-not-known"),
    ],
)
def test_a_command_that_an_entrypoint_got_is_no_unknown_option(said: str, code: str) -> None:
    assert first(f"vllm serve: error: {said}\n").code == code


@pytest.mark.parametrize(("said", "parts"), [("start (22) + length (2)", 8), ("start (3) + length (2)", 0)])
def test_a_rank_behind_the_end_of_a_weight_says_how_many_ranks_it_has(said: str, parts: int) -> None:
    log = trace(
        ("sglang/srt/models/a.py", "load_weights", "loader(param)"),
        error=f"RuntimeError: {said} exceeds dimension size (16).",
        options="'model': 'm', 'tensor_parallel_size': 16",
    )
    assert (f"has parts for {parts} ranks" in spoken(first(log))) is bool(parts)
    assert first(log).code == "weights-do-not-fit"


@pytest.mark.parametrize(("code", "who"), [("from mooncake.engine import E", "mooncake"), ("from . import _C", "vllm")])
def test_a_library_of_another_cuda_is_of_the_package_that_was_imported(code: str, who: str) -> None:
    error = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    assert spoken(first(trace(("vllm/a.py", "<module>", code), error=error))).startswith(f"{who} was built for CUDA 12")


@pytest.mark.parametrize(
    ("stages", "told"), [("'pipeline_parallel_size': 2", True), ("'tensor_parallel_size': 2", False)]
)
def test_a_weight_that_is_not_there_may_be_of_another_stage(stages: str, told: bool) -> None:
    log = trace(
        ("vllm/models/a.py", "load_weights", "param = params_dict[name]"),
        error="KeyError: 'layers.23.self_attn.fused_qkv_a_proj.weight'",
        options=f"'model': 'm', {stages}",
    )
    assert ("Pipeline stages are on" in spoken(first(log))) is told


@pytest.mark.parametrize(("file", "told"), [("fla/ops/chunk.py", True), ("attention/ops/paged.py", False)])
def test_sizes_of_the_cache_are_left_out_where_linear_attention_crashed(file: str, told: bool) -> None:
    log = trace(
        (f"vllm/model_executor/layers/{file}", "f", "kernel[grid]("),
        error="torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        options="'model': 'm', 'block_size': 128",
    )
    assert ("without --block-size 128" in spoken(first(log))) is told


@pytest.mark.parametrize(
    ("check", "wanted"),
    [("hparams.n_layer_nextn < hparams.n_layer_all", "a check of its drafts"), ("obj_new", "a check of its own")],
)
def test_the_names_in_a_check_of_ggml_say_which_part_it_is(check: str, wanted: str) -> None:
    log = f"main: loading model\n/src/llama.cpp/src/llama-model.cpp:1227: GGML_ASSERT({check}) failed\n"
    assert wanted in spoken(first(log))


def test_a_driver_is_mended_on_the_host() -> None:
    log = (
        "ERROR: This container was built for NVIDIA Driver Release 590.48 or later, but\n"
        "       version 580.159.03 was detected and compatibility mode is UNAVAILABLE.\n"
    )
    assert "a driver of 590.48 or newer" in spoken(first(log))


@pytest.mark.parametrize(
    ("where", "code"), [("__getattribute__", "package-of-another-time"), ("check", "message-says")]
)
def test_a_name_that_a_package_does_not_hand_out_is_of_another_time(where: str, code: str) -> None:
    log = trace(
        ("vllm/transformers_utils/a.py", "get_head_size", "head_dim = config.head_dim"),
        ("transformers/integrations/b.py", where, "raise AmbiguousError("),
        error="transformers.integrations.b.AmbiguousError: 'head_dim' may vary. Set `x` to `True` on the config.",
    )
    assert first(log).code == code
