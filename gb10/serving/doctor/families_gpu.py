"""Families: what a kernel asks of the GPU, and what a GB10 has. Pure.

A GB10 has compute capability 12.1, 48 SMs, 101,376 B (99 KiB) of shared memory a block, 65,536 registers an SM and
255 a thread, and no tcgen05, TMEM or clusters of 10.x.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from packaging.version import InvalidVersion, Version

from gb10.image.recipe.arch import SHARED_MEMORY
from gb10.serving.doctor.advice import own_advice
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families_packages import part_of
from gb10.serving.doctor.option_names import option_of_this_part

SMS: Final = 48
REGISTERS: Final = 65_536
NUMBER: Final = r"(?P<number>\d[\d,]{0,12})(?: ?(?P<unit>[KM]i?B|bytes|B)\b)?"
ABOUT_SHARED: Final = re.compile(
    r"smem|shared[ _]mem(?:ory)?|SharedMemory|shared_memory|MaxDynamicSharedMemory", re.IGNORECASE
)
ABOUT_REGISTERS: Final = re.compile(
    (
        r"too many resources requested for launch|out of resource: (?:threads|registers)|register usage|registers? "
        r"per thread"
    ),
    re.I,
)
ABOUT_SMS: Final = re.compile(
    (
        r"num_sms?\b|\bSMs\b|sm_count|multiProcessorCount|cooperative launch|oversubscribe|too "
        r"large.{0,40}cooperative"
    ),
    re.I,
)
NUMBERS: Final = re.compile(NUMBER)
NO_IMAGE: Final = re.compile(
    r"no kernel image is available|cudaErrorNoKernelImageForDevice|invalid device function|"
    r"CUDA_ERROR_NO_BINARY_FOR_GPU"
)
PTX: Final = re.compile(
    r"cudaErrorUnsupportedPtxVersion|unsupported toolchain|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|unsupported PTX "
    r"version|error code 222\b"
)
OLD_DRIVER: Final = re.compile(
    r"driver version is insufficient|driver on your system is too old|cudaErrorInsufficientDriver|forward "
    r"compatibility was attempted|cudaErrorSystemDriverMismatch|system has unsupported display driver"
)
NVCC: Final = re.compile(
    r"[Uu]nsupported gpu architecture '(?P<arch>compute_\d{2,3}[af]?)'|"
    r"Value '(?P<value>(?:sm|compute)_\d{2,3}[af]?)' is not defined for option 'gpu-(?:name|architecture|code)'|"
    r"gpu-name.{0,20}(?P<other>sm_12\d[af]?)"
)
NVRTC: Final = re.compile(
    r"(?:nvrtc|NVRTC)[^\n]{0,60}(?:invalid value for --gpu-architecture|INVALID_OPTION)|"
    r"invalid value for --gpu-architecture"
)
NO_NVCC: Final = re.compile(
    r"nvcc: (?:not found|No such file)|[Cc]ould not find nvcc|nvcc not found|CUDA_HOME environment variable is "
    r"not set|No such file or directory: '\S{0,200}nvcc'"
)
ONLY_FOR: Final = re.compile(
    (
        r"(?:only |is only )?(?:supported|available|implemented|works|runs|compiled)\b.{0,30}?\b(?:on|for|with)"
        r"\b.{0,50}?(?P<arch>\bSM ?_?\d{2,3}[af]?\b|\bsm_?\d{2,3}[af]?\b|compute capability \d{1,2}(?:\.\d)?|"
        r"Hopper|B[23]00|GB[23]00|H100|\bSM ?\d{2,3}x?)"
    ),
    re.IGNORECASE,
)
ARCH: Final = (
    r"\b(?:sm|compute)_?1[02]\d[af]?\b|\bSM ?1[02]\d|"
    r"(?:capabilit(?:y|ies)|\bSM|\barch(?:itecture)?) ?[:=]? ?\(?12(?:(?:\.|, ?)?[01])?\b(?!\.\d)\)?"
)
"""An arch by its name: the number alone is a line, a second, a size or a release of CUDA."""
NOT_FOR: Final = re.compile(
    (
        r"(?:unsupported|not supported|no (?:valid )?kernel|does not support|invalid|unknown|not implemented|"
        r"cannot find|none of|not usable|unusable|not available|cannot (?:run|be used)).{0,60}?"
        rf"(?P<arch>{ARCH})"
        r"|(?P<arch2>\bsm_?12[01][af]?\b|SM ?12[01]|compute capability ?:? ?12\.[01]|GB10).{0,60}?(?:is not "
        r"supported|not supported|unsupported|not implemented|no kernel|not usable|not available)"
        r"|(?:one of|expects?|requires?|must be)\b.{0,200}?\bbut (?:got|found|is|was) .{0,12}?"
        r"(?P<arch3>\bsm_?12[01][af]?\b)"
        r"|\b(?:arch|capabilit)\w{0,10}\b.{0,200}?\bbut (?:got|found|is|was) .{0,12}?(?P<arch4>\(12, ?[01]\))"
    ),
    re.IGNORECASE,
)
OWN_ARCH: Final = re.compile(r"12[.01,]|12, ?[01]|SM ?12x", re.I)
SELECTOR: Final = re.compile(r"No valid [\w ]{2,30}backend found")
"""The engine's list of all backends with their reasons: another family reads it whole."""
NOT_HERE: Final = re.compile(
    r"(?:not (?:currently )?(?:supported|available|implemented)|unsupported|unavailable) (?:on|for|by|with) (?:your|"
    r"this|(?:the )?current|the|that|given) (?:CUDA |GPU )?(?:device|GPU|hardware|card|chip|arch(?:itecture)?)\b"
    r"|\b(?:device|GPU|hardware|GPU arch(?:itecture)?|compute capability) (?:is )?not supported"
    r"|unsupported (?:GPU |CUDA |SM )?(?:device|GPU|hardware|arch(?:itecture)?|compute capability)\b"
    r"(?! ?['\":]| type| map)"
    r"|does not support (?:your|this|the current|current) (?:device|GPU|hardware)",
    re.IGNORECASE,
)
"""A check that refuses this GPU without a name of an arch."""
CHECKS: Final = re.compile(r"[Cc]heck failed|Assertion|assert|Expected|ICHECK|FLASHINFER_CHECK|Internal Error|CHECK_")
CHECK: Final = re.compile(
    r"(?<!\w)(?P<left>[a-z_]\w{1,40}) ?(?P<sign>[<>=!]=|[<>%]) ?(?P<right>[\w.]{1,40})"
    r"(?:\)? ?\((?P<got>-?\d{1,12}) vs\.? (?P<limit>-?\d{1,12})\))?"
)
KERNEL_FILES: Final = (
    "flashinfer",
    "sgl_kernel",
    "vllm/_custom_ops",
    "triton",
    "deep_gemm",
    "flash_attn",
    "flash_mla",
    "cutlass",
    "trtllm",
    "b12x",
    "marlin",
    "tilelang",
    "_kernels",
    "warmup",
)
TOP_K: Final = re.compile(r"persistent_topk|filtered_?topk|(?:top_?k|sparse).{0,40}indexer|indexer.{0,40}top_?k", re.I)
FALLS_BACK: Final = "0.33.0"
"""A release of vLLM whose csrc/topk.cu, as read, takes top_k_per_row_decode where persistent_topk does not fit and
FilteredTopK has no 128 KiB (vllm PR#54110). The call is in indexer_topk.py there, not in sparse_attn_indexer.py."""
SHAPES: Final = re.compile(
    (
        r"num_tokens|head_dim|head_size|num_heads|heads|top_?k|block_size|page_size|hidden|dtype|group_size|tile|"
        r"swizzle|K|N|M"
    ),
    re.I,
)
OPTIONS_OF: Final = {
    r"mm_encoder|(?<![a-z])vit(?![a-z])|vision|siglip": "--mm-encoder-attn-backend (SGLang: --mm-attention-backend)",
    r"(?<![a-z])(?:fused_?)?moe(?![a-z])": "--moe-backend (SGLang: --moe-runner-backend)",
    "attention|attn|(?<![a-z])(?:flash_?)?mla(?![a-z])": "--attention-backend",
    "indexer": "--attention-backend, --max-model-len",
    "topk": "--max-model-len, --attention-backend",
    "gemm": "--linear-backend, --quantization",
    "linear": "--linear-backend, --quantization",
    "quant": "--quantization, --kv-cache-dtype",
    "spec_|speculat|draft": "--speculative-config",
    "mamba|/fla/|gated_delta": "--mamba-backend",
    "gdn": "--gdn-backend, --mamba-backend",
    "allreduce": "--disable-custom-all-reduce",
}
"""Options that choose another kernel, by a part of the file that asked for it."""


def _bytes(found: re.Match[str], text: str) -> int | None:
    """A number of bytes; those of KiB without a unit that says bytes are read by their unit alone."""
    value = int(found["number"].replace(",", ""))
    unit = (found["unit"] or "").upper()
    scale = {"KB": 1024, "KIB": 1024, "MB": 1 << 20, "MIB": 1 << 20}.get(unit, 1)
    return value * scale


def beyond_shared_memory(case: Case) -> Verdict | None:
    """More shared memory a block than a GB10 has, in any words."""
    text = case.text
    about = ABOUT_SHARED.search(text)
    if about is None or not re.search(
        (
            r"out of|exceed|requires?|Required|too (?:large|much|big)|limit|insufficient|invalid|Failed to set|not "
            r"enough|have\b"
        ),
        text,
        re.I,
    ):
        return None
    sizes = [size for found in NUMBERS.finditer(text) if (size := _bytes(found, text))]
    asked = sorted(size for size in sizes if SHARED_MEMORY < size <= 8 << 20 and size != REGISTERS)
    knows_limit = SHARED_MEMORY in sizes or any(one in (99 * 1024, 100 * 1024) for one in sizes)
    if not asked or (not knows_limit and asked[0] > 256 * 1024):
        return None
    other = _sms(case)
    return Verdict(
        code="beyond-shared-memory",
        meaning=(
            f"A kernel asks for {asked[0]:,} B of shared memory a block; a GB10 has {SHARED_MEMORY:,} B (99 "
            f"KiB). {other}It was tuned for a GPU with 163 KiB or more."
        ),
        action=_top_k(case)
        or (
            f"{_another(case)} Or fewer stages (num_stages) or a smaller tile, where the file of the tile is "
            "yours: ./build.py moe check FILE."
        ),
        evidence="the numbers of the message against the chip's; vllm#53748, vllm PR#41834, vllm PR#54110, sglang#8513",
    )


def _sms(case: Case) -> str:
    found = re.search(
        (
            r"(?:total_ctas|grid|blocks?|ctas?)\s?[=:]?\s?(?P<blocks>\d{1,6})\s?>\s?(?:num_sms?[*\w]{0,20}|SMs?)"
            r"\s?[=:]?\s?(?P<sms>\d{1,4})"
        ),
        case.text,
    )
    return (
        f"The other way needs {found['blocks']} blocks at once, and {found['sms']} fit on its {SMS} SMs. "
        if found
        else ""
    )


def _top_k(case: Case) -> str:
    """What to do about the top-k of a sparse indexer: its release and the length decide. Empty for other kernels."""
    frames = " ".join(frame.file for frame in case.raised.frames)
    if not TOP_K.search(f"{frames} {case.text}"):
        return ""
    length = case.scan.start.option("max_model_len", "context_length", "model_max_length")
    now = f" (now {length})" if length else ""
    known = case.version("vllm")
    old = case.engine == "vllm" and (known is None or _before(known, FALLS_BACK))
    newer = (
        f"Take vLLM {FALLS_BACK}: its top-k takes a kernel for each row where a block has less than 128 KiB. "
        if old
        else ""
    )
    per_row = " So may --sparse-indexer-topk-backend per_row (vLLM 0.30.0 and later)." if case.engine == "vllm" else ""
    first = "Else" if newer else "The length decides how many blocks it needs:"
    return (
        f"{newer}{first} a smaller --max-model-len{now} may fit.{per_row} {_another(case, 'Last: another kernel, by')}"
    )


def _before(version: str, other: str) -> bool:
    try:
        return Version(version) < Version(other)
    except InvalidVersion:
        return True


def beyond_sms_or_registers(case: Case) -> Verdict | None:
    """More blocks at once than SMs hold, or more registers than there are."""
    if ABOUT_REGISTERS.search(case.text):
        return Verdict(
            code="beyond-registers",
            meaning=(
                f"A kernel asks for more registers or threads than a GB10 has ({REGISTERS:,} registers an SM, "
                f"255 a thread): {case.first_line[:200]}"
            ),
            action=f"{_another(case)} Fewer warps or a smaller tile in a tuned file.",
            evidence="CUDA's table of compute capability 12.x",
        )
    found = ABOUT_SMS.search(case.text)
    numbers = [int(one["number"].replace(",", "")) for one in NUMBERS.finditer(case.text)]
    if found is None or SMS not in numbers:
        return None
    return Verdict(
        code="beyond-sms",
        meaning=f"A kernel needs more blocks at once than the {SMS} SMs of a GB10 hold.",
        action=_top_k(case) or _another(case),
        evidence="the numbers of the message against the chip's",
    )


SERVE: Final = {
    ("vllm", "--moe-backend"): ("marlin", "triton", "flashinfer_cutlass"),
    ("vllm", "--linear-backend"): ("marlin", "triton", "cutlass"),
    ("vllm", "--mm-encoder-attn-backend"): ("TRITON_ATTN", "TORCH_SDPA"),
    ("sglang", "--mm-attention-backend"): ("triton_attn", "sdpa"),
    ("sglang", "--fp4-gemm-backend"): ("flashinfer_cutlass", "flashinfer_cudnn"),
    ("sglang", "--fp8-gemm-backend"): ("triton", "cutlass"),
    ("vllm", "--attention-backend"): ("TRITON_ATTN", "FLASHINFER", "FLASH_ATTN", "for MLA TRITON_MLA"),
    ("sglang", "--moe-runner-backend"): ("triton", "flashinfer_cutlass", "marlin"),
    ("sglang", "--attention-backend"): ("triton", "flashinfer"),
}
"""Backends that have kernels for 12.1, by engine and option, the plainest first (docs/explain.md)."""
NAMES_OF: Final = {
    "--moe-backend": "--moe-runner-backend",
    "--mm-encoder-attn-backend": "--mm-attention-backend",
    "--linear-backend": "--fp8-gemm-backend",
}
"""SGLang's names of vLLM's options."""


def _that_serve(case: Case, options: str) -> str:
    """Which values of the first option have kernels for this GPU, less the one that is set or that failed."""
    first = re.match(r"--[a-z\d-]+", options)
    engine = case.engine or ""
    name = first[0] if first else ""
    name = NAMES_OF.get(name, name) if engine == "sglang" else name
    values = SERVE.get((engine, name), ())
    now = (case.scan.start.option(name[2:].replace("-", "_")) or "").lower()
    text = case.text.lower()
    without = {now, "flash_attn"} if _has_sinks_or_fp8_cache(case) else {now}
    names = {one: one.lower().split()[-1] for one in values}
    left = [one for one, own in names.items() if own not in without and not re.search(rf"\b{own}\b", text)]
    return f" On 12.1 {name} has {', '.join(left)}." if left else ""


def _has_sinks_or_fp8_cache(case: Case) -> bool:
    """Whether attention needs what FlashAttention 2, the only one of vLLM's that runs on 12.1, does not have."""
    start = case.scan.start
    cache = start.option("kv_cache_dtype") or ""
    seen = re.search(r"\bsinks?\b|gpt[-_]oss|fp8[ _]kv|kv[ _-]?cache.{0,40}fp8", f"{case.text} {start.arguments}", re.I)
    return cache.startswith("fp8") or seen is not None


def _another(case: Case, begin: str = "Take another kernel:", *, missing: bool = True) -> str:
    """Which options take another kernel, by where it was asked for; where one is ``missing``, a newer release."""
    files = " ".join(frame.path for frame in case.raised.frames[-6:]).lower() + case.text.lower()[:300]
    options = [option for part, option in OPTIONS_OF.items() if re.search(part, files)]
    release, engine = case.release, case.engine
    newest = case.releases.engines.get(engine or "", ())
    newer = (
        f" A newer release ({newest[-1].version} is the newest known) may have a kernel for 12.1."
        if release and newest and newest[-1].version != release.version
        else " A newer release may have a kernel for 12.1."
    )
    drafts = " Drafts take other shapes: try without --speculative-config." if "draft" in files or case.drafts else ""
    given = "".join(
        f" Now it is {name}={value}."
        for name in ("attention_backend", "moe_backend", "moe_runner_backend", "linear_backend")
        if (value := case.scan.start.option(name)) and value != "None"
    )
    if case.engine in ("trtllm", "tensorrt_llm"):
        return f"{begin} {_of_tensorrt(files)}{newer if missing else ''}"
    own = option_of_this_part(case)
    chosen = own or (
        options[0] if options else "--attention-backend, --moe-backend or --linear-backend, whichever this is of"
    )
    if case.engine == "sglang" and chosen.startswith("--linear-backend"):
        chosen = "--fp4-gemm-backend" if re.search("fp4", files) else "--fp8-gemm-backend"
    serve = _that_serve(case, chosen) if own or options else ""
    return f"{begin} {chosen}.{given}{serve}{drafts}{newer if missing else ''}"


def _of_tensorrt(files: str) -> str:
    """Fields that choose another kernel in TensorRT-LLM's file of options."""
    moe = "moe_config: {backend: CUTLASS}" if "moe" in files else ""
    attention = "attn_backend: TRTLLM or FLASHINFER" if re.search("attn|attention|mla|fmha", files) else ""
    if attention and re.search("deepseek|mla", files):
        attention += (
            ", with kv_cache_config: {dtype: fp8_ds_mla} in a release that has FlashInfer's sparse MLA for 12.x"
        )
    fields = ", ".join(filter(None, (moe, attention))) or "moe_config.backend or attn_backend, whichever this is of"
    return f"{fields} (in the file of --extra_llm_api_options; the TRTLLM kernels of experts are for 10.x alone)."


def image_of_a_kernel_not_loaded(case: Case) -> Verdict | None:
    """Machine code or PTX that is there, and that the driver cannot load."""
    if not re.search(r"device kernel image is invalid|CUDA_ERROR_INVALID_IMAGE|cudaErrorInvalidKernelImage", case.text):
        return None
    return Verdict(
        code="image-newer-than-driver",
        meaning=(
            "The driver cannot load the code of this program (device kernel image is invalid): the driver of the host "
            "is older than the CUDA that compiled it, or the file is damaged, or compressed in a way that this driver "
            "does not read. Code that is missing for a GPU has another message (no kernel image is available)."
        ),
        action=(
            "nvidia-smi shows the driver and its CUDA: update the driver to one that is as new as the CUDA of the "
            "build (CUDA 13.0: 580), or take a build of an older CUDA. Then an empty cache of compiled kernels "
            "(~/.nv/ComputeCache, ~/.triton/cache), and the file anew."
        ),
        evidence="CUDA's own error; canonical/inference-snaps#255",
    )


MINIMUM: Final = re.compile(
    r"(?:\bsm_?|\bSM ?_?|(?:compute )?capability ?(?:of )?)(?P<least>\d{1,2}\.?\d)\+? ?(?:or|and) "
    r"(?:higher|newer|above|later|greater|up)"
    r"|(?:at least|minimum|>=) ?(?:of )?(?:sm_?|SM ?_?|(?:compute )?capability ?)(?P<most>\d{1,2}\.?\d)\b"
    r"|\b(?P<family>Volta|Turing|Ampere|Ada|Hopper|Blackwell)(?: GPUs?| architecture)? (?:or|and) "
    r"(?:higher|newer|above|later)",
    re.I,
)
NO_ARCHS: Final = re.compile(
    r"[Nn]o supported (?:CUDA |GPU )?arch\w* (?:were |was )?found for major versions? \[?(?P<majors>[\d, ]+)"
)
OWN: Final = 121
OF_FLASHINFER: Final = 90
"""FlashInfer's check of the arches that it compiles for asks for less than this; its kernels' own checks name more."""
OTHER_CHECKS: Final = re.compile(r"flash[_-]?attn|Flash ?Attention|\bFA[234]\b|trt-?llm|deep_?gemm|flash_?mla", re.I)
"""Libraries whose checks say "or newer" and let families through that they list one by one."""
NOT_BEYOND: Final = re.compile(
    r"(?:not|n't|un)[ -]?(?:yet )?(?:support|implement|work|run|available)\w{0,4}[^.\n]{0,40}$", re.I
)
"""Before a number: the check ends there, and does not begin."""


def _least(found: re.Match[str]) -> int:
    """The capability that a check asks for, times ten."""
    if found["family"]:
        return {"volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90, "blackwell": 100}[
            found["family"].lower()
        ]
    return int((found["least"] or found["most"]).replace(".", ""))


def _capability_asked_for(case: Case) -> int:
    """The capability, times ten, that a check asks for and a GB10 has; 0 where none does."""
    least = MINIMUM.search(case.text)
    number = _least(least) if least and not NOT_BEYOND.search(case.text[: least.start()]) else 0
    return number if 30 <= number < OWN else 0


def arch_list_without_this_gpu(case: Case) -> Verdict | None:
    """FlashInfer's check that a GB10 passes, and that fails: it does not know which GPU it compiles for."""
    asked, majors = _capability_asked_for(case), NO_ARCHS.search(case.text)
    caller = case.caller("torch")
    flashinfer = "flashinfer" in case.text.lower() or (caller is not None and caller.package == "flashinfer")
    low = asked and asked < OF_FLASHINFER and flashinfer and not OTHER_CHECKS.search(case.text)
    if not case.raised.type or not (low or (majors and "12" in re.findall(r"\d+", majors["majors"]))):
        return None
    sampler = " VLLM_USE_FLASHINFER_SAMPLER=0 goes on without its sampler." if "sampl" in str(caller) else ""
    return Verdict(
        code="arch-list-without-this-gpu",
        meaning=(
            f"The check is one that a GB10 (12.1) passes: {case.first_line[:240].rstrip('.')}. So the GPU is not the "
            "reason: the list of arches that kernels are compiled for has none of this GPU. The CUDA toolkit at "
            "hand is older than 12.9 and does not know 12.1 (12.8 knows 12.0 alone), or a variable names other "
            "arches, or no GPU was seen."
        ),
        action=(
            "nvcc --version (CUDA_HOME, PATH) must be CUDA 12.9 or newer: take 13.0, as torch of cu130 is. "
            "FLASHINFER_CUDA_ARCH_LIST=12.1a and TORCH_CUDA_ARCH_LIST=12.1a, or unset; nvidia-smi must show the GPU in "
            f"this very container. Wheels with compiled kernels (flashinfer-jit-cache) need no nvcc.{sampler}"
        ),
        evidence="the number in the message against 12.1; vllm#50705, flashinfer PR#3633",
    )


def check_without_this_family(case: Case) -> Verdict | None:
    """A check that says "or newer" and fails on a newer GPU: what it lets through is not what it says."""
    if not case.raised.type or not _capability_asked_for(case):
        return None
    library = _library(f"{case.text[:600]} {' '.join(frame.path for frame in case.raised.frames[-3:])}")
    name, own = library or ("a library", "")
    flash = (
        " Without an engine: a newer flash-attn, compiled for this GPU (older ones let 8.x and 9.0 alone through), or "
        'PyTorch\'s own attention (attn_implementation="sdpa").'
        if name == "FlashAttention"
        else ""
    )
    return Verdict(
        code="kernel-without-this-arch",
        meaning=(
            f"A check of {name} refuses this GPU: {case.first_line[:300].rstrip('.')}. A GB10 is newer than that "
            "(12.1). Such checks often compare with the exact families that they know (8.x, 9.0, 10.x) and say 'or "
            "newer'; kernels of 9.0 and 10.x do not run on 12.x. Else the program sees another GPU, or none."
        ),
        action=(
            f"{own[:1].upper()}{own[1:]}{flash} {_another(case)} "
            "torch.cuda.get_device_capability() must say (12, 1) in this very environment."
        ).strip(),
        evidence="the number in the message against 12.1; flash-attention#1540, onnxruntime PR#24584",
    )


def kernel_without_arch(case: Case) -> Verdict | None:
    """Code for this GPU is not in the binary, or a check refuses its compute capability."""
    if NO_IMAGE.search(case.text):
        return Verdict(
            code="no-kernel-image",
            meaning=(
                "A library has no machine code for compute capability 12.1 (sm_121), and no PTX that the "
                "driver could compile. Code for sm_120 or the family sm_120f would run."
            ),
            action="./build.py verify IMAGE names the libraries without code for 12.1. Take wheels of CUDA 13 "
            "(index cu130), which are compiled for 12.0, or our image. "
            "For a package that you compile: TORCH_CUDA_ARCH_LIST=12.1a or 12.0f.",
            evidence="CUDA's rules of binary compatibility; vllm#20193, sglang#7249",
        )
    if SELECTOR.search(case.text):
        return None
    only, against = ONLY_FOR.search(case.text), NOT_FOR.search(case.text)
    if only is not None and re.search(r"12\.[01]|12[01]\b|SM ?12x", only["arch"], re.I):
        only = None
    arch = next(filter(None, against.groups())) if against else only["arch"] if only else ""
    here = NOT_HERE.search(case.text) if case.raised.type else None
    if here is not None and not arch:
        return _refuses_this_gpu(case)
    if not arch:
        return None
    backend = re.search(r"backend ['\"](?P<name>\w{2,40})['\"]", case.first_line)
    of = f", of the backend {backend['name']}," if backend else ""
    return Verdict(
        code="kernel-without-this-arch",
        meaning=(
            f"This kernel{of} is refused on compute capability 12.1 (the message names {arch.rstrip('. :')}"
            f"{', which is this GPU' if OWN_ARCH.search(arch) else ''}). A GB10 is no 10.x (SM100) and no 9.x: their "
            "kernels do not run on it."
        ),
        action=_another(case),
        evidence="the message's own check; sglang#9140, docs/explain.md lists the kernels that serve a model on 12.1",
    )


OF_AN_ARCH: Final = re.compile(
    r"\bis_(?:sm_?\d{2,3}|hopper|blackwell|ampere)\w*|\b(?:get_|is_|has_)?device_capability\w*|\bcompute_capability\b|"
    r"\bcuda_arch\b|\bsm_version\b|\b_?is_(?:b200|h100)\w*"
)


def condition_on_the_arch(case: Case) -> Verdict | None:
    """A bare assertion whose line asks for the family of the GPU."""
    frames = case.raised.frames
    if not case.asserts or case.text.strip() or not OF_AN_ARCH.search(frames[-1].code):
        return None
    condition = frames[-1].code.removeprefix("assert").split(",")[0].strip()
    least = re.search(r"has_device_capability|>=?", condition) and "<" not in condition
    if least or "is not None" in condition or re.search(r"\bis_sm_?12|\b12[01]?\b", condition):
        return None  # 12.1 passes such a condition: another GPU is there, or none
    feature, leave = part_of(frames)
    return Verdict(
        code="kernel-without-this-arch",
        meaning=(
            f"{frames[-1].path} stops at `{condition}`{f', in its part for {feature}' if feature else ''}: this "
            f"release lets the GPUs of that condition through, and a GB10 (12.1) is none of them. The file ("
            f"{frames[-1].path.rpartition('/')[2]}) says for which format of the weights."
        ),
        action=" ".join(
            filter(
                None, (_another(case), leave, "Else another quantization of the model (NVFP4, FP8 in another form).")
            )
        ),
        evidence="the condition in the traceback's last line; ktransformers#2081",
    )


def _refuses_this_gpu(case: Case) -> Verdict:
    """A check without the name of an arch: which library's it is decides the way out."""
    library = _library(f"{case.text[:600]} {' '.join(frame.path for frame in case.raised.frames[-3:])}")
    own = f"{library[0]}: {library[1][0].upper()}{library[1][1:]} " if library else ""
    return Verdict(
        code="kernel-without-this-arch",
        meaning=(
            f"{library[0] if library else 'A kernel'} refuses this GPU: {case.first_line[:300].rstrip('.')}. A GB10 "
            "is compute capability 12.1. Such a check lets 9.0 or 10.x through, or it fails because the library was "
            "built without the code for 12.x (FP4 and block scales need sm_120a, sm_120f or sm_121a, not plain sm_120)."
        ),
        action=(
            f"{own}{_another(case)} A build of your own: TORCH_CUDA_ARCH_LIST=12.0f or 12.1a, with CUDA 12.9 or newer. "
            "./build.py verify says what a wheel has for 12.1."
        ),
        evidence="the message's own check; PTX's arch-specific features; FreeToken#277",
    )


def driver_and_ptx(case: Case) -> Verdict | None:
    """Code of a newer CUDA than the driver's, and the compatibility libraries that an entrypoint turns on."""
    ptx, old = PTX.search(case.text), OLD_DRIVER.search(case.text)
    if ptx is None and old is None:
        return None
    jit = any("jit" in frame.file for frame in case.raised.frames)
    what = "code that was compiled here at run time (JIT)" if jit else "code of the image"
    return Verdict(
        code="image-newer-than-driver" if ptx else "driver-too-old",
        meaning=f"The driver does not take {what}: it is of a newer CUDA than the driver's own. NVIDIA's images "
        f"bring compatibility libraries for that case, and their entrypoint "
        "turns them on; a container whose entrypoint is replaced starts without them.",
        action="1. Kubernetes: give the arguments by `args:` and leave out `command:`, which replaces the "
        "entrypoint; compose and docker: leave out `entrypoint:` and --entrypoint. "
        "Or put /usr/local/cuda/compat first in LD_LIBRARY_PATH. 2. Update the driver of the host, or take "
        "an image of CUDA 13.0, as ours are: a GB10's driver 580 is CUDA 13.0. "
        "nvidia-smi prints the driver's CUDA.",
        evidence=(
            "gyliu513/langX101 PR#409 (the same image and driver run with docker run), minefield 08, NVIDIA's "
            "page on CUDA forward compatibility"
        ),
    )


OLDEST: Final = 75
"""The oldest arch that CUDA 13 compiles for."""


def _compiler_without_an_old_arch(arch: str) -> Verdict:
    """A build that asks the compiler for an arch of old GPUs, which this CUDA has no more."""
    of_maxwell = _number(arch) >= 50
    removed = "13.0 removed what is older than 7.5" if of_maxwell else "12.0 removed what is older than 5.0"
    return Verdict(
        code="compiler-without-this-arch",
        meaning=(
            f"The build asks for {arch}, an arch of older GPUs that this CUDA no longer compiles for: CUDA {removed}. "
            "The list of arches in the build script is from before."
        ),
        action=(
            "Give it the arch of this GPU alone: CMAKE_CUDA_ARCHITECTURES=121 (or 120), TORCH_CUDA_ARCH_LIST=12.1a, or "
            f"replace {arch} where CMakeLists.txt, setup.py or a Makefile names it (-arch, -gencode, "
            "CUDA_NVCC_FLAGS). A newer release of the package may have a newer list. An older CUDA does not know 12.1."
        ),
        evidence="nvcc's release notes on removed architectures; pypims#14",
    )


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


STATUS: Final = re.compile(r"\b(?P<library>CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|CURAND)_STATUS_(?P<status>\w{3,40})")
QUANTIZED: Final = re.compile(r"scaled_mm|float8|fp8|fp4|mxfp|nvfp|Matmul|cublasLt", re.I)


def library_of_cuda_fails(case: Case) -> Verdict | None:
    """A status of cuBLAS and its like: what it says decides, and what was called."""
    found = STATUS.search(case.text)
    if found is None or not case.raised.type or "out of memory" in case.text:
        return None
    status, name = (
        found["status"],
        {"CUBLAS": "cuBLAS", "CUDNN": "cuDNN"}.get(found["library"], found["library"].title()),
    )
    frames = case.trace(4)
    torch = case.version("torch")
    here = f" (torch {torch} is here)" if torch else ""
    newer = (
        f"Take a newer torch of CUDA 13 with its own nvidia-cublas and nvidia-cudnn{here}: the first releases for 12.x "
        "lack or break kernels that later ones have. Caches of kernels that an older torch compiled go, too."
    )
    if status in ("ALLOC_FAILED", "NOT_INITIALIZED"):
        meaning, action = (
            "it got no memory for its work space, or could not begin because memory was used up.",
            "`free -g`: less for the cache (a smaller --gpu-memory-utilization), no other server beside it. If memory "
            f"is free: {newer[0].lower()}{newer[1:]}",
        )
    elif status in ("NOT_SUPPORTED", "ARCH_MISMATCH"):
        scales = QUANTIZED.search(f"{frames} {case.text[:400]}") is not None
        meaning = "it has no kernel for this combination of data types, scales and layout on this GPU (12.1)" + (
            ": FP8 with a scale for each row or block, and FP4, are what differs most between GPUs and releases."
            if scales
            else "."
        )
        action = (
            f"{newer} "
            + ("Until then a scale for each tensor in place of each row, or another kernel. " if scales else "")
            + _another(case)
        )
    elif status == "INVALID_VALUE":
        meaning, action = (
            "it was called with an argument that it does not know: mostly two releases of it are mixed.",
            "unset LD_LIBRARY_PATH, and see that the nvidia-* wheels are those of this torch (pip check): a library of "
            f"/usr/local/cuda or of another wheel is loaded first. {newer}",
        )
    else:
        meaning, action = (
            "its kernel did not run: this release has none that works on this GPU (12.1), or an earlier kernel crashed "
            "and the error is told here.",
            f"{newer} CUDA_LAUNCH_BLOCKING=1 shows an earlier kernel. {_another(case, 'To go on without this call:')}",
        )
    return Verdict(
        code="gpu-library-fails",
        meaning=f"{name} answers {found[0]}: {meaning}",
        action=action,
        evidence="status codes of CUDA's libraries; pytorch#192707, unsloth#5154, yolact#77",
    )


def compiler_without_arch(case: Case) -> Verdict | None:
    """A compiler that does not know the arch, or that is not there."""
    found = NVCC.search(case.text)
    if found is not None:
        arch = found["arch"] or found["value"] or found["other"]
        if _number(arch) < OLDEST:
            return _compiler_without_an_old_arch(arch)
        least = {"10": "12.8", "11": "13.0", "12": "12.9 (12.8 for 120)"}.get(re.sub(r"\D", "", arch)[:2], "newer")
        return Verdict(
            code="compiler-without-this-arch",
            meaning=(
                f"The CUDA compiler at hand does not know {arch}: it is older than {least}. Which one runs is "
                f"decided by CUDA_HOME, PATH and Triton's own ptxas."
            ),
            action="Take nvcc of CUDA 13.0 (`nvcc --version`; CUDA_HOME=/usr/local/cuda-13.0, "
            "TRITON_PTXAS_PATH=$CUDA_HOME/bin/ptxas). For a GB10 only 12.1 matters: "
            "TORCH_CUDA_ARCH_LIST=12.1a, FLASHINFER_CUDA_ARCH_LIST=12.1a leaves other arches out.",
            evidence="nvcc's release notes: 10.0 since 12.8, 12.1 since 12.9; FlashMLA#79, triton#8539",
        )
    if NVRTC.search(case.text):
        torch = case.version("torch")
        return Verdict(
            code="compiler-without-this-arch",
            meaning=(
                "NVRTC, the compiler that torch and others use at run time, does not know this GPU (12.1): it is of "
                f"a CUDA before 12.9{f', that of torch {torch}' if torch else ''}. It comes with torch's wheels, or "
                "from LD_LIBRARY_PATH or conda before them."
            ),
            action=(
                "Take torch of CUDA 13 (index cu130; python -c 'import torch; print(torch.version.cuda)'), with its "
                "own nvidia-cuda-nvrtc, and no older libnvrtc.so in LD_LIBRARY_PATH. TORCH_CUDA_ARCH_LIST does not "
                "help here."
            ),
            evidence="NVRTC's own message; IsaacLab#5520",
        )
    if NO_NVCC.search(case.text):
        wrong = re.search(r"(?P<path>:/\S{1,200}nvcc)", case.text)
        return Verdict(
            code="compiler-not-found",
            meaning="Kernels are compiled at run time here, and nvcc is not found"
            + (
                f": the path {wrong['path']} begins with a colon, so CUDA_HOME or PATH is put together wrongly."
                if wrong
                else "."
            ),
            action="Set CUDA_HOME to the folder of CUDA 13.0 that has bin/nvcc, once and without a colon; an "
            "image without nvcc needs wheels with compiled kernels (flashinfer-cubin, "
            "flashinfer-jit-cache), as ours have.",
            evidence="vllm#36077; FlashInfer and Triton look at CUDA_HOME first",
        )
    return None


ARCH_NAMED: Final = re.compile(
    r"\bsm_?\d{2,3}[af]?\b|\bSM ?\d{2,3}x?\b|\bSM versions?\b|compute[ _]capability|\bcapability \d|"
    r"\barch(?:itecture)?s?\b|Blackwell|Hopper|Ampere|\b[BH][123]00\b|(?:this|your|current) (?:GPU|device)",
    re.I,
)
ONLY_ON: Final = re.compile(
    r"\bonly (?:supported|implemented) (?:on|for|with) (?:(?:the|NVIDIA|data[- ]?center) ){0,3}"
    r"(?:sm_?\d{2,3}|SM ?\d{2,3}|(?:compute )?capability|Blackwell|Hopper|Ampere|Ada\b|G?[BH][123]00\b)",
    re.I,
)
"""A kernel of other GPUs alone, whatever data type or size is named beside."""
REFUSAL: Final = re.compile(
    r"support|implement|\bonly\b|\bexpect|requires?\b|\bneeds?\b|\bmust\b|invalid|unknown|"
    r"\bno(?:t (?:built|for)|t? compiled)\b|\b(?:except|other than|besides) (?:on|for)?|cannot be (?:used|enabled|run)",
    re.I,
)
LIMIT: Final = re.compile(
    r"only (?:supports?|works|implemented|accepts?|handles?)|(?:un|not (?:yet |currently )?)(?:supported|implemented)|"
    r"does not (?:support|implement|handle|meet)|divisible|multiples? of|"
    r"must be (?:even|at most|less|<|(?:a )?power of|one of|either|in \{|in \[|\d{1,5} or \d)|"
    r"exceeds?|too (?:large|small|many)|"
    r"(?:head|hidden|top_?k|page|block|group|tile|num)\w{0,40} must (?:be )?(?:equal )?(?:to )?\d|"
    r"no (?:valid )?(?:kernel|config|tactic|implementation)|(?:find|construct) (?:a )?(?:valid|suitable|fused)|"
    r"(?:invalid|unknown|unexpected) (?:activation|d(?:ata)?[ _]?type|head|layout|quant|scal|shape|tile)",
    re.I,
)
"""What a kernel of this library does not take: a data type, a size, a layout, an activation."""
OF_A_TENSOR: Final = re.compile(
    r"mismatch|(?:does|do) not (?:match|agree)|must (?:match|equal|agree|cover|share|start|have|hold|not be null)|"
    r"must (?:be|live|reside)\b.{0,30}\b(?:same|equal|contiguous|aligned|positive|non-?negative|rank \d|scalar|"
    r"\d{1,2}[ -]?(?:D|dim)|(?:at least |exactly )?\w{1,5} dimensions?|strides?|(?:u?int|float|bool|bfloat)\d{0,2}\b|"
    r"CUDA|on (?:the )?(?:GPU|CPU|device)|device|shape|length|numel|elements)|must (?:be )?aligned|"
    r"must be (?:u?int|float|bool)\d|\bstrides?\b|\bndim\b|(?:is|be) (?:not )?contiguous|expected (?:a )?\d-?D|"
    r"outside [iu]\d{2} range|is required (?:if|when|for)|(?:is|are) (?:null|undefined)|\bmissing\b|"
    r"incorrect (?:shape|size|dim)|same (?:shape|d(?:ata)?[ _]?type|device|size|length|number)|\bnumel|"
    r"wrong (?:shape|size|device|number)",
    re.I,
)
"""What a check of one call's tensors says: their shapes, strides and devices among each other."""
SAME: Final = re.compile(
    r"(?<![\w.])(?P<left>[a-z_][\w.]{0,40}(?:\([\w, -]{0,20}\))?) ?== ?"
    r"(?P<right>[a-z_][\w.]{0,40}(?:\([\w, -]{0,20}\))?)(?![\w(])"
)
"""A comparison of two names: neither side is a number of the kernel's own."""


SUCCEEDED: Final = re.compile(
    r"\(?\w{1,40} ?== ?(?:\w{2,30}::)?(?:(?:cuda|CUDA_|CUBLAS_STATUS_|CUDNN_STATUS_)[Ss](?:uccess|UCCESS))\)?"
)
"""A comparison of what a call of CUDA returned: it is about no tensor."""


def refused(text: str) -> Literal["arch", "limit", "argument", ""]:
    """What a kernel library's check refuses, by the condition that its message states; empty where it states none.

    ``arch``: this GPU. ``limit``: a data type, size or layout that its kernels do not take. ``argument``: tensors of
    the call that do not fit each other, whatever the GPU.
    """
    if ONLY_ON.search(text):
        return "arch"
    text = SUCCEEDED.sub("", text)
    limit, tensor = LIMIT.search(text), OF_A_TENSOR.search(text) or SAME.search(text)
    data = re.search(r"d(?:ata)?[ _]?type|fp16|bf16|head", text, re.I)
    if ARCH_NAMED.search(text) and REFUSAL.search(text) and not (tensor and not limit) and not (limit and data):
        return "arch"
    if tensor and not (limit and limit.start() < tensor.start()):
        return "argument"
    return "limit" if limit else "argument" if tensor else ""


def _by_what_is_refused(case: Case) -> Verdict | None:
    """The verdict of a check whose message states its condition; None where it states none."""
    match refused(case.first_line):
        case "arch":
            return _refuses_this_gpu(case)
        case "limit":
            return _beyond_a_limit(case)
        case "argument":
            return _argument_mismatch(case)
        case _:
            return None


def _library(where: str) -> tuple[str, str] | None:
    """The library of kernels that a text or a path names, and what to take in its place."""
    return next((one for pattern, one in KERNEL_LIBRARIES.items() if re.search(pattern, where, re.I)), None)


def _beyond_a_limit(case: Case) -> Verdict:
    """A data type, size or layout that the library's kernels do not take."""
    frame = case.caller("torch")
    caller = frame.path if frame else ""
    library = _library(f"{case.text[:600]} {caller}")
    split = (
        "A width that is not divisible is often one rank's share: --tensor-parallel-size 1 leaves it whole. "
        if re.search(r"divisible|multiples? of", case.first_line, re.I)
        else ""
    )
    unnamed = "" if ARCH_NAMED.search(case.first_line) else "The message names no GPU: "
    return Verdict(
        code="kernel-without-this-shape",
        meaning=(
            f"{library[0] if library else 'A library of kernels'} has no kernel for this shape, data type or option: "
            f"{case.first_line[:300].rstrip('.')}.{f' {caller} called it.' if caller else ''} "
            f"{unnamed}{'a' if unnamed else 'A'} kernel for 12.1 may be there, for other sizes and types."
        ),
        action=f"{library[1][0].upper() + library[1][1:] if library else ''} {split}{_another(case)}".strip(),
        evidence="the condition that the message states; checks of FlashInfer 0.7.2 and vLLM 0.33.0",
    )


def _argument_mismatch(case: Case) -> Verdict:
    """Tensors of a call that do not fit each other: a mistake of who calls, on any GPU."""
    frame = case.caller("torch")
    caller = frame.path if frame else ""
    library = _library(f"{case.text[:600]} {caller}")
    fits = case.fitting("flashinfer-python") if library and library[0] == "FlashInfer" else ""
    return Verdict(
        code="kernel-argument-mismatch",
        meaning=(
            f"{library[0] if library else 'A library of kernels'} checks the tensors of this call, and they do not "
            f"fit: {case.first_line[:300].rstrip('.')}. A kernel is there, and the GPU is not the cause: "
            f"{caller or 'the caller'} hands over a wrong shape, stride, type or device."
        ),
        action=(
            f"The caller and the library are mostly of different times: take the library that the engine's release "
            f"requires. {fits} A fork, a plugin or a patch of the caller is the next suspect; else it is a fault of "
            f"this release: a newer one, or a report with this line. "
            f"{_another(case, 'To go on without this call:', missing=False)}"
        ).replace("  ", " "),
        evidence="the condition that the message states; checks of FlashInfer 0.7.2 and vLLM 0.33.0",
    )


def kernel_without_shape(case: Case) -> Verdict | None:
    """A check of a kernel library on a shape: this build has no kernel for it."""
    found = CHECK.search(case.text) if CHECKS.search(f"{case.raised.type} {case.text}") else None
    where = " ".join((case.raised.type, *(frame.path for frame in case.raised.frames[-3:]), case.text[:200])).lower()
    library = next((one for one in KERNEL_FILES if one in where), None)
    if found is None or library is None or case.raised.name in ("ImportError", "ModuleNotFoundError"):
        return None
    if SUCCEEDED.search(case.text):
        return None  # what a call of CUDA returned, and no size
    if not SHAPES.search(f"{found['left']} {found['right']} {case.text}"):
        return None
    if refused(case.first_line) in ("arch", "argument"):
        return _by_what_is_refused(case)
    values = f" (it was {found['got']}, the limit is {found['limit']})" if found["got"] else ""
    version = case.version("flashinfer-python")
    brings = case.release.requires.get("flashinfer-python") if case.release else None
    newest = case.releases.engines.get("flashinfer-python", ())
    here = version or (brings or "").removeprefix("==")
    newer = (
        (
            f"{library} is FlashInfer {here}: take a newer one ({newest[-1].version} is the newest known), with "
            f"the engine's release that goes with it."
        )
        if "flashinfer" in where and here and newest
        else "Take a newer release of the engine and of its kernel library."
    )
    return Verdict(
        code="kernel-without-this-shape",
        meaning=(
            f"The kernel library has no kernel for this shape on 12.1: its check {found['left']} "
            f"{found['sign']} {found['right']} failed{values}."
        ),
        action=f"{newer} {_another(case)}",
        evidence="a check of a kernel library on sizes; vllm#50720, flashinfer#3988, flashinfer PR#3989",
    )


SWITCHED_OFF: Final = frozenset(("DeepGEMM", "FlashMLA"))
"""Libraries without kernels for 12.x: where one of them is called, that is the likely fault."""
KERNEL_LIBRARIES: Final = {
    "deep_?gemm|DG_HOST": (
        "DeepGEMM",
        "VLLM_USE_DEEP_GEMM=0 (SGLang: SGLANG_ENABLE_JIT_DEEPGEMM=0) turns it off: not each release of it has kernels "
        "for 12.x, and VLLM_USE_DEEP_GEMM_E8M0=0 goes with older ones alone.",
    ),
    "flash_?mla": ("FlashMLA", "It has no kernels for 12.x: another --attention-backend."),
    "flash_?attn|FlashAttention|(?<!kernels/)fmha": (
        "FlashAttention",
        (
            "--attention-backend triton or flashinfer (vLLM: TRITON_ATTN, FLASHINFER); --kv-cache-dtype auto: not "
            "each kernel takes FP8."
        ),
    ),
    "marlin": (
        "Marlin",
        ("--moe-backend or --linear-backend of another kind; VLLM_DISABLED_KERNELS names kernels that are left out."),
    ),
    "deep_?ep|nvshmem": ("DeepEP", "It needs NVSHMEM over several GPUs: --all2all-backend allgather_reducescatter."),
    "flashinfer": (
        "FlashInfer",
        (
            "another --attention-backend, --moe-backend or --linear-backend, or the FlashInfer that the release "
            "requires."
        ),
    ),
    "fbgemm": (
        "FBGEMM",
        "its FP8 kernels are for 9.0 and 10.x: without the package (pip uninstall fbgemm-gpu-genai) who calls it takes "
        "another way.",
    ),
    "cutlass": ("CUTLASS", "another --moe-backend or --linear-backend (triton, marlin)."),
    "trtllm|tensorrt[-_]llm": (
        "TensorRT-LLM's kernels",
        "another --attention-backend or --moe-backend: most are for 10.x alone.",
    ),
    "mamba|causal_conv1d|selective_scan|gdn|fla/": (
        "the kernels of linear attention",
        "another --mamba-backend or --gdn-backend.",
    ),
}
"""Libraries of kernels by a part of a path or a message, and what to take in their place."""
SOURCE_LINE: Final = re.compile(r"[\w./-]{2,200}\.(?:cu|cuh|hpp|h|cpp|cc):\d{1,6}\b(?!\])")
"""A place of C++; what a logger puts before its lines ends with a bracket."""
OF_TENSORRT: Final = re.compile(r"\[TensorRT-LLM\]\[ERROR\] Assertion failed")
NOT_A_CHECK: Final = re.compile(r"NCCL error|\d\)?: (?:fatal )?error[: ]|In file included from")
"""A compiler's message, and what NCCL said before: both name a source line, and neither is a kernel's check."""
DATA_TYPES: Final = re.compile(
    (
        r"only supports? .{0,60}(?:data ?type|dtype|fp16|bf16|head)|(?:unsupported|not supported).{0,40}(?:dtype|"
        r"data type|layout|scal)"
    ),
    re.I,
)


ENDED: Final = re.compile(
    r"(?:(?P<kernel>\w{3,80}) )?(?:failed|returned|ended) with (?:an? |the )?(?:CUDA )?error(?: code)?[: ]{1,3}"
    r"(?P<what>invalid (?:argument|configuration argument|resource handle|device function|device symbol)(?! \w)|"
    r"too many resources[a-z ]{0,30}|operation not supported|named symbol not found)"
    r"|[\w./-]{2,200}\.(?:cu|cuh|h|hpp|cpp):\d{1,6}\b[^\n]{0,120}?CUDA [Ee]rror: (?P<said>invalid [a-z ]{5,30})"
)


OF_MEMORY: Final = re.compile(r"\bcu(?:da)?(?:Mem|Malloc|Host|Ipc|Free|Import|Event)\w*")
"""Calls of CUDA that start no kernel."""
WITHOUT_ENGINE: Final = (
    "Another kernel or a smaller data type: bf16 or fp16 in place of fp32 halves what a block needs. A newer release "
    "of the library may have a kernel for 12.1."
)


def kernel_not_started(case: Case) -> Verdict | None:
    """A kernel of a compiled library that CUDA did not start: the library prints CUDA's own words."""
    found = ENDED.search(case.text)
    if found is None or OF_MEMORY.search(case.text):
        return None
    function = re.search(r"in function (?P<name>\w{3,80})", case.text)
    kernel = found["kernel"] or (function["name"] if function else "") or "a kernel"
    cache = case.scan.start.option("kv_cache_dtype")
    fp8 = cache not in (None, "None", "auto")
    frame = case.caller("torch")
    library = _library(f"{case.text[:600]} {frame.path if frame else ''}")
    if library is None and not re.search(r"CUDA|kernel|\.cuh?\b", case.text):
        return None  # another program that ended
    return Verdict(
        code="kernel-launch-refused",
        meaning=(
            f"CUDA did not start {kernel} ({found['what'] or found['said']})"
            f"{f', called by {frame.path}' if frame else ''}: its code, its shared memory or its descriptors of "
            "memory (TMA) are not what this GPU takes. A GB10 (12.1) has 101,376 B of shared memory a "
            "block; kernels tuned for 9.0 and 10.0 have 227 KiB. The tensors are not checked there, and no option is "
            "refused."
        ),
        action=(
            f"{f'--kv-cache-dtype auto (now {cache}) takes another variant of it. ' if fp8 else ''}"
            f"{_another(case) if case.engine else WITHOUT_ENGINE}"
            f"{f' For {library[0]}: {library[1]}' if library else ''}"
        ),
        evidence="CUDA's own words in the library's message, and 12.1's limits; vllm#50331, TransformerEngine#3299",
    )


def kernel_library_refuses(case: Case) -> Verdict | None:
    """A library of kernels that stops at a check of its own, or that takes other data types."""
    place, types = SOURCE_LINE.search(case.text) or OF_TENSORRT.search(case.text), DATA_TYPES.search(case.text)
    if NOT_A_CHECK.search(case.text):
        return None
    last = " ".join(frame.path for frame in case.raised.frames[-2:])
    if not (place or types) or case.raised.name in ("ImportError", "ModuleNotFoundError", "ValidationError"):
        return None
    found = _library(f"{case.text[:600]} {last}")
    if found is None:
        return None
    if (split := _by_what_is_refused(case)) is not None:
        return split
    of_tensorrt = case.engine in ("trtllm", "tensorrt_llm")  # whose settings are fields of a file
    name, own = ("TensorRT-LLM", "") if of_tensorrt else found
    return Verdict(
        code="kernel-library-refuses",
        meaning=(
            f"{name} stops at a check of its own{f' ({place[0]})' if place else ''}: "
            f"{_condition(case) if of_tensorrt else ''}this build has no kernel for what it was given (arch, shape, "
            "data type or scales)."
            + (" Most of its fused kernels are for 9.0 and 10.x; a GB10 is 12.1." if of_tensorrt else "")
        ),
        action=f"{own} {_another(case)}".strip(),
        evidence="the library's own file or name in the message",
    )


def _condition(case: Case) -> str:
    """What an assertion says, without its place."""
    said = re.sub(r"^.*?Assertion failed: |\(/.*$", "", case.first_line).strip().rstrip(".")
    return f"{said}; " if said else ""


CALLS_A_KERNEL: Final = re.compile(
    r"fused_moe|/moe/|attention/|/attn|_custom_ops|flashinfer/|deep_gemm|flash_mla|flash_attn|sgl_kernel|cutlass|/fla/|"
    r"mamba|kernels?/|_gemm|triton/|quantization/\S{0,60}(?:fp8|fp4|marlin|modelopt|compressed)",
    re.I,
)
NAMES_A_KERNEL: Final = re.compile(
    r"\b(?:fused ?moe|moe op|grouped? ?gemm|gemm|attention|mla|prefill|decode|cutlass|cublas\w{0,4}|cudnn|kernel|"
    r"tile|mma|workspace|autotun\w{1,4}|tactic|marlin|flash ?attn|flashattention|flashinfer|deep_?gemm)\b",
    re.I,
)
OF_THE_GPU: Final = frozenset(
    (
        "RuntimeError",
        "NotImplementedError",
        "AssertionError",
        "InternalError",
        "ValueError",
        "AcceleratorError",
        "Error",
    )
)


def kernel_call_fails(case: Case) -> Verdict | None:
    """A call of a kernel that its library refuses, by the file that calls or by what the message names."""
    last = case.caller("torch")
    named = re.search(
        r"[Cc]heck failed|[Cc]ould not|[Ff]ailed|[Ii]nvalid|[Uu]nsupported|[Cc]annot|(?:does|is) not support", case.text
    )
    operator = any(one.file.endswith("torch/_ops.py") for one in case.raised.frames[-2:])
    by_file = operator or (last is not None and CALLS_A_KERNEL.search(last.file) is not None)
    by_name = named is not None and NAMES_A_KERNEL.search(case.first_line) is not None
    if case.raised.name not in OF_THE_GPU or not (by_file or (by_name and not case.raised.frames)):
        return None
    if (split := _by_what_is_refused(case)) is not None:
        return split
    if case.raised.name == "AssertionError" and not case.raised.message:
        return None  # of the caller's own state: a library says what it refuses
    if own_advice(case.text):
        return None  # the message says what to do, and so what is wrong
    calls = " ".join(one.code for one in case.raised.frames[-3:])
    library = _library(f"{calls if operator else ''} {case.text[:600]} {last.path if last else ''}")
    at = f" {last.path} called it." if last else ""
    if case.raised.name == "NotImplementedError" and not case.text and last is not None:
        return Verdict(
            code="kernel-call-fails",
            meaning=f"{last.path} has no code for this call ({last.function}): this backend serves other cases alone.",
            action=_another(case),
            evidence="an exception without words where the function should be; vllm#49886",
        )
    return Verdict(
        code="kernel-call-fails",
        meaning=(
            f"{library[0] if library else 'A library of kernels'} did not take this call: "
            f"{case.first_line[:300].rstrip('.')}.{at} The message does not say what it refuses: this GPU (12.1), a "
            "shape, a data type, or an argument; a kernel that fails while it runs prints such a line, too."
        ),
        action=f"{library[1][0].upper() + library[1][1:] if library else ''} {_another(case)}".strip(),
        evidence="the file that called, and the library's own check; vllm PR#39825, vllm#48541",
    )


CRASHED: Final = re.compile(
    r"(?:Triton Error \[CUDA\]|C(?:UDA|uda) (?:driver |runtime )?(?:error|failure)|CUDA_ERROR_\w{4,40}|"
    r"cudaError\w{0,40}|AcceleratorError)[^\n]{0,60}?(?P<what>unspecified launch failure|illegal memory access|"
    r"illegal instruction|misaligned address|invalid program counter|hardware stack error|LAUNCH_FAILED|"
    r"ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS)"
    r"|(?P<code>CUDA_ERROR_(?:LAUNCH_FAILED|ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS)|"
    r"cudaError(?:IllegalInstruction|IllegalAddress|MisalignedAddress|LaunchFailure))\b"
)
MENDED: Final = {"flashinfer-python": "0.6.8", "sglang": "0.5.16"}
"""From which release on a known cause of crashes on 12.x is mended: experts of flashinfer_cutlass without GDC, and code
for plain 12.1."""


BACKENDS: Final = ("moe_backend", "attention_backend", "linear_backend", "mamba_backend", "gdn_backend")


def _chosen_by_hand(case: Case) -> Iterator[str]:
    """Backends of kernels that the command chose: vLLM prints what differs from the engine's own choice alone."""
    if case.engine == "vllm":
        for name in BACKENDS:
            value = case.scan.start.option(name)
            if value and value not in ("None", "auto"):
                yield f"without --{name.replace('_', '-')} {value}, so that the engine chooses;"


def _caches_set_by_hand(case: Case, where: str) -> Iterator[str]:
    """What the command set of caches with two kinds of pages, where the crash is in linear attention."""
    if not re.search(r"mamba|gdn|/fla/|linear_attn|hybrid", where):
        return
    for name in ("block_size", "mamba_block_size", "mamba_cache_mode"):
        value = case.scan.start.option(name)
        if value and value not in ("None", "auto", "none"):
            yield f"without --{name.replace('_', '-')} {value}, which pages of linear attention do not always fit;"
    if case.scan.start.option("enable_prefix_caching") == "True":
        yield "--no-enable-prefix-caching, where it comes with prompts that were sent before;"


def _kernel_of_ggml_crashed(what: str, function: str) -> Verdict:
    """The same for llama.cpp and ollama, which have other options, and releases every day."""
    attention = " That is its flash attention, so --flash-attn off is the first." if "attn" in function else ""
    return Verdict(
        code="kernel-crashed",
        meaning=(
            f"A kernel of llama.cpp crashed on the GPU ({what}){f', seen in {function}' if function else ''}: CUDA "
            "tells it at a later call, so another kernel may have done it. Such crashes are mostly of one build (a "
            "change of these days) or of one combination of options."
        ),
        action=(
            f"Another build first: the newest, and the last one that worked.{attention} Then one part less each time: "
            "--flash-attn off (ollama: OLLAMA_FLASH_ATTENTION=0), -ctk f16 -ctv f16, without drafts and --mmproj, "
            "--parallel 1, a smaller -ub, GGML_CUDA_DISABLE_GRAPHS=1. CUDA_LAUNCH_BLOCKING=1 names the kernel."
        ),
        evidence="ggml's own message; llama.cpp#28877, llama.cpp#24398, ollama#17596",
    )


def kernel_crashed(case: Case) -> Verdict | None:
    """A kernel that read or wrote where it must not, or ran code that this GPU has not."""
    found = CRASHED.search(f"{case.raised.type}: {case.text}" if case.raised.type else case.text)
    if found is None:
        return None
    frame = case.caller("torch")
    old = [
        f"{name} {version} is older than {MENDED[name]}, which mends a known crash on 12.x."
        for name in MENDED
        if (version := case.version(name)) and _before(version, MENDED[name])
    ]
    where = " ".join(one.path for one in case.raised.frames[-12:])
    ways = {
        "vllm": "--enforce-eager (CUDA graphs and compiled code)",
        "sglang": "--disable-cuda-graph",
        None: "fewer parts at a time: without CUDA graphs (--enforce-eager), without flash attention (llama.cpp: "
        "--flash-attn off, ollama: OLLAMA_FLASH_ATTENTION=0), with a newer release",
    }
    kernel = re.search(r"in function (?P<name>ggml_\w{3,80})|ggml[_-]cuda", case.text)
    if kernel:
        return _kernel_of_ggml_crashed(found["what"] or found["code"], kernel["name"] or "")
    innermost = next((one.path for one in reversed(case.raised.frames) if one.package != "torch"), "")
    library = _library(innermost)
    steps = (
        f"The frame is of {library[0]}: {library[1]}" if library and library[0] in SWITCHED_OFF else "",
        *old,
        "Start the process anew with one part less each time, the likely ones first:",
        *_chosen_by_hand(case),
        "without drafts (--speculative-config, --speculative-algorithm);" if case.drafts or "spec" in where else "",
        *_caches_set_by_hand(case, where),
        "--no-enable-flashinfer-autotune, where FlashInfer's autotuner ran before it;"
        if case.engine != "sglang"
        else "",
        f"{ways.get(case.engine, ways['vllm'])};",
        _another(case, "another kernel:"),
        "CUDA_LAUNCH_BLOCKING=1 names the kernel, compute-sanitizer its line. If it comes after hours or with long or "
        "many requests, note their length and number, and Xid lines of `journalctl -k`.",
    )
    return Verdict(
        code="kernel-crashed",
        meaning=(
            f"A kernel crashed on the GPU ({found['what'] or found['code']}). CUDA tells it at a later call, so the "
            f"line that raised it{f' ({frame.path})' if frame else ''} is mostly not the one that did it."
        ),
        action=" ".join(filter(None, steps)),
        evidence="the driver's own error; flashinfer#2776, flashinfer#3558, vllm#38208, vllm#52877, sglang#7249",
    )


OF_AN_INDEX: Final = re.compile(
    r"index out of bounds|Indexing\.cu|IndexKernel\.cu|ScatterGatherKernel\.cu|device-side assert|"
    r"CUDA_ERROR_ASSERT|cudaErrorAssert"
)


OF_A_LIBRARY: Final = re.compile(
    r"(?P<file>[\w./-]{0,80}(?:moe|gemm|attn|attention|mla|fp4|fp8|quant|cutlass|deep_?ep)[\w./-]{0,60}\.(?:cuh|cu|"
    r"hpp|h)):\d"
)
"""A file of compiled kernels that a check names."""


def _assertion_of_a_kernel(case: Case, file: str) -> Verdict:
    """A check on the GPU in a library's own kernel: no index of a token, but sizes or memory that it did not expect."""
    return Verdict(
        code="kernel-crashed",
        meaning=(
            f"A check of a kernel's own stopped it on the GPU (device-side assert, seen at {file}): this kernel does "
            "not go with these sizes on 12.1, often because it wants more shared memory than the 101,376 B of a "
            "block, or it read what an earlier kernel wrote wrongly."
        ),
        action=(
            f"{_another(case)} The server must be started anew after it. CUDA_LAUNCH_BLOCKING=1 names the kernel; a "
            "token beyond the embedding is the other cause (drafts, LoRA): leave those out once."
        ),
        evidence="the file that the check names is of compiled kernels",
    )


DRIVER_CALL: Final = re.compile(r"CUDA driver error: (?P<what>[\w ]{4,80})")
BY_NVRTC: Final = re.compile(
    r"\.(?:prod|gcd|lcm|entr|digamma|zeta|sinc|i0e?|i1e?|erfcx|log_ndtr|polygamma|bessel\w*|airy\w*)\b"
)
"""Operations that torch compiles when they are first called."""


def driver_call_of_torch(case: Case) -> Verdict | None:
    """A call of the driver itself: torch makes such calls for two things only."""
    found = DRIVER_CALL.search(case.text)
    if found is None or "out of memory" in case.text or "launch failure" in case.text or not case.raised.type:
        return None
    compiled = any(BY_NVRTC.search(one.code) for one in case.raised.frames[-3:])
    segments = (
        "expandable segments: PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF) with expandable_segments:True, which maps "
        "memory again while kernels hold addresses of it (bitsandbytes, IPC, pinned pools, WSL)"
    )
    kernels = "small kernels that it compiles itself (prod, entr, gcd …), kept in ~/.nv/ComputeCache and ~/.cache/torch"
    first, second = (kernels, segments) if compiled else (segments, kernels)
    leave = (
        "rm -rf ~/.nv/ComputeCache ~/.cache/torch/kernels, then start again; else unset expandable_segments."
        if compiled
        else "Unset PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF (or expandable_segments:False) and start again; "
        "if it stays, rm -rf ~/.nv/ComputeCache ~/.cache/torch/kernels."
    )
    return Verdict(
        code="driver-call-fails",
        meaning=(
            f"A call of the driver failed ({found['what'].strip()}). `CUDA driver error` is what torch prints of its "
            f"own calls of the driver: first {first}; then {second}."
        ),
        action=f"{leave} A process that forked after CUDA began, or whose CUDA_VISIBLE_DEVICES was changed, fails so.",
        evidence="torch's own checks: C10_CUDA_DRIVER_CHECK in the allocator, AT_CUDA_DRIVER_CHECK in jiterator",
    )


def index_on_the_gpu(case: Case) -> Verdict | None:
    """A kernel that got an index beyond its table."""
    found = OF_AN_INDEX.search(case.text)
    if found is None:
        return None
    own = OF_A_LIBRARY.search(case.text)
    if own is not None and "out of bounds" not in case.text:
        return _assertion_of_a_kernel(case, own["file"])
    compiled = "torch_compile_cache" in case.text or "inductor" in case.text
    first = (
        "Drafts are on: start without them first (--speculative-config, --speculative-algorithm), they are the likely "
        "cause. "
        if case.drafts
        else ""
    )
    return Verdict(
        code="index-out-of-range-on-gpu",
        meaning=(
            f"A kernel got an index beyond its table ({found[0]}): most often a token id outside of the embedding or "
            "the logits: drafts or a LoRA of another vocabulary, a tokenizer with added tokens, an image or audio "
            "token, structured output (grammar, guided decoding) whose vocabulary is larger than the model's."
        ),
        action=(
            f"{first}Does it come with a certain request only (images, response_format)? Leave that out, or take "
            "another --structured-outputs-config backend (xgrammar, guidance, outlines); compare vocab_size in "
            "config.json with the tokenizer's length. "
            f"{'It is a kernel of torch.compile: --enforce-eager once. ' if compiled else ''}CUDA_LAUNCH_BLOCKING=1 "
            "names the kernel. The server must be started anew after it."
        ),
        evidence="the assertion of torch's index kernels; vllm#8952, vllm#11248, vllm#44734",
    )


NVML_MEMORY: Final = re.compile(
    r"NVMLError_NotSupported|(?:nvmlDeviceGetMemoryInfo|GetMemoryInfo|(?:free|total|used|device|GPU) memory|"
    r"memory info(?:rmation)?)[^\n]{0,120}\bNot ?Supported\b|NVML_ERROR_NOT_SUPPORTED[^\n]{0,80}memory"
)


def nvml_has_no_memory(case: Case) -> Verdict | None:
    """A program that asks NVML for the memory of a GPU that has none of its own."""
    if not any(NVML_MEMORY.search(f"{one.type}: {one.message}") for one in (case.raised, *case.chain)):
        return None
    asks = case.caller("pynvml")
    return Verdict(
        code="nvml-has-no-memory",
        meaning=(
            "NVML does not tell the memory of a GB10: CPU and GPU share one pool, so nvmlDeviceGetMemoryInfo answers "
            "Not Supported and nvidia-smi shows N/A. That is no fault of the machine; "
            f"{asks.path if asks else 'the program'} takes it for one."
        ),
        action=(
            "Take a release of the program that knows unified memory (it asks torch.cuda.mem_get_info or MemAvailable "
            "of /proc/meminfo), or leave out what asks: a monitor, a memory check, a GPU metric. A driver update does "
            "not change it."
        ),
        evidence="NVIDIA's known issues of DGX Spark; ArcticTraining PR#345, cosmos#180, NeMo-RL PR#2203",
    )


CAPTURE: Final = re.compile(
    r"cudaErrorStreamCapture\w{3,40}|CUDA_ERROR_STREAM_CAPTURE\w{3,40}|when stream is capturing|"
    r"capture (?:was |is )?invalidated"
)


NOT_TRACED: Final = re.compile(
    r"Dynamo does not know how to trace|[Aa]ttempted to call function marked as skipped|torch\._dynamo\.exc\."
    r"Unsupported\b"
)


def code_not_traced(case: Case) -> Verdict | None:
    """Code that torch.compile cannot follow while the engine compiles or records a model's graph."""
    found = NOT_TRACED.search(f"{case.raised.type}: {case.text}" if case.raised.type else case.text)
    if found is None:
        return None
    off = (
        "--disable-piecewise-cuda-graph (where a release has it; else --disable-cuda-graph), no --enable-torch-compile"
        if case.engine == "sglang"
        else "--enforce-eager, or --compilation-config '{\"mode\": 0}'"
    )
    return Verdict(
        code="code-not-traced",
        meaning=(
            f"torch.compile cannot follow the model's code here: {' '.join(case.text.split())[:260]}. A call in it is "
            "of a kind that Dynamo does not read (a lock, a file, a C function), mostly a kernel library that is set "
            "up at its first call."
        ),
        action=(
            f"Start without compiled graphs: {off}; it answers slower. A newer release marks such calls; the torch "
            "that the engine requires, too."
        ),
        evidence="Dynamo's own message; sglang#23386",
    )


NOT_PERMITTED: Final = re.compile(r"operation not permitted|cudaErrorNotPermitted|CUDA_ERROR_NOT_PERMITTED")
"""While a graph is captured that is a graph's own rule; at another time the kernel of the host refuses device files."""


def capture_fails(case: Case) -> Verdict | None:
    """A call that may not stand in a CUDA graph, while one was recorded."""
    found = CAPTURE.search(case.text) or (NOT_PERMITTED.search(case.text) if case.captures else None)
    if found is None:
        return None
    newer = case.newer
    off = "--disable-cuda-graph" if case.engine == "sglang" else "--enforce-eager"
    drafts = " Try without drafts, too: they are captured by themselves." if case.drafts else ""
    tuner = (
        "Where FlashInfer's autotuner ran before the capture, --no-enable-flashinfer-autotune is the first to try. "
        if case.engine != "sglang"
        else ""
    )
    return Verdict(
        code="capture-fails",
        meaning=(
            f"While CUDA graphs were captured, something did what a graph cannot hold ({found[0]}): it allocated, "
            "waited for the GPU, copied to the CPU, or compiled a kernel for the first time. The line that raised "
            "it is often a later one."
        ),
        action=(
            f"{tuner}{off} starts without graphs, and tells whether they are the cause; then fewer of them "
            f"(--compilation-config "
            '\'{"cudagraph_mode": "PIECEWISE"}\', --cuda-graph-max-bs), or another --attention-backend. A fault of '
            "one release goes with another release: the one before, or a newer "
            f"one{f' ({newer.version})' if newer else ''}.{drafts}"
        ),
        evidence="CUDA's rules of stream capture; club-3090#106",
    )


TRITON_COMPILER: Final = re.compile(r"(?:^|/)triton/(?:compiler|backends|runtime/(?:jit|build|autotuner))")
LOADS: Final = ("ModuleNotFoundError", "ImportError")
INDUCTOR: Final = re.compile(r"torch/_inductor/")
OF_PYTHON: Final = frozenset(("AttributeError", "TypeError", "ValueError", "IndexError", "OSError"))


LAUNCH: Final = re.compile(
    r"(?:Triton Error \[CUDA\]|CUDA (?:driver )?error): (?P<what>invalid argument|invalid configuration argument|"
    r"too many resources requested for launch)"
)
OF_BATCHES: Final = ("max_num_seqs", "max_num_batched_tokens", "max_running_requests", "chunked_prefill_size")
"""Options that say how much of the work comes at once."""


def launch_refused(case: Case) -> Verdict | None:
    """A kernel that was compiled, and that the driver does not start: its grid or block is beyond the limits."""
    found, frames = LAUNCH.search(case.text), case.raised.frames
    starts = any(re.search(r"\[\w*grid\w*\]|launch\(|<<<", one.code) for one in frames[-3:])
    if found is None or not starts:
        return None
    own = case.caller("triton", "torch")
    now = ", ".join(
        f"--{name.replace('_', '-')} (now {value})" for name in OF_BATCHES if (value := case.scan.start.option(name))
    )
    return Verdict(
        code="kernel-launch-refused",
        meaning=(
            "The driver does not start a compiled kernel "
            f"({found['what']}){f': {own.path}:{own.line}' if own else ''}. Its grid is beyond CUDA's limits (65,535 "
            "in y and z; a grid is often batch x heads), or its block wants more registers or shared memory than "
            "12.1 has. The compiler is not the cause: how much comes at once is."
        ),
        action=(
            f"A smaller batch: {now or '--max-num-seqs, --max-num-batched-tokens (SGLang: --max-running-requests)'}; "
            f"fewer or smaller graphs (--max-cudagraph-capture-size). {_another(case, 'To go without this kernel:')}"
        ),
        evidence="CUDA's limits of a launch: 65,535 blocks in y and z, 1,024 threads a block",
    )


ABSENT: Final = re.compile(
    r"(?:[Dd]evice|GPU|[Pp]latform|[Hh]ardware|[Ss]ystem) (?:\d{1,2} )?(?:does(?: not|n't)|cannot) support "
    r"(?P<what>[\w -]{3,60})"
)
OF_PEERS: Final = re.compile(r"multicast|multimem|nvls|nvlink|peer|p2p|fabric|symmetric|rdma|gdr|mnnvl|ipc", re.I)


def device_without(case: Case) -> Verdict | None:
    """A feature of GPUs with NVLink that a GB10 does not have, and that something switched on."""
    found = ABSENT.search(case.text)
    if found is None or not OF_PEERS.search(f"{found['what']} {case.text}"):
        return None
    files = case.trace(6)
    fused = re.search(r"allreduce_?(?:rms|fusion)|AllReduceFusion|fi_allreduce", files, re.IGNORECASE)
    leave = (
        'Leave the fusion of all-reduce out: --compilation-config \'{"pass_config": {"fuse_allreduce_rms": false}}\' '
        "(SGLang: without --enable-flashinfer-allreduce-fusion)."
        if fused
        else "Leave out what asks for it: --disable-custom-all-reduce, symmetric memory "
        "(VLLM_ALLREDUCE_USE_SYMM_MEM=0), NVLS (NCCL_NVLS_ENABLE=0), fused all-reduce."
    )
    return Verdict(
        code="device-without-a-feature",
        meaning=(
            f"Something wants {found['what'].strip()}, a feature of GPUs that are joined by NVLink and its switches; a "
            f"GB10 has none of it (one GPU, the network between nodes): {case.first_line[:240]}"
        ),
        action=f"{leave} NCCL over RoCE does the same work. A newer release asks first whether the device has it.",
        evidence="the device's own answer; vllm#34891",
    )


INNER: Final = re.compile(
    r"(?:^|\n)(?:\w{1,40}Error)?\(?['\"]?(?P<said>[^\n'\"]{0,80}(?:incompatible dimensions?|shape mismatch|"
    r"[Ss]hapes?\b|must have the same|rank)[^\n'\"]{0,160})"
)
"""What a compiler says of sizes, in the lines after the place."""


def kernel_of_other_sizes(case: Case) -> Verdict | None:
    """A kernel that does not compile because a size of this model is not the one that it was written for."""
    named = re.match(r"triton\.compiler\.errors\.", case.raised.type)
    found = INNER.search(case.text)
    if not named or found is None:
        return None
    own = case.caller("triton", "torch")
    sizes = [
        f"--{name.replace('_', '-')} (now {value})"
        for name in ("block_size", "page_size", "mamba_block_size")
        if (value := case.scan.start.option(name)) not in (None, "None")
    ]
    left = (
        f"Leave {', '.join(sizes)} out, or take a larger power of two: 16 is what most kernels begin at. "
        if sizes
        else ""
    )
    return Verdict(
        code="kernel-without-this-shape",
        meaning=(
            f"A kernel in Triton{f' ({own.path}:{own.line})' if own else ''} was written for other sizes than this "
            f"model's: {found['said'].strip()}. A head or a rank of its attention, or a block, is not what the kernel "
            "counts on."
        ),
        action=(
            f"{left}{_another(case)} For an MLA model whose backends all refuse: VLLM_MLA_DISABLE=1 (plain attention, "
            "with a larger cache). Triton, torch and the driver are not the cause."
        ),
        evidence="the compiler's own words on sizes",
    )


OF_TRITON: Final = re.compile(r"(?:^|/)triton/")
A_TYPE: Final = re.compile(r"^'?(?P<type>(?:b?float|u?int|fp|bf)\d{1,2}\w{0,12})'?$")


def type_not_known_to_triton(case: Case) -> Verdict | None:
    """A kernel in Triton that was handed a tensor of a type for which this Triton has no name."""
    found = A_TYPE.match(case.first_line)
    frames = case.raised.frames
    if case.raised.name != "KeyError" or found is None or not (frames and OF_TRITON.search(frames[-1].path)):
        return None
    own = case.caller("triton", "torch")
    scales = " (scales in powers of two, UE8M0: of MXFP8, MXFP4 and DeepSeek V4)" if "e8m0" in found["type"] else ""
    return Verdict(
        code="data-type-not-taken",
        meaning=(
            f"Triton has no name for the type {found['type']}{scales}, and "
            f"{own.path if own else 'a kernel'} hands it a tensor of that type: this kernel is the engine's way out "
            "where no library has one for 12.x, and it was not made for such checkpoints in this release."
        ),
        action=(
            "Another kernel for these layers: --linear-backend, or --moe-backend where experts are meant. A newer "
            "release of the engine may convert such tensors first, or take a kernel that reads them. Else a checkpoint "
            "without that type."
        ),
        evidence="Triton's own table of types; vllm#47266, vllm#46232",
    )


CUTE: Final = re.compile(r"\bMLIRError$|^cutlass\.\S*(?:Error|Exception)$|\bDSL\w{0,20}Error$")


OF_A_RUN: Final = re.compile(r"DSLCudaRuntimeError|\bCUDA_ERROR_\w|\bcudaError[A-Z]")
"""What the driver answers when a kernel that was compiled is loaded or runs."""


def kernel_of_cute_does_not_compile(case: Case) -> Verdict | None:
    """A kernel in CUTLASS' Python language that its compiler refuses: most are written for 9.0 and 10.x alone."""
    frames = case.raised.frames
    of_cutlass = "cutlass" in case.raised.type or any("cutlass" in one.file for one in frames)
    if not of_cutlass or not CUTE.search(case.raised.type) or OF_A_RUN.search(f"{case.raised.type} {case.text}"):
        return None
    outward = [one for one in reversed(frames) if not one.package.startswith(("cutlass", "nvidia"))]
    own = outward[0] if outward else None
    caller = next((one for one in outward if own and one.package != own.package), None)
    called = f", called by {caller.path}" if caller else ""
    pin = case.fitting("nvidia-cutlass-dsl")
    return Verdict(
        code="kernel-does-not-compile",
        meaning=(
            f"A kernel in the CuTe DSL does not compile here: {own.path if own else 'its file is not shown'}{called}: "
            f"{' '.join(case.text.split())[:240]}. Most of them, FlashAttention 4 (flash_attn/cute) among them, are "
            "written for 9.0 and 10.x, and their path for 12.x is new or missing; the DSL's release decides, too."
        ),
        action=(
            f"{_another(case)} {pin or 'Take the nvidia-cutlass-dsl and the kernel package that the engine requires.'} "
            "What called it took this kernel for want of one for 12.x: the engine's next release may choose another."
        ),
        evidence="the compiler's own exception; sglang PR#36649, sglang PR#36556, cutlass#3100",
    )


def compiler_of_kernels_fails(case: Case) -> Verdict | None:
    """Triton or Inductor that cannot compile a kernel which the engine brings or generated."""
    last = [frame.path for frame in case.raised.frames[-3:]]
    named = re.match(r"(?:triton\.compiler\.errors\.|torch\._inductor\.exc\.)", case.raised.type)
    triton = (bool(last) and TRITON_COMPILER.search(last[-1]) is not None) or "PassManager::run failed" in case.text
    inductor = re.search(r"InductorError|BackendCompilerFailed", f"{case.raised.type} {case.raised.head}") or (
        bool(last) and INDUCTOR.search(last[-1]) is not None
    )
    if not (named or triton or inductor) or case.raised.name in ("OutOfResources", *LOADS):
        return None
    own = case.caller("triton", "torch")
    kernel = f" {own.path}:{own.line} asked for it." if own else ""
    pins = " ".join(filter(None, (case.fitting("triton"), case.fitting("torch"))))
    who = "Inductor (torch.compile)" if inductor and not triton else "Triton"
    launches = "Triton Error [CUDA]" in case.text  # the driver's answer to code that was compiled
    if launches and "out of memory" in case.text:
        return None  # no room beside the cache, and no fault of a compiler
    reads = bool(last) and "triton/runtime/jit" in last[-1]
    if own and own.function == "<module>" and reads and not named and case.raised.name in OF_PYTHON:
        return Verdict(
            code="kernel-does-not-compile",
            meaning=(
                f"{who} cannot read the source of a kernel while {own.path} is imported ({case.first_line[:160]}): no "
                "kernel was compiled, and the GPU is not asked. How it finds a function's source depends on the "
                "release of Python and on the form of the file; that the file is imported at all, for another model "
                "maybe, is this release's choice."
            ),
            action=(
                "A newer release of the engine, which does not import this file for every model, or the one before. "
                "Python 3.12, as the engine's own images have, in place of an older one; a file that was mounted or "
                f"patched over {own.path} left out."
            ),
            evidence="the frames: a decorator of the compiler in a module that is imported; vllm#49920",
        )
    fails = (
        "compiled a kernel that the driver does not load or launch"
        if launches
        else "cannot compile a kernel for this GPU"
    )
    return Verdict(
        code="kernel-does-not-compile",
        meaning=(
            f"{who} {fails}: {case.first_line[:240]}.{kernel} The "
            "compiler and the kernel are of different times, or this release of the compiler has a fault there; the "
            "model is not the cause."
        ),
        action=(
            f"Take the triton and torch that the engine was made with: each torch brings its own version of triton"
            f"{f' ({pins})' if pins else ''}. A triton that is newer or older than that is the first suspect; an empty "
            f"TRITON_CACHE_DIR rules out a broken cache. {_another(case, 'To go on without this kernel:')}"
            + (" --enforce-eager leaves torch.compile out." if who != "Triton" else "")
        ),
        evidence="the frames in the compiler; pytorch#180908",
    )


GPU_FAMILIES: Final = (
    index_on_the_gpu,
    kernel_crashed,
    driver_call_of_torch,
    nvml_has_no_memory,
    driver_and_ptx,
    beyond_shared_memory,
    beyond_sms_or_registers,
    library_of_cuda_fails,
    compiler_without_arch,
    image_of_a_kernel_not_loaded,
    arch_list_without_this_gpu,
    check_without_this_family,
    kernel_without_arch,
    condition_on_the_arch,
    device_without,
    launch_refused,
    kernel_of_other_sizes,
    type_not_known_to_triton,
    kernel_of_cute_does_not_compile,
    code_not_traced,
    compiler_of_kernels_fails,
    capture_fails,
)
LATE_GPU_FAMILIES: Final = (kernel_without_shape, kernel_not_started, kernel_library_refuses)
LAST_GPU_FAMILIES: Final = (kernel_call_fails,)
"""Those that speak only when no other family does."""
