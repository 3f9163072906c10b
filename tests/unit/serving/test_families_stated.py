"""What a message states by itself, in sentences that no report has: quantities, releases, names, variables, hints."""

import re

import pytest

from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.diagnosis import Finding
from gb10.serving.doctor.families_stated import Quantities, quantities_of
from gb10.serving.doctor.log_judging import MORE_UNKNOWN, MOST_UNKNOWN
from gb10.serving.doctor.rule_files import load_doctor_rules
from tests.kept_cases import scanned


def found(log: str) -> tuple[Finding, ...]:
    return diagnose(load_doctor_rules(), Evidence(logs={"log": scanned(log)})).seen


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The pool needs at least 4 workers, but only 2 are running.", Quantities("4 workers", "2", "need", "ranks")),
        ("requested 48.0 GiB, but 31.2 GiB are left", Quantities("48.0 GiB", "31.2 GiB", "need", "memory")),
        ("expected ABI version 7, got 5", Quantities("7", "5", "need", "release")),
        ("spam>=1.2.0 is required here, found 0.1.11", Quantities("1.2.0", "0.1.11", "need", "release")),
        ("prompt of 9,000 tokens exceeds the limit of 8,192", Quantities("9,000 tokens", "8,192", "limit", "tokens")),
        ("n_ctx (2048) is less than the trained 40960", Quantities("40960", "2048", "need", "tokens")),
        ("vocabulary 151936 does not match 152064", Quantities("151936", "152064", "unequal", "sizes")),
        ("needs spam at least 1.2, found 1.3 and that is fine", None),
        ("expected 3 rows, got 3", None),
        ("max_lanes must be >= 1, got 0", Quantities("1", "0", "need", "")),
        ("needs at least 3 GiB, but only 700 MiB available", Quantities("3 GiB", "700 MiB", "need", "memory")),
        ("needs at least 3 GiB, but only 4096 MiB available", None),
        ("the server listens on port 8000", None),
        ("no available lanes of ranks: 2 required, 1 free", Quantities("2", "1", "need", "ranks")),
    ],
)
def test_two_numbers_of_a_sentence_are_what_is_wanted_and_what_is_there(text: str, wanted: Quantities | None) -> None:
    assert quantities_of(text) == wanted


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        (
            "RuntimeError: The pool needs at least 4 workers, but only 2 are running.",
            "numbers-do-not-agree",
            "tensor-par",
        ),
        ("ValueError: requested pages of 48.0 GiB, 31.2 GiB are left", "numbers-do-not-agree", "--max-model-len"),
        ("ImportError: spam>=1.2.0 is required here, found 0.1.11", "release-not-allowed", r"Install spam>=1\.2\.0"),
        (
            "ERROR: this feature needs libspam >= 2.0.14 but 2.0.11 was found",
            "release-not-allowed",
            r"libspam>=2\.0\.14",
        ),
        ("error: unknown preset 'sm121-relese'. Did you mean 'sm121-release'?", "name-misspelled", "sm121-release"),
        (
            "RuntimeError: No rank. Please set the SPAM_RANK environment variable.",
            "variable-not-given",
            "-e SPAM_RANK=",
        ),
        (
            "E1120 10:00:01.1 a.cc:5] failed to open engine file /m/r.engine: built with version 10.13.0, current "
            "runtime "
            "is 10.9.0",
            "file-of-another-release",
            "again with 10.9.0",
        ),
        ("ValueError: --egg needs --ham to be one of ['a', 'b'], got 'c'", "value-not-known", r"\['a', 'b'\]"),
        ("NotImplementedError: Spam is only defined for width 64 and 128, got 96", "value-not-known", "64 and 128"),
        ("ValueError: Unknown spam type 'LASTT'. Supported: LAST, MEAN, CLS", "value-not-known", "Take LAST"),
        (
            "ERROR 11-20 10:00:00 [a.py:1] The map failed. Try increasing vm.max_map_count.",
            "message-says",
            "sysctl -w vm",
        ),
        ("RuntimeError: Too many handles. Consider raising it with `ulimit -n 65536`.", "message-says", "nofile"),
        ("error: could not find `spam`. Please install libspam or set SPAM.", "message-says", "aarch64"),
        ("error: no linker for these wheels\nhint: set `SPAM=copy` and run it again", "message-says", "SPAM=copy"),
        (
            "warning: failed to mlock 8 B: Cannot allocate memory\nTry 'ulimit -l' as root.",
            "system-memory-refused",
            "memlock",
        ),
        ("RuntimeError: CUDA error: invalid device ordinal", "cuda-device-not-there", "CUDA_VISIBLE_DEVICES"),
        ("OSError: cannot reach 10.0.0.12:2379: Connection refused", "nobody-listens", "ss -ltnp"),
        ("error: worker failed with exit code: 132", "ended-by-signal", "does not have"),
        ("container exited with error: exit code 127", "command-not-started", "PATH"),
    ],
)
def test_a_message_that_states_its_cause_is_a_finding(log: str, code: str, said: str) -> None:
    (one,) = found(f"{log}\n")
    assert one.rule is not None
    assert one.code == code
    assert re.search(said, f"{one.rule.meaning} {one.rule.action}")


LAUNCHED = (
    "non-default args: {{'model': 'm', 'max_num_seqs': 4096}}\n"
    "Traceback (most recent call last):\n"
    '  File "/v/site-packages/vllm/spam/ops.py", line 8, in decode\n'
    "    decode_kernel[grid](\n"
    '  File "/v/site-packages/triton/backends/nvidia/driver.py", line 9, in __call__\n'
    "    self.launch(gridX, gridY, gridZ)\n"
    "RuntimeError: {}\n"
)
COMPILED = (
    "Traceback (most recent call last):\n"
    '  File "/v/site-packages/vllm/spam/ops.py", line 8, in decode\n'
    "    decode_kernel[grid](\n"
    '  File "/v/site-packages/triton/compiler/compiler.py", line 9, in compile\n'
    "    module = src.make_ir()\n"
    "triton.compiler.errors.CompilationError: at 7:1:\n"
    "ValueError('{}')\n"
)
OF_A_STEP = (
    "Traceback (most recent call last):\n"
    '  File "/v/site-packages/vllm/v1/core/sched/scheduler.py", line 8, in update\n'
    "    ids = {}\n"
    "AttributeError: 'NoneType' object has no attribute 'ids'\n"
)


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        (LAUNCHED.format("Triton Error [CUDA]: invalid argument"), "kernel-launch-refused", r"max-num-seqs \(now 4096"),
        (LAUNCHED.format("CUDA error: invalid configuration argument"), "kernel-launch-refused", "65,535"),
        (COMPILED.format("spam: incompatible dimensions 64 and 96"), "kernel-without-this-shape", "64 and 96"),
        (COMPILED.format("no such intrinsic"), "kernel-does-not-compile", "triton"),
        (OF_A_STEP.format("step_output.ids"), "value-is-none", "No file and no option of yours"),
        (OF_A_STEP.format("self.hf_config.ids"), "value-is-none", r"config\.json"),
        ("RuntimeError: Device does not support multimem stores.", "device-without-a-feature", "NVLS"),
        (
            "aiohttp.client_exceptions.ServerTimeoutError: after 600 s",
            "server-closed-the-connection",
            "did not answer in time",
        ),
        (
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
            "driver-not-loaded",
            "uname",
        ),
        (
            "docker: Error response from daemon: error mounting /run/spamd/socket: no such file or directory",
            "socket-of-a-service-missing",
            "enable --now spamd",
        ),
        (
            "n1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "localGid fe80::1:2 remoteGids fe80::1:3 hca mlx5_7",
            "roce-over-link-local",
            "without mlx5_7",
        ),
        (
            "0.00.1 E llama_model_load: error loading model: unknown model architecture: ''",
            "file-without-a-model",
            "mmproj",
        ),
        (
            "ValueError: NvFp4 MoE backend 'SPAM' does not support this, since kernel does not support egg layer.",
            "backend-refused",
            "--moe-backend marlin",
        ),
        (
            "torch.AcceleratorError: CUDA error: operation not permitted",
            "gpu-taken-from-the-container",
            "daemon-reload",
        ),
        ("RuntimeError: CUDA driver error: invalid device context", "driver-call-fails", "PYTORCH_CUDA_ALLOC_CONF"),
        (
            "Traceback (most recent call last):\n"
            '  File "/v/site-packages/spam/a.py", line 8, in egg\n'
            "    y = x.entr().sum()\n"
            "RuntimeError: CUDA driver error: invalid argument",
            "driver-call-fails",
            r"^A call .*first small kernels",
        ),
        (
            "RuntimeError: Runtime check failed at spam_grouped_gemm.cuh:9: CUDA error: device-side assert triggered",
            "kernel-crashed",
            "spam_grouped_gemm",
        ),
        ("ggml_cuda_init: failed to initialize CUDA: unknown error", "cuda-not-started", "nvidia_uvm"),
        (
            "spamd: error while loading shared libraries: libcublas.so.12: cannot open shared object file",
            "library-of-another-cuda",
            "ldd",
        ),
        (
            "[TRT-LLM] [E] Failed: 1 validation error for Spam\n  Value error, max_eggs [96] is greater than "
            "ham.max_eggs [8]",
            "numbers-do-not-agree",
            r"max_eggs = 96 was asked for, and ham\.max_eggs = 8",
        ),
        ("ValueError: Page size 4096 does not match 1024 of the draft", "numbers-do-not-agree", "kv-cache-dtype"),
        ("RuntimeError: cudaHostAlloc failed for 4 GiB", "memory-not-pinned", "memlock"),
        (
            "Traceback (most recent call last):\n"
            '  File "/v/site-packages/vllm/models/spam.py", line 8, in load_weights\n'
            "    param.copy_(weight)\n"
            "ValueError: expected torch.uint8, got torch.float16 for this layer",
            "weights-do-not-fit",
            r"float16",
        ),
        (
            "ValueError: column width 32 is not divisible by quant block 128",
            "kernel-without-this-shape",
            "narrower than one",
        ),
        (
            "ValueError: Not enough memory. Raise --spam-fraction above 0.9",
            "memory-does-not-fit",
            "Raise --spam-fraction",
        ),
        ("modprobe: ERROR: could not insert 'nvidia_uvm': Key was rejected", "driver-does-not-load", "mokutil"),
    ],
)
def test_a_kind_of_the_new_sets_is_seen_in_other_words(log: str, code: str, said: str) -> None:
    one = next(one for one in found(f"{log}\n") if one.level == "error")
    assert one.rule is not None
    assert one.code == code
    assert re.search(said, f"{one.rule.meaning} {one.rule.action}")


def test_an_unknown_warning_of_nccl_is_shown_with_the_error_that_follows() -> None:
    log = (
        "n1:1:2 [0] spam.cc:9 NCCL WARN The egg on rank 1 is not boiled\n"
        "torch.distributed.DistBackendError: NCCL error in: a.cpp:9, internal error - please report this issue to the "
        "NCCL developers\n"
    )
    assert [(one.code, one.level) for one in found(log)] == [("nccl-warns", "warning"), ("nccl-fails", "error")]


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        ("ValueError: Invalid value for environment variable SPAM_MODE: expected 0 or 1, got yes", "variable-not", ""),
        ("ValueError: backend SPAM_ATTN is required for this model", "", "-e SPAM_ATTN"),
        ("ImportError: spam._C was compiled with torch version 2.9.0 but the current torch version is 2.10.0 (engine "
         "core)", "file-of-another-release", ""),
        ("ValueError: FP4 cache is only supported on CUDA, not on ROCm", "", "on was given"),
        ("TypeError: f() got an unexpected keyword argument 'x'. Did you mean 'y'?", "name-misspelled", ""),
        ("ValueError: Free memory on device (30.1/119.7 GiB) on startup is less than desired", "", "says: Free memory"),
    ],
)  # fmt: skip
def test_words_that_only_look_like_a_cause_are_none(log: str, code: str, said: str) -> None:
    for finding in found(log):
        assert not code or not finding.code.startswith(code)
        text = f"{finding.rule.meaning} {finding.rule.action}" if finding.rule else ""
        assert not said or said not in " ".join((text, finding.note, *finding.explained))


def test_a_signal_after_an_error_is_its_echo() -> None:
    seen = found("RuntimeError: CUDA error: invalid device ordinal\n\nerror: worker failed with exit code: 134\n")
    assert [(one.code, one.echoes) for one in seen] == [("cuda-device-not-there", 1)]


def test_the_numbers_of_an_assertion_over_the_programs_own_state_are_nobodys_settings() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/v/site-packages/spam/pool.py", line 8, in grow\n'
        "    assert wanted > held, (\n"
        "AssertionError: wanted 18 < held 19\n"
    )
    assert [one.code for one in found(log)] == ["unknown"]


def test_unknown_errors_beyond_the_first_kinds_are_counted() -> None:
    names = [f"{first}{last}" for first in "abcd" for last in "efghi"]
    seen = found("".join(f"ERROR: {name} spam failed\n" for name in names))
    assert [one.code for one in seen] == ["unknown"] * MOST_UNKNOWN + [MORE_UNKNOWN]
    assert f"{len(names) - MOST_UNKNOWN} more kinds" in seen[-1].rule.meaning if seen[-1].rule else False


def test_a_line_that_its_program_calls_an_error_is_one_whatever_its_words_are() -> None:
    assert [one.code for one in found("ERROR 11-20 10:00:00 [a.py:1] The spam is not where it was.\n")] == ["unknown"]
    assert found("INFO 11-20 10:00:00 [a.py:1] The spam is not where it was.\n") == ()
