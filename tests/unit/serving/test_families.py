"""Families of errors: public reports, and variants of each kind in words that no report has (made here)."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.engine_releases import Releases
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families import verdict_of
from gb10.serving.doctor.families_gpu import refused
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_exceptions import Raised
from gb10.serving.doctor.log_judging import MOST_EACH
from gb10.serving.doctor.log_scan import Scanner
from gb10.serving.doctor.rule_files import (
    is_tool_error,
    load_doctor_rules,
    load_releases,
    load_stages,
    load_tool_errors,
)
from gb10.serving.doctor.symbol_names import owner_of, readable_symbol
from gb10.serving.doctor.tool_errors import ToolError
from tests.kept_cases import read_starts, scanned

CASES = Path(__file__).parents[2] / "cases"
REPORTS: list[dict[str, Any]] = [
    one
    for name in ("logs", "field", "fresh")
    for one in yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
]
WIDE: list[dict[str, Any]] = yaml.safe_load((CASES / "wide.yaml").read_text(encoding="utf-8"))
DRAWN = frozenset(random.Random(20261127).sample([one["id"] for one in WIDE], len(WIDE) // 2))  # noqa: S311 - a draw
"""The half that may be looked at; drawn before any rule was written for it. The other half was tried once."""
RULES = load_doctor_rules()


def found(*logs: str, image: ImageRecord | None = None) -> tuple[Finding, ...]:
    scans = {}
    for number, text in enumerate(logs):
        scanner = Scanner(RULES, marks=load_stages().mark, image=image, tools=is_tool_error)
        scanner.feed(text.encode())
        scans[f"node {number}"] = scanner.scan()
    return diagnose(RULES, Evidence(logs=scans)).seen


def said(one: Finding) -> str:
    return f"{one.words(one.rule.meaning)} {one.words(one.rule.action)} {one.value}" if one.rule else ""


def spoken(one: Finding) -> str:
    """What doctor says of a finding, without the line that it quotes."""
    return f"{one.words(one.rule.meaning)} {one.words(one.rule.action)}" if one.rule else ""


LATER: list[dict[str, Any]] = yaml.safe_load((CASES / "later.yaml").read_text(encoding="utf-8"))
BLIND: list[dict[str, Any]] = yaml.safe_load((CASES / "blind.yaml").read_text(encoding="utf-8"))
LATE: list[dict[str, Any]] = yaml.safe_load((CASES / "late.yaml").read_text(encoding="utf-8"))
RECENT: list[dict[str, Any]] = yaml.safe_load((CASES / "recent.yaml").read_text(encoding="utf-8"))
NOVEMBER: list[dict[str, Any]] = yaml.safe_load((CASES / "november.yaml").read_text(encoding="utf-8"))
SIXTY: list[dict[str, Any]] = yaml.safe_load((CASES / "sixty.yaml").read_text(encoding="utf-8"))
SIXTEEN: list[dict[str, Any]] = yaml.safe_load((CASES / "sixteen.yaml").read_text(encoding="utf-8"))
UNSEEN: list[dict[str, Any]] = yaml.safe_load((CASES / "unseen.yaml").read_text(encoding="utf-8"))
CHECKS: list[dict[str, Any]] = yaml.safe_load((CASES / "checks.yaml").read_text(encoding="utf-8"))
SOUND: list[dict[str, Any]] = yaml.safe_load((CASES / "sound.yaml").read_text(encoding="utf-8"))
STARTS: list[dict[str, str]] = read_starts()
"""Starts of real servers, each with another model, other options or another form of its lines. ``until``: where it was
cut; those of models without weights end before the first request, which such a model cannot answer."""


@pytest.mark.parametrize(
    "report",
    [*BLIND, *LATE, *RECENT, *NOVEMBER, *UNSEEN, *SIXTY, *SIXTEEN],
    ids=lambda one: f"{one['id']} {one['source']}",
)
def test_a_report_of_an_engine_on_blackwell_gets_its_cause(report: dict[str, Any]) -> None:
    texts = [f"{spoken(one)} {one.note}" for one in found(report["log"])]
    assert report.get("missed", False) is not any(
        all(re.search(wanted, text, re.IGNORECASE) for wanted in report["right"]) for text in texts
    ), texts


REFUSED = {
    "arch": ("kernel-without-this-arch", r"12\.1"),
    "limit": (
        "kernel-without-this-shape",
        r"has no kernel for this shape, data type or option|no kernel for this shape",
    ),
    "argument": ("kernel-argument-mismatch", r"the GPU is not the cause"),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: f"{one['id']} {one['source']}")
def test_a_check_of_a_kernel_library_is_told_by_what_its_condition_is_about(check: dict[str, Any]) -> None:
    (one,) = found(check["log"])
    code, words = REFUSED[check["refused"]]
    assert one.code == code
    assert re.search(words, spoken(one))
    assert check["refused"] != "argument" or "no kernel for" not in spoken(one)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("FP8 KV cache dtype is only supported on Hopper GPUs", "arch"),
        ("bf16 output is only implemented for datacenter Blackwell GPUs", "arch"),
        ("fp4 data type is only supported on B200 GPUs", "arch"),
        ("head_dim 512 is only supported on SM100a", "arch"),
        ("only supported for fp16 and bf16", "limit"),
        ("head_dim 512 is not supported on Hopper", "limit"),
    ],
)
def test_a_kernel_of_other_gpus_alone_is_refused_for_the_gpu(text: str, what: str) -> None:
    assert refused(text) == what


@pytest.mark.parametrize(
    ("said", "unnamed"),
    [("head_dim must be at most 256 on Hopper", False), ("Unsupported head_dim: 512", True)],
)
def test_a_message_that_names_a_gpu_is_not_said_to_name_none(said: str, unnamed: bool) -> None:
    call = 'File "/opt/venv/lib/python3.12/site-packages/flashinfer/decode.py", line 9, in run\n    f()\n'
    texts = [spoken(one) for one in found(f"Traceback (most recent call last):\n  {call}RuntimeError: {said}\n")]
    assert any("for other sizes and types" in text for text in texts), texts
    assert any("The message names no GPU" in text for text in texts) is unnamed


FRAME = (
    "Traceback (most recent call last):\n"
    '  File "/v/lib/python3.12/site-packages/sglang/srt/{file}", line 9, in {where}\n    {code}\n'
)


@pytest.mark.parametrize(
    ("file", "code", "error", "wanted"),
    [
        ("mem_cache/a.py", "assert self.page_size == 1", "AssertionError", "Set --page-size 1"),
        (
            "a.py",
            "assert args.speculative_algorithm is None, (",
            "AssertionError: no",
            "without --speculative-algorithm",
        ),
        ("a.py", "assert args.dist_init_addr is not None", "AssertionError", "Give --dist-init-addr a value"),
        ("models/a.py", "assert self.total_num_heads % tp_size == 0", "AssertionError", "--tensor-parallel-size 1"),
        (
            "a.py",
            "raise ValueError(",
            "ValueError: Foo does not support hierarchical cache",
            "--enable-hierarchical-cache",
        ),
        ("a.py", "raise ValueError(", "ValueError: extra_buffer needs another platform", "no_buffer"),
        ("models/a.py", "x = y[0]", "NameError: name 'y' is not defined", "no check of a setting"),
        ("a.py", "raise RuntimeError(", "RuntimeError: Bad thing. Please set FOO=1 first.", "Please set FOO=1 first"),
    ],
)
def test_the_condition_that_a_program_states_says_what_to_set(file: str, code: str, error: str, wanted: str) -> None:
    (one,) = found(f"{FRAME.format(file=file, where='f', code=code)}{error}\n")
    assert wanted in f"{spoken(one)} {one.note}"


STARTS_THAT_FAIL = (
    ("vllm/entrypoints/openai/cli_args.py", "validate_parsed_serve_args", "TypeError: Error: --enable-auto-tool-choice "
     "requires --tool-call-parser", "settings-do-not-agree"),
    ("sglang/srt/managers/tokenizer_manager.py", "__init__", "ValueError: Cannot load the processor of this model",
     "unknown"),
    ("vllm/entrypoints/openai/api_server.py", "init_app_state", "ValueError: The model has no such part", "unknown"),
)  # fmt: skip


@pytest.mark.parametrize(("file", "where", "error", "code"), STARTS_THAT_FAIL)
def test_a_start_that_fails_is_no_request_that_is_refused(file: str, where: str, error: str, code: str) -> None:
    frames = (
        f'  File "/v/lib/python3.12/site-packages/{file}", line 9, in {where}\n    raise {error.partition(":")[0]}(\n'
    )
    (one,) = found(f"Traceback (most recent call last):\n{frames}{error}\n")
    assert (one.code, one.level) == (code, "error")


def test_a_request_that_is_refused_goes_on() -> None:
    frames = "".join(
        f'  File "/v/lib/python3.12/site-packages/vllm/{file}", line 9, in {where}\n    {code}\n'
        for file, where, code in (
            ("entrypoints/openai/serving_chat.py", "create_chat_completion", "params = request.to_sampling_params("),
            ("sampling_params.py", "__post_init__", "raise ValueError("),
        )
    )
    (one,) = found(f"Traceback (most recent call last):\n{frames}ValueError: min_p must be in [0, 1], got 3.\n")
    assert (one.code, one.level) == ("request-refused", "warning")


def test_a_field_s_kind_is_no_list_of_values() -> None:
    (one,) = found(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\nnnodes\n"
        "  Input should be a valid integer, unable to parse string as an integer [type=int_parsing, input_value='two',"
        " input_type=str]\n"
    )
    assert one.code == "field-not-valid"
    assert "nnodes of ParallelConfig" in spoken(one)
    assert "It has: a" not in spoken(one)


@pytest.mark.parametrize(
    ("arch", "wanted"),
    [
        ("compute_60", "CUDA 13.0 removed what is older than 7.5"),
        ("compute_70", "CUDA 13.0 removed what is older than 7.5"),
        ("compute_35", "CUDA 12.0 removed what is older than 5.0"),
        ("compute_121a", "does not know compute_121a: it is older than 12.9"),
    ],
)
def test_an_old_arch_needs_no_newer_compiler(arch: str, wanted: str) -> None:
    for line in (f"Unsupported gpu architecture '{arch}'", f"Value '{arch}' is not defined for option 'gpu-code'"):
        assert any(wanted in spoken(one) for one in found(f"nvcc fatal   : {line}\n"))


@pytest.mark.parametrize(
    ("package", "condition", "wanted"),
    [
        ("vllm", "not self.enable_prefix_caching", "Start with --no-enable-prefix-caching"),
        ("sglang", "not args.enable_hierarchical_cache", "Start without --enable-hierarchical-cache"),
        ("vllm", "cfg.max_num_seqs < 256", "--max-num-seqs must be below 256"),
        ("vllm", "cfg.max_num_seqs <= 256", "--max-num-seqs must be at most 256"),
        ("vllm", "cfg.block_size > 16", "--block-size must be above 16"),
    ],
)
def test_a_condition_is_said_as_it_is(package: str, condition: str, wanted: str) -> None:
    frame = f'  File "/v/lib/python3.12/site-packages/{package}/a.py", line 9, in f\n    assert {condition}\n'
    (one,) = found(f"Traceback (most recent call last):\n{frame}AssertionError\n")
    assert wanted in spoken(one)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (
            "INFO 11-24 08:10:20 [api.py:9] non-default args: {'speculative_config': {'method': 'mtp'}}",
            "without drafts",
        ),
        ("Collecting flashinfer-python==0.6.7", "flashinfer-python 0.6.7 is older than 0.6.8"),
        ("ggml_cuda_init: found 1 CUDA devices", "--flash-attn off"),
        ("[2026-08-26 10:00:01] server_args=ServerArgs(model_path='m')", "--disable-cuda-graph"),
    ],
)
def test_what_to_try_about_a_kernel_that_crashed_depends_on_the_log(before: str, wanted: str) -> None:
    texts = [spoken(one) for one in found(f"{before}\nRuntimeError: CUDA error: an illegal memory access was "
                                          "encountered\n") if one.code == "kernel-crashed"]  # fmt: skip
    assert len(texts) == 1
    assert wanted in texts[0]


@pytest.mark.parametrize("condition", ["kv.dtype == torch.int64", "a.device == b.device", "len(x.shape) == 2"])
def test_attributes_of_tensors_are_no_options(condition: str) -> None:
    (one,) = found(f"{FRAME.format(file='a.py', where='f', code=f'assert {condition}')}AssertionError\n")
    assert one.code == "unknown"


def test_each_thing_that_a_check_refuses_has_texts_of_two_sources() -> None:
    for what in REFUSED:
        files = {one["source"] for one in CHECKS if one["refused"] == what}
        assert len(files) >= 2
        assert len({one.split()[0] for one in files}) == 2


def test_the_half_that_was_worked_on_is_half_of_the_reports() -> None:
    assert len(WIDE) == len({one["source"] for one in WIDE}) == 70
    assert len(DRAWN) == 35


@pytest.mark.parametrize("report", [*WIDE, *LATER], ids=lambda one: f"{one['id']} {one['source']}")
def test_a_report_of_another_tool_gets_its_cause(report: dict[str, Any]) -> None:
    texts = [spoken(one) for one in found(report["log"])]
    assert report.get("missed", False) is not any(
        all(re.search(wanted, text, re.IGNORECASE) for wanted in report["right"]) for text in texts
    ), texts


@pytest.mark.parametrize("sound", [*SOUND, *STARTS], ids=lambda one: f"{one['id']} {one['source']}")
def test_a_run_without_a_fault_has_no_error(sound: dict[str, Any]) -> None:
    assert [(one.code, one.value) for one in found(sound["log"]) if one.level == "error"] == []


def test_each_start_is_another_one_that_came_to_ready() -> None:
    assert len({one["started"] for one in STARTS}) == len(STARTS) >= 50
    assert [one["id"] for one in STARTS if not scanned(one["log"]).start.is_ready] == []


@pytest.mark.parametrize(("level", "errors"), [("WARNING", 0), ("ERROR", 1)])
def test_a_logger_s_json_says_the_level_of_its_line(level: str, errors: int) -> None:
    line = f'{{"asctime": "2026-11-28 00:13:04,350", "levelname": "{level}", "message": "Triton is not installed."}}\n'
    ready = '{"asctime": "2026-11-28 00:13:05,350", "levelname": "INFO", "message": "Application startup complete."}\n'
    assert len([one for one in found(f"{line}{ready}") if one.level == "error"]) == errors


@pytest.mark.parametrize(
    ("last", "errors"), [("asyncio.exceptions.CancelledError", 0), ("OSError: [Errno 5] I/O error", 1)]
)
def test_a_server_that_is_ended_has_no_error(last: str, errors: int) -> None:
    log = (
        f'Traceback (most recent call last):\n  File "/v/uvicorn/server.py", line 248, in main_loop\n    x()\n{last}\n'
    )
    assert len([one for one in found(log) if one.level == "error"]) == errors


def test_each_kind_of_error_of_a_tool_names_its_groups_and_is_seen_by_a_report() -> None:
    seen = {one.code for report in (*WIDE, *LATER) for one in found(report["log"])}
    kinds = {one.code for one in load_tool_errors()}
    assert len(kinds & seen) >= 30
    with pytest.raises(ValidationError, match="has no group other"):
        ToolError(code="some-tool", match="a (?P<one>b)", meaning="{one}", action="{other}", evidence="none")


def test_lines_that_are_indented_deeper_belong_to_their_message() -> None:
    log = "error: No solution found when resolving dependencies:\n  ╰─▶ Because only x==1 is\n      here.\nnext line\n"
    (one,) = found(log)
    assert one.code == "requirements-contradict"
    assert "Because only x==1 is here." in spoken(one)
    assert "next line" not in spoken(one)


@pytest.mark.parametrize("report", REPORTS, ids=lambda one: f"{one['id']} {one['source']}")
def test_a_public_report_gets_its_cause(report: dict[str, Any]) -> None:
    texts = [said(one) for one in found(*report.get("logs", (report.get("log"),)))]
    assert report.get("missed", False) is not any(
        all(re.search(wanted, text, re.IGNORECASE) for wanted in report["right"]) for text in texts
    ), texts


def code_of(line: str) -> str:
    (one,) = found(line + "\n")
    return one.code


SHARED_WORDS = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: {asked}, Hardware limit: 101376.",
    "RuntimeError: kernel needs {asked} bytes of smem per block (have 101376)",
    "RuntimeError: Failed to set the allowed dynamic shared memory size to {asked}",
    "ValueError: shared memory of {asked} B exceeds the limit of 101376 B",
    "tvm.error.InternalError: dynamic shared_memory {asked} exceeds 101376",
    "RuntimeError: cudaFuncSetAttribute(MaxDynamicSharedMemorySize, {asked}) failed: invalid argument",
)


@pytest.mark.parametrize("words", SHARED_WORDS)
@pytest.mark.parametrize("asked", [102400, 131072, 147456, 163840, 232448])
def test_shared_memory_beyond_the_chip_in_any_words(words: str, asked: int) -> None:
    (one,) = found(words.format(asked=asked) + "\n")
    assert one.code in ("beyond-shared-memory", "tile-too-large", "shared-memory-too-small")
    assert str(asked) in said(one) or f"{asked:,}" in said(one)


TOP_K = (
    "RuntimeError: persistent_topk would oversubscribe and the FilteredTopK fallback requires >=128KB smem per block "
    "(have 101376). total_ctas=90 > num_sms*occupancy=48\n"
)


@pytest.mark.parametrize(("release", "upgrades"), [("0.30.0", True), ("0.29.1.dev3", True), ("0.33.0", False)])
def test_the_top_k_of_an_indexer_needs_its_release_or_a_shorter_length_first(release: str, upgrades: bool) -> None:
    (one,) = found(
        f"(APIServer pid=1) INFO 09-12 10:11:02 [api_utils.py:345] version {release}\n(Worker pid=4) {TOP_K}"
    )
    assert one.rule and one.code == "beyond-shared-memory"
    action = one.words(one.rule.action)
    assert action.startswith("Take vLLM 0.33.0") is upgrades
    assert action.index("--max-model-len") < action.index("Last: another kernel")
    assert "num_stages" not in action
    assert "moe check" not in action


def test_a_number_of_bytes_is_said_once() -> None:
    (one,) = found(TOP_K)
    assert one.rule
    assert "131,072 B of shared memory a block; a GB10 has" in one.words(one.rule.meaning)
    (other,) = found(SHARED_WORDS[1].format(asked=147456) + "\n")
    assert other.rule
    assert "num_stages" in other.words(other.rule.action)


def test_shared_memory_within_the_chip_is_no_such_error() -> None:
    assert code_of("RuntimeError: smem of 65536 bytes requires sm_80") != "beyond-shared-memory"


LIBRARIES = ("libcudart.so.12", "libcublasLt.so.12", "libnvrtc.so.12", "libcufft.so.11", "libcusparse.so.12")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("words", ["ImportError: {}: cannot open shared object file: No such file or directory",
                                   "OSError: {}: cannot open shared object file: No such file or directory",
                                   "vllm: error while loading: {}: cannot open shared object file"])  # fmt: skip
def test_a_library_of_another_cuda(library: str, words: str) -> None:
    assert code_of(words.format(library)) == "library-of-another-cuda"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("OSError: libc10_cuda.so: cannot open shared object file: No such file or directory", "torch-for-cpus"),
        ("AssertionError: Torch not compiled with CUDA enabled", "torch-for-cpus"),
        ("ImportError: libcuda.so.1: cannot open shared object file: No such file", "no-driver-in-container"),
        ("RuntimeError: No CUDA GPUs are available", "no-driver-in-container"),
        ("OSError: [Errno 8] Exec format error: '/opt/v/bin/nvcc'", "wheel-of-another-cpu"),
        ("ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "wheel-of-another-system"),
        ("ModuleNotFoundError: No module named 'timm'", "not-installed"),
        ("OSError: [Errno 98] Address already in use", "port-is-taken"),
        ("OSError: [Errno 24] Too many open files: '/proc/self/stat'", "too-many-files"),
        ("RuntimeError: can't start new thread", "too-many-processes"),
        ("OSError: [Errno 28] No space left on device: '/data/hub/x.incomplete'", "disk-is-full"),
        ("RuntimeError: DataLoader worker is killed by signal: Bus error. insufficient shared memory", "shm-is-full"),
        ("PermissionError: [Errno 13] Permission denied: '/home/u/.triton/cache/x'", "not-writable"),
        ("OSError: [Errno 30] Read-only file system: '/models/.cache'", "not-writable"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "ptxas-without-sm121"),
        ("RuntimeError: Could not find nvcc and default cuda_home does not exist", "compiler-not-found"),
        ("RuntimeError: CUDA error: too many resources requested for launch", "beyond-registers"),
        ("jinja2.exceptions.TemplateSyntaxError: chat template line 3: unexpected '}'", "chat-template"),
        ("ValueError: Tokenizer class Qwen9Tokenizer does not exist or is not currently imported.", "tokenizer"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model o/m is restricted.", "hub-refuses"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "hub-not-reached"),
        ("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests", "hub-limits"),
        ("requests.exceptions.ProxyError: huggingface.co: Cannot connect to proxy", "hub-proxy"),
        ("OSError: o/m is not a valid model identifier on 'https://huggingface.co'", "hub-has-no-such-model"),
        ("NotImplementedError: this kernel is only supported on SM100", "kernel-without-this-arch"),
        ("RuntimeError: Unsupported compute capability: 12.1", "kernel-without-this-arch"),
        ("RuntimeError: sm_121 is not supported by this backend", "kernel-without-this-arch"),
        ("RuntimeError: FP4 MMA is not supported on this device", "kernel-without-this-arch"),
        ("NotImplementedError: grouped_mm does not support the current GPU", "kernel-without-this-arch"),
        ("tvm.error.InternalError: Unsupported architecture", "kernel-without-this-arch"),
        ("RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)", "compiler-without-this-arch"),
        ("torch.AcceleratorError: CUDA error: cudaErrorStreamCaptureInvalidated", "capture-fails"),
        ("error while handling argument \"--mlock\": error: needs a number", "option-not-readable"),
        ("error: unexpected argument '--kv-cash' found", "option-not-known"),
        ("error: invalid value 'x' for '--port <PORT>': no number", "option-not-readable"),
        ("error: unknown option: --gpuz", "option-not-known"),
        ("FATAL: kernel `a_sm80` is for sm80-sm100, but was built for sm121", "built-for-another-arch"),
        ("ERROR: CUDA kernel mma has no device code compatible with CUDA arch 720.", "built-for-another-arch"),
        ("[{'type': 'extra_forbidden', 'loc': ('body', 'top_kk'), 'msg': 'x'}]", "request-has-another-field"),
        ("coredump:   #0  cutlass::device_kernel<flash::Fwd<2>>", "kernel-aborted-on-gpu"),
        ("pynvml.NVMLError_NotSupported: Not Supported", "nvml-has-no-memory"),
        ("RuntimeError: could not read total memory of GPU 0: Not Supported", "nvml-has-no-memory"),
        ("triton.compiler.errors.CompilationError: at 12:4: unsupported tensor index", "kernel-does-not-compile"),
        ("torch._inductor.exc.InductorError: AssertionError: type(self)=x", "kernel-does-not-compile"),
        ("ImportError: this model requires mistral_common >= 1.8.6", "release-not-allowed"),
        ("RuntimeError: flash-attn is too old for this model", "release-not-allowed"),
        ("ValueError: sliding sinks are only supported with the TRITON_ATTN backend", "backend-required"),
        ("AssertionError: Only ['triton', 'fa4'] backends are supported. Got attention_backend=x", "backend-required"),
        ("FileNotFoundError: o/k no build variant torch211-cu130-aarch64-linux", "hub-kernel-without-this-build"),
        ("/v/include/cub/util.cuh(91): error: namespace cub:: has no member X", "compiler-and-headers-differ"),
        ("/v/csrc/quant.cu(91): error: identifier \"__nv_fp4x2\" is undefined", "code-does-not-compile"),
    ],
)  # fmt: skip
def test_kinds_in_words_made_here(line: str, code: str) -> None:
    assert code_of(line) == code


REGISTRY = ("FLASH_ATTN", "TRITON_ATTN", "FLASHINFER", "FLASHINFER_MLA_SPARSE_SM120", "B12X", "CUSTOM")


@pytest.mark.parametrize(
    "words",
    [
        "ValueError: Unknown attention backend: '{value}'. Valid options are: {names}",
        "argparse.ArgumentError: argument --attention-backend: invalid choice: '{value}' (choose from {names})",
        "KeyError: \"invalid backend '{value}', available: {names}\"",
        "ValueError: Unsupported dtype '{value}'. Must be one of [{names}]",
    ],
)
@pytest.mark.parametrize(("value", "closest"), [("B12X_MLA_SPARSE", "B12X"), ("TRITON_ATN", "TRITON_ATTN"),
                                                ("FLASH_INFER", "FLASHINFER")])  # fmt: skip
def test_a_value_that_a_registry_has_not_gets_the_closest(words: str, value: str, closest: str) -> None:
    (one,) = found(words.format(value=value, names=", ".join(REGISTRY)) + "\n")
    assert one.code == "value-not-known"
    assert f"Take {closest}, the closest" in said(one)


VLLM = "(APIServer pid=1) INFO 08-25 22:02:31 [api_utils.py:345] version {version}\n"
SKEW = """(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/v/lib/python3.12/site-packages/vllm/a.py", line 98, in read
(APIServer pid=1)     return config.x
{more}(APIServer pid=1) {error}
"""


@pytest.mark.parametrize(
    ("error", "called"),
    [
        ("transformers.models.new.OddConfigError: 'head_dim' may vary", "transformers"),
        ("ImportError: cannot import name 'AutoThing' from 'transformers' (/v/x.py)", "transformers"),
        ("AttributeError: module 'compressed_tensors' has no attribute 'pack'", "compressed-tensors"),
        ("ModuleNotFoundError: No module named 'transformers.models.glm9'", "transformers"),
    ],
)
def test_packages_of_different_times_by_dates_and_requirements(error: str, called: str) -> None:
    (one,) = found(VLLM.format(version="0.27.1") + SKEW.format(error=error, more=""))
    release = load_releases().find("vllm", "0.27.1")
    assert release
    assert one.code == "package-of-another-time"
    assert f"vLLM 0.27.1 and {called}" in said(one) or f"vLLM 0.27.1 requires {called}" in said(one)
    assert f"vLLM 0.28.0 ({load_releases().after('vllm', '0.27.1').date})" in said(one)  # type: ignore[union-attr]


def test_a_development_release_is_the_one_before_it_and_unknown_ones_are_none() -> None:
    known = load_releases()
    assert [known.find("vllm", one).version for one in ("0.30.0", "0.30.1.dev5+g1")] == ["0.30.0"] * 2  # type: ignore[union-attr]
    assert [known.find("vllm", one) for one in ("0.11.0", "0.99.0", "main")] == [None, None, None]
    assert Releases().find("vllm", "0.30.0") is None


def test_the_image_says_more_than_the_log() -> None:
    line = (
        "ImportError: /v/site-packages/sgl_kernel/x.abi3.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE\n"
    )
    image = ImageRecord(engine="sglang", release="0.5.23", versions={"sglang": "0.5.23", "torch": "2.13.0"})
    (one,) = found(line, image=image)
    assert "The torch that is there is 2.13.0" in said(one)
    assert "SGLang 0.5.23 requires torch 2.14.1" in said(one)


@pytest.mark.parametrize(
    ("symbol", "name", "owner"),
    [
        ("_ZN3c1013MessageLogger6streamB5cxx11Ev", "c10::MessageLogger::stream", "torch"),
        ("_ZN5torch3jit17parseSchemaOrNameERKSsb", "torch::jit::parseSchemaOrName", "torch"),
        ("_ZNK2at10TensorBase8data_ptrIiEEPT_v", "at::TensorBase::data_ptr", "torch"),
        ("ncclCommWindowRegister", "ncclCommWindowRegister", "nccl"),
        ("cublasLtMatmul", "cublasLtMatmul", "cuda"),
        ("_ZN3c1099x", "c10", "torch"),
        ("_Z", "_Z", None),
        ("_ZN" + "9" * 5000, "_ZN" + "9" * 5000, None),
    ],
)
def test_symbols_for_people(symbol: str, name: str, owner: str | None) -> None:
    assert (readable_symbol(symbol), owner_of(symbol)) == (name, owner)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: sampling replay requires top_k > 0",
        "ValueError: the allocator is not supported on current platform.",
        "RuntimeError: SGLANG_DSA_TOPK_BROADCAST requires PyNCCL during CUDA graph capture.",
        "ValueError: Unsupported device: cpu",
    ],
)
def test_settings_and_platforms_are_no_release_arch_or_capture(line: str) -> None:
    assert code_of(line) not in ("release-not-allowed", "kernel-without-this-arch", "capture-fails")


@pytest.mark.parametrize(
    ("code", "error", "name"),
    [
        ('for mod in recipe.get("mods", []):', "TypeError: 'NoneType' object is not iterable", "mods"),
        (
            "if self.draft_topk > 1:",
            "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
            "draft_topk",
        ),
        ("n = layer.q_bias.shape[0]", "AttributeError: 'NoneType' object has no attribute 'shape'", "layer.q_bias"),
        ('size = config["rope"]["theta"]', "TypeError: 'NoneType' object is not subscriptable", "rope"),
    ],
)
def test_a_value_that_is_none_is_named_by_the_line_that_stops(code: str, error: str, name: str) -> None:
    more = f'(APIServer pid=1)   File "/v/site-packages/vllm/b.py", line 3, in f\n(APIServer pid=1)     {code}\n'
    (one,) = found(SKEW.format(error=error, more=more))
    assert one.code == "value-is-none"
    assert name in said(one)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("TypeError: Mismatched number of arguments when calling: `run(...)`. Expected 3 but got 4", "mixed-wheels"),
        ("/b/ggml/src/ggml.c:91: GGML_ASSERT(a->ne[0] == 4) failed", "ggml-check-fails"),
        ("RuntimeError: Unable to connect to GCS at address 10.0.0.1:6379", "ray-head-not-reached"),
        ("ValueError: Unknown rope scaling type: yarnx", "value-not-known"),
        ("AssertionError: local_world_size (8) exceeds the number of visible devices (1).", "too-many-gpus-asked"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (5x3 and 4x3)", "sizes-do-not-agree"),
        ("Sep 09 10:01:02 s kernel: Internal error: Oops: 0000000096000007 [#1] SMP", "kernel-stops"),
        ("RuntimeError: this attention only supports Blackwell GPUs or later", "kernel-without-this-arch"),
        ("ImportError: /v/site-packages/o/_C.abi3.so: undefined symbol: _Z16grouped_mm_sm103v", "built-without-a-part"),
        ("ImportError: /v/site-packages/o/_C.abi3.so: undefined symbol: cublasLtX", "mixed-wheels"),
        ("NVRM: _kgspRpcRecvPoll: Timeout after 9s of waiting for RPC response from GPU0 GSP!", "gpu-hardware-fault"),
        ("ValueError: max_num_seqs=512 must not exceed the number of slots (300)", "settings-do-not-agree"),
        ("AssertionError: speculative decoding has not been tested here", "settings-do-not-agree"),
        ("/b/ggml/src/ggml.c:91: GGML_ASSERT(n_things < GGML_MAX_THINGS) failed", "ggml-limit-reached"),
        ("error: Requirements contain conflicting URLs for package `torchao`:", "two-files-of-one-package"),
        (
            "(raylet) A worker died or was killed while executing a task: Worker exit type: NODE_DIED",
            "ray-worker-died",
        ),
        ("bash: line 3: 71 Segmentation fault (core dumped) python3 serve.py", "compiled-code-crashed"),
        (
            "ptxas a.ptx, line 2; error : Feature '.tile::gather4' not supported on .target 'sm_120f'",
            "instruction-of-another-gpu",
        ),
        (
            "ptxas a.ptx, line 2; error : Feature 'mma with block scale' not supported on .target 'sm_120'",
            "arch-without-its-suffix",
        ),
    ],
)
def test_more_kinds_in_words_made_here(line: str, code: str) -> None:
    assert code_of(line) == code


def test_a_size_that_differs_while_weights_are_read_is_the_checkpoint_s() -> None:
    more = '(APIServer pid=1)   File "/v/site-packages/vllm/b.py", line 3, in _load_w13\n'
    (one,) = found(
        SKEW.format(error="RuntimeError: The size of tensor a (3) must match the size of tensor b (6)", more=more)
    )
    assert one.code == "weights-do-not-fit"


def test_a_backend_that_an_option_forces_is_left_out_first() -> None:
    args = "(APIServer pid=1) INFO 08-02 10:00:00 [api_utils.py:273] non-default args: {'moe_backend': 'odd_moe'}\n"
    more = '(APIServer pid=1)   File "/v/site-packages/vllm/model_executor/layers/fused_moe/odd.py", line 3, in f\n'
    (one,) = found(args + SKEW.format(error="KeyError: 'w13'", more=more))
    assert one.code == "forced-backend-fails"
    assert "Leave --moe-backend out" in said(one)


def test_a_package_that_an_engine_calls_is_not_said_to_be_too_old() -> None:
    more = (
        '(APIServer pid=1)   File "/v/site-packages/einops/a.py", line 3, in f\n(APIServer pid=1)     return t[kind]\n'
    )
    (one,) = found(SKEW.format(error="ValueError: odd rope", more=more))
    assert one.code == "unknown"
    assert "The line that stops: return t[kind]" in one.note
    assert "vLLM called it" in one.note


@pytest.mark.parametrize("family", ["driver", "kept"])
def test_a_note_of_the_driver_is_an_error_only_when_memory_runs_out(family: str) -> None:
    line = (
        "Nov 24 08:11:01 s kernel: NVRM: Out of memory [NV_ERR_NO_MEMORY] (0x51) returned from _memdescAllocInternal\n"
    )
    more = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 121.69 GiB.\n"
    seen = {one.code: one.level for one in found(line + (more if family == "driver" else ""))}
    assert seen["driver-out-of-memory"] == ("error" if family == "driver" else "note")


WORDS = (
    *("error", "smem", "101376", "(5 vs. 64)", "Check failed:", "undefined symbol: _ZN", "GID ::", "'", '"', "[", "]"),
    *("valid options are:", "not supported", "for", "port", "libcudart.so.12", "Errno 13", "Gloo", "remote=["),
)


@pytest.mark.parametrize("seed", range(40))
def test_no_family_falls_over_words_in_any_order(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    text = " ".join(draw.choice(WORDS) for _ in range(60))
    scanner = Scanner(())
    raised = Raised(type="RuntimeError", message=text, line=1)
    verdict = verdict_of(Case(raised=raised, chain=(raised,), scan=scanner.scan(), releases=load_releases()))
    assert verdict is None or (verdict.meaning and verdict.action and verdict.evidence)


def test_the_sentences_of_a_start_that_stopped_do_not_run_together() -> None:
    report = next(one for one in REPORTS if one["id"] == "T10")
    one = next(one for one in found(*report["logs"]) if one.code == "start-stopped")
    assert one.rule
    assert re.search(r"using nccl==[\d.]+\d\. Other ranks: ", one.rule.meaning)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (
            "'model_tag': '/t/a', 'model': '/t/m', 'tokenizer': '/t/k', 'chat_template': '/t/x.jinja'}",
            "--chat-template",
        ),
        ("'model': '/t/m', 'tokenizer': '/t/x.jinja', 'chat_template': '/t/x.jinja.old'}", "--tokenizer"),
        ("'model': '/t/x.jinja.old', 'speculative_config': {'model': '/t/x.jinja'}}", ""),
        ("'served_model_name': ['/t/x.jinja']}", ""),
    ],
)
def test_the_option_of_a_file_is_the_one_with_this_very_value(arguments: str, option: str) -> None:
    log = (
        f"(APIServer pid=1) INFO 11-24 08:00:00 [utils.py:1] non-default args: {{{arguments}\n"
        "FileNotFoundError: [Errno 2] No such file or directory: '/t/x.jinja'\n"
    )
    (one,) = (one for one in found(log) if one.code == "file-is-not-there")
    assert re.findall(r"given by (--[\w-]+)", spoken(one)) == ([option] if option else [])


XET = "https://huggingface.co/api/models/o/m/xet-read-token/abc"
GLOO = "/pytorch/third_party/gloo/gloo/transport/tcp/"
KINDS = (
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "forked-after-cuda", "spawn"),
    ("RuntimeError: FlashInfer requires GPUs with sm80 or newer", "arch-list-without-this-gpu", "12.9"),
    ("RuntimeError: FlashInfer MLA requires SM 90 or newer", "kernel-without-this-arch", "exact"),
    ("RuntimeError: No supported CUDA architectures found for major versions [12].", "arch-list-without-this-gpu",
     "nvcc"),
    ("RuntimeError: this build needs Ampere GPUs or newer", "kernel-without-this-arch", "(12, 1)"),
    ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "kernel-without-this-arch",
     "newer flash-attn"),
    ("ValueError: TRTLLM MLA backend requires compute capability 10.0 or higher", "kernel-without-this-arch",
     "10.x alone"),
    ("RuntimeError: DeepGEMM requires Hopper GPU or newer", "kernel-without-this-arch", "VLLM_USE_DEEP_GEMM=0"),
    ("AssertionError: needs at least SM 90, as FlashAttention 3", "kernel-without-this-arch", "--attention-backend"),
    ("RuntimeError: FooMoE does not support SM120 and above.", "kernel-without-this-arch", "12.1"),
    ("ValueError('type fp8e4nv not supported in this architecture. The supported fp8 dtypes are (\\'fp8e5\\')')",
     "data-type-not-taken", "--kv-cache-dtype"),
    ("RuntimeError: Worker failed with error 'key_type torch.uint8 is not supported. Supported dtypes: [torch.half].', "
     "please check the stack trace above", "data-type-not-taken", "it takes half"),
    ("ValueError: output_size of w1 = 192 is not divisible by weight quantization block_k = 128", "kernel-without-this-"
     "shape", "--tensor-parallel-size"),
    ("AttributeError: 'GemmaTokenizerFast' object has no attribute 'all_special'", "package-of-another-time",
     "transformers"),
    ("AssertionError: Error in memory profiling. Initial free memory 10.5 GiB, current free memory 12.0 GiB.",
     "memory-changed-at-start", "no lack of memory"),
    ("huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Unavailable for url", "hub-fails", "Try again"),
    ("RuntimeError: Data processing error: CAS service error : huggingface.co", "hub-download-fails", "XET=1"),
    ("OSError: o/m does not appear to have a file named model-00002-of-00003.safetensors. 'https://huggingface.co/o'",
     "hub-file-missing", "not whole"),
    ("OSError: o/m does not appear to have a file named config.json. Look at 'https://huggingface.co/o'",
     "hub-file-missing", "has no config.json: a download"),
    (f"huggingface_hub.errors.GatedRepoError: 403 Client Error. Cannot access gated repo for url {XET}", "hub-refuses",
     "licence"),
    (f"huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: {XET}", "hub-limits",
     "HF_TOKEN"),
    (f"huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Unavailable for url: {XET}", "hub-fails",
     "Try again"),
    (f"huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. for url: {XET}", "hub-has-no-such-model",
     "misspelling"),
    (f"requests.exceptions.SSLError: {XET} hf_xet CERTIFICATE_VERIFY_FAILED", "hub-certificate", "CA"),
    ("RuntimeError: CAS service error : HTTP status client error (429 Too Many Requests), cas-server.xethub.hf.co",
     "hub-limits", "HF_TOKEN"),
    ("RuntimeError: Hugging Face: download failed, consider HF_HUB_ENABLE_HF_TRANSFER=0", "hub-download-fails",
     "(hf_transfer)"),
    ("error: invalid argument: auto", "option-not-readable", "takes no value in this release"),
    ("fatal: reference is not a tree: 1234567890abcdef1234567890abcdef12345678", "commit-not-there", "fork"),
    ("NVRM: Xid (PCI:000f:01:00): 46, pid=1, name=python3", "gpu-hardware-fault", "Xid (PCI:000f:01:00): 46"),
    ("NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
     "gpu-hardware-fault", "to 0x1 (GPU Reset Required)"),
    ("NVRM: Xid (PCI:000f:01:00): 8, pid=1, name=python3", "gpu-hardware-fault", "hangs"),
    ("NVRM: Xid (PCI:000f:01:00): 137, pid=1, name=python3", "gpu-fault-of-a-program", "Xid 137"),
    ("NVRM: Xid (PCI:000f:01:00): 141, pid=1, CUDA Fast Path Error", "gpu-event-not-known", "Xid 141"),
    (f"RuntimeError: [{GLOO}pair.cc:547] Read error [10.1.3.122]:42916: Connection reset by peer", "peer-went-away",
     "(10.1.3.122)"),
    (f"RuntimeError: [{GLOO}pair.cc:547] writev [10.1.3.122]:42916: Broken pipe", "peer-went-away", "(10.1.3.122)"),
    (f"RuntimeError: [{GLOO}pair.cc:534] Connection closed by peer [169.254.1.2]:19777", "peer-went-away",
     "(169.254.1.2)"),
    (f"RuntimeError: [{GLOO}pair.cc:534] Connection closed by peer [fe80::1%eth0]:19777.", "peer-went-away",
     "(fe80::1%eth0)"),
    (f"RuntimeError: [{GLOO}pair.cc:534] Connection closed by peer 10.0.0.2:19777.", "peer-went-away", "10.0.0.2"),
    ('Error response from daemon: Get "https://ghcr.io/v2/": dial tcp: lookup ghcr.io: no such host',
     "registry-not-reached", "daemon"),
    ('Failed to pull image "ghcr.io/o/m:1": failed to pull and unpack image: dial tcp 1.2.3.4:443: i/o timeout',
     "registry-not-reached", "i/o timeout"),
    ('Failed to pull image "o/m": Get "https://ghcr.io/v2/": dial tcp: lookup ghcr.io: no such host',
     "registry-not-reached", "(https://ghcr.io/v2/): no such host"),
    ('Error: Post "http://127.0.0.1:11434/api/chat": dial tcp 127.0.0.1:11434: connect: connection refused',
     "server-not-reached", "http://127.0.0.1:11434/api/chat"),
    ('error: push metrics: Post "http://gateway:9091/metrics": dial tcp: lookup gateway: no such host',
     "server-not-reached", "no such host"),
    ("Error: dial tcp: lookup head.local on 127.0.0.53:53: server misbehaving", "server-not-reached", "head.local: s"),
    ("Error: dial unix /run/x/x.sock: connect: no such file or directory", "server-not-reached", "/run/x/x.sock: no"),
    ("RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!",
     "tensors-on-two-devices", "cpu and cuda:0"),
    ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "not-a-number", "kv-cache-dtype"),
    ("RuntimeError: expected scalar type Half but found BFloat16", "data-types-do-not-fit", "Half but found BFloat16"),
    ("RuntimeError: worker 3 exited with code -9", "ended-by-a-signal", "oom"),
    ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "address-not-reached", "DNS"),
    ("OSError: [Errno 99] Cannot assign requested address", "address-not-reached", "none of this machine's"),
    ("TimeoutError: Timed out after 300 seconds waiting for clients. 2/4 clients joined.", "rank-does-not-come", "2/4"),
    ("ERROR: Package 'x' requires a different Python: 3.9.2 not in '>=3.10'", "python-not-allowed", "3.10"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "code", "wanted"), KINDS)
def test_a_kind_of_error_is_seen_by_its_structure(line: str, code: str, wanted: str) -> None:
    (one,) = found(f"{line}\n")
    assert one.code == code
    assert wanted in spoken(one)


@pytest.mark.parametrize("who", ["FlashAttention", "this kernel"])
def test_a_check_of_flash_attention_is_none_of_the_list_of_arches_that_flashinfer_compiles_for(who: str) -> None:
    frames = ("vllm/v1/worker/gpu_model_runner.py", "flashinfer/jit/core.py", "flash_attn/flash_attn_interface.py")
    steps = "".join(f'  File "/usr/lib/python3/dist-packages/{file}", line 5, in f\n    g()\n' for file in frames)
    (one,) = found(
        f"Traceback (most recent call last):\n{steps}RuntimeError: {who} only supports Ampere GPUs or newer.\n"
    )
    assert one.code == "kernel-without-this-arch"
    assert "nvcc" not in spoken(one)
    (other,) = found(
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/dist-packages/flashinfer/jit/core.py", line 5, in f\n    g()\n'
        "RuntimeError: requires GPUs with sm75 or higher\n"
    )
    assert other.code == "arch-list-without-this-gpu"


@pytest.mark.parametrize(
    ("message", "cache", "wanted"),
    [
        ("Activations torch.float16 is not supported. Supported dtypes: [torch.bfloat16]", "fp8", "activations"),
        ("weights fp8_e4m3 is not supported. Supported dtypes: [torch.bfloat16]", "auto", "activations"),
        ("torch.float16 is not supported. Supported dtypes: [torch.bfloat16]", "fp8", "activations"),
        ("torch.float8_e4m3fn is not supported. Supported dtypes: [torch.bfloat16]", "fp8", "KV cache"),
        ("MLA: weights torch.float8_e4m3fn is not supported. Supported dtypes: [torch.bfloat16]", "fp8", "activations"),
        ("kv_cache_dtype torch.int8 is not supported. Supported dtypes: [torch.bfloat16]", "auto", "KV cache"),
    ],
)
def test_the_message_says_what_a_data_type_is_of_and_not_the_option_alone(
    message: str, cache: str, wanted: str
) -> None:
    start = f"INFO 11-02 10:00:00 [utils.py:1] non-default args: {{'model': 'o/m', 'kv_cache_dtype': '{cache}'}}\n"
    (one,) = found(f"{start}ValueError: {message}\n")
    assert one.code == "data-type-not-taken"
    assert f"It is the type of {'the KV cache' if wanted == 'KV cache' else wanted}" in spoken(one)


def test_a_gpu_that_has_recovered_is_no_error() -> None:
    assert (
        found(
            "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n"
        )
        == ()
    )


def test_the_largest_number_that_a_message_allows_is_what_to_set() -> None:
    (one,) = found("ValueError: max_num_seqs=512 must not exceed the number of slots (300)\n")
    assert "Set --max-num-seqs to 300 or less (now 512" in spoken(one)
    assert "leave out one of them" not in spoken(one)


@pytest.mark.parametrize(
    ("refused", "wanted"),
    [
        (
            "max_model_len 262144 exceeds the limit of 131,072 tokens",
            "Set --max-model-len to 131072 or less (now 262144",
        ),
        ("max_model_len (262,144) exceeds the limit of 131072.", "Set --max-model-len to 131072 or less (now 262144"),
        ("max_num_seqs=512 exceeds 300 - lower it", "Set --max-num-seqs to 300 or less (now 512"),
        ("max_num_seqs=512 must be at most the 300-slot limit", "Set --max-num-seqs to 300 or less (now 512"),
        ("max_num_seqs=512 exceeds the limit of 300 - 1", ""),
        ("max_num_seqs (1024) exceeds 0.5 of the blocks (512)", ""),
        ("max_num_seqs (1024) exceeds the limit of 50% of the blocks (512)", ""),
        ("max_num_seqs (1024) exceeds the limit of 2 * blocks (512)", ""),
        ("max_num_seqs (1024) exceeds the slots of fp8 caches", ""),
        ("max_num_seqs (1024) exceeds the limit of 131,0725", ""),
        ("max_num_seqs (1024) exceeds the number of slots (0)", ""),
        ("max_num_seqs (256) is larger than what goes here (512)", ""),
    ],
)
def test_a_part_of_a_number_is_not_what_to_set(refused: str, wanted: str) -> None:
    (one,) = found(f"ValueError: {refused}\n")
    assert one.code == "settings-do-not-agree"
    assert wanted in spoken(one)
    assert ("or less (now" in spoken(one)) is bool(wanted)


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        *(("wasm32_init", ""), ("prism100_gemm", ""), ("PRISM100_GEMM", ""), ("shopperHash", ""), ("gemm_sm1001", "")),
        *(("amperemeter", ""), ("cutlass_moe_mm_sm100", "sm100"), ("sm_120a_gemm", "sm_120a"), ("fp8sm90", "sm90")),
        *(("runSm90Gemm", "Sm90"), ("gemmSM100a", "SM100a"), ("sm100fGemm", "sm100f"), ("sm90add", "sm90")),
        *(("isHopper", "Hopper"), ("blackwell_fmha", "blackwell"), ("hopperGemm", "hopper"), ("ON_AMPERE", "AMPERE")),
    ],
)
def test_a_chip_is_a_word_of_a_function_s_name(name: str, chip: str) -> None:
    (one,) = found(f"ImportError: /v/site-packages/vllm/_moe_C.abi3.so: undefined symbol: {name}\n")
    assert one.code == ("built-without-a-part" if chip else "mixed-wheels")
    assert f"kernels for {chip} were left out" in spoken(one) or not chip


@pytest.mark.parametrize(
    ("number", "names_it"),
    [
        ("12.8", False),
        ("12.10", False),
        ("12.1.5", False),
        ("12", True),
        ("12.1", True),
        ("12.0.", True),
        ("121", True),
    ],
)
def test_another_capability_is_not_the_one_of_this_gpu(number: str, names_it: bool) -> None:
    seen = found(f"RuntimeError: no kernel for compute capability {number}\n")
    assert any("the message names" in spoken(one) for one in seen) is names_it


def test_a_line_that_only_lists_a_signal_among_causes_tells_no_crash() -> None:
    log = "(raylet) A worker died or was killed. Causes: (1) SIGKILL by the OOM killer (2) a crash due to SIGSEGV.\n"
    assert [one.code for one in found(log)] != ["compiled-code-crashed"]


def test_each_xid_is_a_finding_of_its_own() -> None:
    lines = [
        f"[ 71.{at}] NVRM: Xid (PCI:000f:01:00): {number}, pid={at}, name=python3, Ch 00000008\n"
        for at, number in enumerate((46, 13, 31, 46, 109, 141, 31))
    ]
    seen = found("".join(lines))
    assert [(one.code, one.count) for one in seen] == [
        *(("gpu-hardware-fault", 2), ("gpu-fault-of-a-program", 1), ("gpu-fault-of-a-program", 2)),
        *(("gpu-fault-of-a-program", 1), ("gpu-event-not-known", 1)),
    ]
    assert [re.findall(r"Xid (?:\(\S{1,20}\): )?(\d+)", spoken(one))[0] for one in seen] == [
        "46",
        "13",
        "31",
        "109",
        "141",
    ]


def test_many_causes_of_one_code_are_a_few_findings_and_a_count() -> None:
    numbers = [*range(200, 230), 229, 230, 46]
    lines = [
        f"[ 71.{at}] NVRM: Xid (PCI:000f:01:00): {number}, pid={at}\n" for at, number in enumerate(numbers, start=100)
    ]
    seen = found("".join(lines))
    unknown = [one for one in seen if one.code == "gpu-event-not-known"]
    assert [one.code for one in seen if one not in unknown] == ["gpu-hardware-fault"]
    assert len(unknown) == MOST_EACH + 1
    *each, rest = unknown
    assert [f"Xid {number}" in spoken(one) for one, number in zip(each, numbers, strict=False)] == [True] * MOST_EACH
    assert f"And {31 - MOST_EACH} more of this kind" in spoken(rest)
    assert (rest.level, rest.line, rest.count) == ("warning", MOST_EACH + 1, 32 - MOST_EACH)


def test_options_of_the_other_engine_are_not_offered() -> None:
    (one,) = found(
        f"{FRAME.format(file='managers/schedule_batch.py', where='f', code='assert i % step == 0')}AssertionError\n"
    )
    assert "--disable-radix-cache" in one.note
    assert "--no-enable-prefix-caching" not in one.note


def test_a_collector_s_prefix_before_an_engine_s_process_is_none_of_the_message() -> None:
    (one,) = found(
        "node-7/vllm-0 server (EngineCore pid=7) ERROR 09-19 19:20:03 [core.py:1] RuntimeError: Data type fp16 "
        "is wrong\n"
    )
    assert one.value.startswith("RuntimeError: Data type")
    quiet = "node-7/vllm-0 server (EngineCore pid=7) INFO 09-19 19:20:03 [core.py:1] 0 requests failed, error rate 0\n"
    assert found(quiet) == ()
