"""Families: what an error's own evidence decides, in words that no report has (made here)."""

import pytest

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.rule_files import load_doctor_rules
from tests.kept_cases import scanned

SGLANG = "/v/lib/python3.12/site-packages/sglang/srt/"
VLLM = "/v/lib/python3.12/site-packages/vllm/"


def found(log: str) -> tuple[Finding, ...]:
    return diagnose(load_doctor_rules(), Evidence(logs={"log": scanned(log)})).seen


def said(one: Finding) -> str:
    return f"{one.words(one.rule.meaning)} {one.words(one.rule.action)} {one.note}" if one.rule else one.note


def trace(error: str, *frames: tuple[str, str, str]) -> str:
    lines = [f'  File "{file}", line 9, in {where}\n    {code}\n' for file, where, code in frames]
    return f"Traceback (most recent call last):\n{''.join(lines)}{error}\n"


LOOP = (f"{SGLANG}managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler(")


@pytest.mark.parametrize("line", ["Using the mode 'auto' of hooks", "Setting page size to 64", "Running as root"])
def test_what_a_program_does_is_no_advice(line: str) -> None:
    (one,) = found(f"Error: the hook failed to start with status 4: {line}\n")
    assert "The message itself says" not in said(one)


def test_advice_in_a_gerund_behind_a_word_of_advice_is_advice() -> None:
    (one,) = found("RuntimeError: the pool is gone. Consider using --pool-size 4 here.\n")
    assert "The message itself says: Consider using --pool-size 4 here" in said(one)


def test_the_loop_of_a_process_does_not_say_which_part_failed() -> None:
    (one,) = found(trace("IndexError: list index out of range", LOOP, (f"{SGLANG}layers/linear.py", "f", "a = b[3]")))
    assert "the KV cache" not in said(one)
    assert "--disable-radix-cache" not in said(one)


def test_a_weight_of_another_shape_is_told_by_the_line_that_compares() -> None:
    loads = (f"{VLLM}model_executor/parameter.py", "load_row_parallel_weight", "assert self.data.shape == weight.shape")
    (one,) = found(trace("AssertionError", (f"{VLLM}v1/engine/core.py", "run_engine_core", "e = f()"), loads))
    assert one.code == "weights-do-not-fit"
    (other,) = found(trace("AssertionError", (f"{VLLM}v1/attention/a.py", "forward", "assert q.shape == k.shape")))
    assert other.code != "weights-do-not-fit"


@pytest.mark.parametrize(
    ("kind", "name", "packed"),
    [
        ("RowParallelLinear", "weight_scale_inv", True),
        ("ParallelLMHead", "weight", True),
        ("RowParallelLinear", "gather_output", False),
        ("RowParallelLinear", "weight_loader_v2", False),
        ("QKVParallelLinear", "bias", False),
        ("QKVParallelLinearWithLoRA", "weight", False),
    ],
)
def test_a_layer_without_the_weight_that_the_code_reads_is_one_of_another_quantization(
    kind: str, name: str, packed: bool
) -> None:
    reads = (f"{VLLM}model_executor/models/m.py", "forward", f"x = self.o_proj.{name}.t()")
    (one,) = found(trace(f"AttributeError: '{kind}' object has no attribute '{name}'", reads))
    assert (one.code == "quantized-layer-is-read") is packed
    assert (f"{name} of o_proj ({kind})" in said(one)) is packed


@pytest.mark.parametrize(
    ("error", "none"),
    [
        ("RuntimeError: cannot find any accelerator on this host", True),
        ("NotImplementedError: Trainer only works on NVIDIA or AMD GPUs.", True),
        ("RuntimeError: this needs a GPU of compute capability 9.0", False),
        ("RuntimeError: no GPU memory is left", False),
        ("RuntimeError: The cluster has no available GPUs: 2 required, 1 free.", False),
        ("ValueError: Tensor parallel size (2) requires a CUDA GPU for each rank, but this node has 1 GPU.", False),
        ("RuntimeError: this model needs a GPU with at least 141 GB of free memory, found 119 GB", False),
        ("RuntimeError: This path only works on NVIDIA data-center GPUs", False),
        ("RuntimeError: cannot find any supported GPU for this backend, found NVIDIA GB10", False),
        ("RuntimeError: Rank 1 has no GPU: local_rank 1 is out of bounds", False),
        ("RuntimeError: no available GPU with 60 GiB free: GPU 0 (NVIDIA GB10) is used by pid 812", False),
        ("ValueError: Current node has no GPU. Make sure you have at least 1 GPU available in a node", False),
    ],
)
def test_a_program_that_torch_tells_of_no_gpu(error: str, none: bool) -> None:
    seen = found(trace(error, ("/v/lib/python3.12/site-packages/trainer/__init__.py", "<module>", "x = f()")))
    assert any(one.code == "torch-sees-no-gpu" for one in seen) is none


@pytest.mark.parametrize(
    "error",
    [
        "none of the three tactics is usable on sm_121",
        "this path cannot be used on SM121",
        "the arch must be one of [sm_100a, sm_103a], but got sm_121a",
    ],
)
def test_a_refusal_of_this_very_arch_is_read_in_any_words(error: str) -> None:
    (one,) = found(trace(f"RuntimeError: {error}", ("/v/lib/python3.12/site-packages/kit/moe.py", "run", "call()")))
    assert one.code == "kernel-without-this-arch"
    assert "which is this GPU" in said(one)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: aspect ratio must be one of ((1, 1), (1, 2)), but got (12, 1)",
        "ImportError: the kit's extension is not available for CUDA 12.1, install the wheel of CUDA 13.0",
        "RuntimeError: NIXL is not available (nixl_connector.py:121)",
        "RuntimeError: none of the 12 shards answered in 121 s; retry with a longer timeout",
    ],
)
def test_a_number_alone_is_no_arch(error: str) -> None:
    seen = found(trace(error, (f"{VLLM}a/b.py", "f", "x = g()")))
    assert all(one.code != "kernel-without-this-arch" for one in seen)


def test_a_pair_of_numbers_is_an_arch_where_the_message_says_so() -> None:
    (one,) = found(trace("ValueError: capability must be one of [(9, 0), (10, 0)], but got (12, 1)", LOOP))
    assert one.code == "kernel-without-this-arch"


ARGS = "(APIServer pid=1) INFO 09-18 10:00:01 [utils.py:233] non-default args: "


def test_the_remedy_names_the_backends_that_this_gpu_has_less_the_one_that_is_set() -> None:
    call = (f"{VLLM}model_executor/layers/fused_moe/x.py", "apply", "run_moe()")
    error = trace("RuntimeError: not supported on this GPU", call)
    (one,) = found(f"{ARGS}{{'model': 'm', 'moe_backend': 'triton'}}\n{error}")
    assert "On 12.1 --moe-backend has marlin, flashinfer_cutlass." in said(one)


@pytest.mark.parametrize(
    ("options", "error", "offered"),
    [
        ("'kv_cache_dtype': 'auto'", "this page size", True),
        ("'kv_cache_dtype': 'fp8'", "this page size", False),
        ("'kv_cache_dtype': 'auto'", "a pair of attention sinks", False),
    ],
)
def test_flash_attention_is_not_offered_for_an_fp8_cache_or_sinks(options: str, error: str, offered: bool) -> None:
    call = (f"{VLLM}v1/attention/backends/flashinfer.py", "__init__", "raise NotImplementedError(text)")
    refusal = trace(f"NotImplementedError: FlashInfer: {error} is not supported on this GPU", call)
    (one,) = found(f"{ARGS}{{'model': 'm', {options}, 'attention_backend': 'FLASHINFER'}}\n{refusal}")
    assert "On 12.1 --attention-backend has TRITON_ATTN" in said(one)
    assert ("FLASH_ATTN," in said(one)) is offered


def test_what_was_chosen_by_hand_is_left_out_first() -> None:
    crash = trace("RuntimeError: Triton Error [CUDA]: misaligned address", (f"{VLLM}a/b.py", "f", "k[grid](x)"))
    (one,) = found(f"{ARGS}{{'model': 'm', 'moe_backend': 'flashinfer_b12x'}}\n{crash}")
    text = said(one)
    assert text.index("without --moe-backend flashinfer_b12x") < text.index("--enforce-eager")


def test_a_kernel_of_the_cute_dsl_names_its_file_and_who_called_it() -> None:
    calls = (f"{SGLANG}layers/attention/b.py", "forward", "kit()")
    kernel = ("/v/lib/python3.12/site-packages/kit/cute/k.py", "epilogue", "cute.copy(a, b)")
    (one,) = found(trace("cutlass._mlir._site.<locals>.MLIRError: bad layout", LOOP, calls, kernel))
    assert one.code == "kernel-does-not-compile"
    assert "kit/cute/k.py, called by sglang/srt/layers/attention/b.py" in said(one)


def test_the_caller_of_a_dsl_kernel_is_outward_of_it_where_the_dsl_itself_is_innermost() -> None:
    calls = (f"{VLLM}v1/attention/b.py", "forward", "kit()")
    kernel = ("/v/lib/python3.12/site-packages/kit/cute/k.py", "run", "cute.compile(k)")
    dsl = ("/v/lib/python3.12/site-packages/nvidia_cutlass_dsl/python_packages/cutlass/base_dsl/dsl.py", "f", "g()")
    (one,) = found(trace("cutlass.base_dsl.common.DSLRuntimeError: ICE", calls, kernel, dsl))
    assert "kit/cute/k.py, called by vllm/v1/attention/b.py" in said(one)
    (ran,) = found(trace("cutlass.base_dsl.common.DSLCudaRuntimeError: CUDA_ERROR_OUT_OF_MEMORY (2)", calls, dsl))
    assert ran.code != "kernel-does-not-compile"


def test_the_mlir_of_another_package_is_not_cutlass() -> None:
    lowers = ("/v/lib/python3.12/site-packages/jax/_src/interpreters/mlir.py", "lower", "module.verify()")
    (one,) = found(trace("jaxlib.mlir._mlir_libs.MLIRError: Verification failed", lowers))
    assert one.code != "kernel-does-not-compile"


@pytest.mark.parametrize(("key", "known"), [("float4_e2m1fn_x2", True), ("layers.0.weight", False)])
def test_a_type_that_triton_does_not_know(key: str, known: bool) -> None:
    runs = (f"{VLLM}model_executor/layers/quantization/u.py", "mm", "kernel[grid](a)")
    inner = ("/v/lib/python3.12/site-packages/triton/runtime/jit.py", "mangle", "return table[name]")
    (one,) = found(trace(f"KeyError: '{key}'", runs, inner))
    assert (one.code == "data-type-not-taken") is known


def test_a_crash_in_llama_cpp_gets_its_own_options() -> None:
    (one,) = found("CUDA error: misaligned address\n  current device: 0, in function ggml_cuda_op_mul at ggml.cu:9\n")
    assert "--flash-attn off" in said(one)
    assert "--moe-backend" not in said(one)


SERVER = "main: loading model\n"
LOADING = "load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
GB10 = "  Device 0: NVIDIA GB10, compute capability 12.1, VMM: yes\n"
CONTEXT = (
    "llama_context: n_ctx = 131072\ncommon_init_from_params: warming up the model with an empty run - please wait\n"
)


def print_info(size: str) -> str:
    return f"print_info: file size   = {size} (4.25 BPW)\n"


@pytest.mark.parametrize(
    ("log", "known"),
    [
        (f"{GB10}{SERVER}{print_info('60.88 GiB')}{LOADING}", True),
        (f"{GB10}{SERVER}{print_info('20.10 GiB')}{LOADING}", False),
        (f"{GB10}{SERVER}{LOADING}", False),
        (f"{SERVER}{print_info('60.88 GiB')}{LOADING}", False),
    ],
)
def test_a_load_of_llama_cpp_that_does_not_end_names_its_pool_for_a_large_model_on_a_gb10(
    log: str, known: bool
) -> None:
    (one,) = found(log)
    assert (one.code, one.level, one.stage) == ("start-stopped", "error", "load")
    assert ("-DGGML_CUDA_NO_VMM=ON" in said(one)) is known
    assert "GGML_CUDA_NO_VMM=1" not in said(one)
    assert "--no-mmap" not in said(one)


def test_a_server_of_llama_cpp_that_stops_after_its_load_is_a_finding_until_it_listens() -> None:
    (one,) = found(f"{SERVER}{LOADING}{CONTEXT}")
    assert (one.code, one.stage) == ("start-stopped", "context")
    assert "--no-warmup" in said(one)
    assert found(f"{SERVER}{LOADING}{CONTEXT}main: server is listening on http://127.0.0.1:8080\n") == ()


@pytest.mark.parametrize(
    "log",
    [
        f"{LOADING}load_tensors: offloaded 29/29 layers to GPU\n| qwen3 0.6B Q8_0 | CUDA | 99 | pp512 | 11821.33 |\n",
        f"{print_info('604.15 MiB')}{LOADING}load_tensors:   CPU_Mapped model buffer size =   604.15 MiB\n",
        f'{GB10}{SERVER}{LOADING}msg="llama runner started in 3.42 seconds"\n',
    ],
)
def test_a_load_by_a_program_that_is_no_server_or_that_ended_is_no_finding(log: str) -> None:
    assert found(log) == ()


READY = f"{ARGS}{{'model': 'm', 'tool_call_parser': 'qwen3_xml'}}\nINFO:     Application startup complete.\n"


def test_a_parser_s_warning_of_an_answer_counts_and_others_do_not() -> None:
    warning = "(APIServer pid=1) {level} 07-08 10:09:31 [{file}:303] {said}\n"
    error = "Error when reading a part: not well-formed"
    parser = "abc_tool_parser.py"
    (one,) = found(f"{READY}{warning.format(level='WARNING', file=parser, said=error)}")
    assert (one.code, one.level) == ("tool-calls-not-read", "warning")
    assert "qwen3_coder" in said(one)
    for level, file, said_ in (
        ("WARNING", "metrics.py", error),
        ("INFO", parser, 'find_error parsed: {"path": "error.log", "status": "not found"}'),
        ("DEBUG", parser, "tool lookup_error called; 0 errors"),
        ("WARNING", parser, "value 'failed' cannot be converted, degenerating to string."),
        ("WARNING", "straggler_detector.py", "heartbeat of rank 1 failed once, retrying"),
    ):
        assert found(f"{READY}{warning.format(level=level, file=file, said=said_)}") == ()


def test_an_option_with_underscores_is_named_with_its_hyphens() -> None:
    (one,) = found("launch_server.py: error: unrecognized arguments: --max_prefill_tokens 4096 --kv_cache_dtype auto\n")
    assert "Write --max-prefill-tokens, --kv-cache-dtype." in said(one)


def test_options_that_the_server_has_in_no_spelling_are_told_apart() -> None:
    unknown = "launch_server.py: error: unrecognized arguments: {}\n"
    (one,) = found(unknown.format("--gpu_memory_utilization 0.8 --max_prefill_tokens 4096 --enable-nothing-known"))
    assert "Write --max-prefill-tokens, and leave --gpu_memory_utilization, --enable-nothing-known out." in said(one)
    (alone,) = found(unknown.format("--gpu_memory_utilization 0.8"))
    assert "--gpu-memory-utilization" not in said(alone)


def test_scales_of_the_cache_under_a_joined_name_are_a_fault_of_the_class() -> None:
    loads = (f"{VLLM}model_executor/models/m.py", "load_weights", "param = params_dict[name]")
    (one,) = found(trace("KeyError: 'layers.3.self_attn.qkv_proj.v_scale'", loads))
    assert "a newer release reads these scales" in said(one)
    (other,) = found(trace("KeyError: 'layers.3.self_attn.attn.v_scale'", loads))
    assert "a newer release reads these scales" not in said(other)


def test_code_that_torch_compile_cannot_follow_names_how_to_go_without() -> None:
    calls = (f"{VLLM}compilation/backends.py", "__call__", "self.run(x)")
    (one,) = found(trace("torch._dynamo.exc.Unsupported: Dynamo does not know how to trace the builtin `x.y`", calls))
    assert one.code == "code-not-traced"
    assert "--enforce-eager" in said(one)


def test_another_thing_that_is_unsupported_is_not_of_torch_compile() -> None:
    reads = (f"{VLLM}multimodal/video.py", "load_bytes", "raise ValueError(text)")
    (one,) = found(trace("ValueError: Unsupported: video codec av1 in data URL", reads))
    assert one.code != "code-not-traced"


def test_the_dsl_of_cutlass_is_named_by_its_distribution() -> None:
    calls = (f"{VLLM}v1/attention/ops/k.py", "_kernel", "x = cute.arch.fmax9(x)")
    (one,) = found(trace("AttributeError: module 'cutlass.cute.arch' has no attribute 'fmax9'", calls))
    assert "nvidia-cutlass-dsl" in said(one)
