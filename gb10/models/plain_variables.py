"""Variables of the environment that a recipe of somebody else may set: those that run nothing and lead nowhere. Pure.

It is a list of what is allowed. A name that is not in it needs trust, however harmless it may be: a variable can name a
program to run, a library to load, or a server that gets a token.
"""

import re
from typing import Final

from gb10.models.render.engine_flags import words_of

FAMILIES: Final = re.compile(
    r"(?:VLLM|SGLANG|SGL|NCCL|TORCH_NCCL|TRTLLM|TLLM|FLASHINFER|B12X|INSTANTTENSOR|DG|TORCHINDUCTOR|RAY_CGRAPH)"
    r"_[A-Za-z0-9_]+"
)
"""Names of the engines and of their libraries, but for those with a word of BARRED."""
BARRED: Final = re.compile(
    r"(?:^|_)(?:PATHS?|DIRS?|DIRECTORY|FOLDER|ROOT|HOME|BASE|PREFIX|DEST|LOGDEST|FILES?|LIB(?:S|RARY|RARIES)?|SO"
    r"|PLUGINS?|CONF(?:IG|IGS|IGURATION)?|MODULES?|PACKAGES?|CLASS|CLS|IMPORT|EXTERNAL|CUSTOM|RESOLVER"
    r"|EXEC|EXECUTABLE|CMD|COMMAND|BIN|BINARY|PROGRAM|SHELL|SCRIPT|HOOKS?|PRELOAD|LOADER|AGENT|INIT"
    r"|UR[LI]S?|ENDPOINTS?|SERVER|PROXY|REPO|REPOSITORY|REGISTRY|CUBINS|COMM_ID|REDIRECT|MODELSCOPE|S3|BUCKET|IPS?|ADDR|ADDRESS|MASTER|HOSTS?|HOSTNAME"
    r"|KEYS?|TOKEN|SECRETS?|PASSWORD|AUTH|CREDENTIALS?|INSECURE|PICKLE|SERIALIZATION|TRUST|DEV_MODE|RUNTIME"
    r"|NVCC|COMPILER|CXX|CC|GCC|PTXAS|LINKER|C?FLAGS|CUDAFLAGS|EXTRA)(?:_|$)",
    re.IGNORECASE,
)
"""Words of names that lead to files, programs, libraries, hosts or secrets, or that open what is closed."""
CACHES: Final = re.compile(r"(?:^|_)CACHES?(?:_|$)", re.IGNORECASE)
"""Such a name is of a folder, unless its value is a switch or a number."""
SWITCH: Final = re.compile(r"\d{0,12}|true|false|on|off", re.IGNORECASE)
NAMES: Final = frozenset(
    words_of("""
    CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_DEVICE_MAX_CONNECTIONS CUDA_MODULE_LOADING CUDA_MODULE_DATA_LOADING
    CUDA_LAUNCH_BLOCKING CUDA_MANAGED_FORCE_DEVICE_ALLOC CUDA_SCALE_LAUNCH_QUEUES CUDA_CACHE_MAXSIZE CUDA_CACHE_DISABLE
    CUBLAS_WORKSPACE_CONFIG CUBLASLT_WORKSPACE_SIZE CUTE_DSL_ARCH NVIDIA_TF32_OVERRIDE NVIDIA_FORWARD_COMPAT
    PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_NVML_BASED_CUDA_CHECK
    TORCH_MATMUL_PRECISION TORCH_ALLOW_TF32_CUBLAS_OVERRIDE TORCH_COMPILE_DISABLE
    TORCH_SHOW_CPP_STACKTRACES TORCHDYNAMO_DISABLE TRITON_PRINT_AUTOTUNING
    HF_HUB_OFFLINE HF_HUB_DISABLE_XET HF_HUB_DISABLE_TELEMETRY HF_HUB_DISABLE_PROGRESS_BARS HF_HUB_DOWNLOAD_TIMEOUT
    HF_HUB_ETAG_TIMEOUT HF_HUB_ENABLE_HF_TRANSFER HF_XET_HIGH_PERFORMANCE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE
    TRANSFORMERS_VERBOSITY TOKENIZERS_PARALLELISM SAFETENSORS_FAST_GPU
    OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES OMP_WAIT_POLICY MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS
    MALLOC_ARENA_MAX MALLOC_TRIM_THRESHOLD_ MAX_JOBS TILELANG_CLEANUP_TEMP_FILES
    NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE UCX_TLS UCX_NET_DEVICES UCX_MAX_RNDV_RAILS
    GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME MN_IF_NAME OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include
    RAY_memory_monitor_refresh_ms RAY_memory_usage_threshold RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES
    RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION RAY_DEDUP_LOGS
    VLLM_DISTRIBUTED_EXECUTOR_CONFIG VLLM_CONFIGURE_LOGGING VLLM_LOGGING_LEVEL VLLM_ENGINE_READY_TIMEOUT_S
    LANG LC_ALL NO_COLOR
    """)
)
ARCHES: Final = re.compile(r"\d{1,2}\.\d[af]?(?:\+PTX)?(?:[ ;]\d{1,2}\.\d[af]?(?:\+PTX)?){0,7}")
"""FlashInfer puts what it finds there into the compile commands that ninja hands to a shell."""
VALUES: Final = {
    **dict.fromkeys(("FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST"), ARCHES),
    "NCCL_NET_PLUGIN": re.compile(r"none"),
    "NCCL_TUNER_PLUGIN": re.compile(r"none"),
    **dict.fromkeys(("CUDA_HOME", "CUDA_PATH"), re.compile(r"/usr/local/cuda(?:-\d{1,2}\.\d)?")),
    "TRITON_PTXAS_PATH": re.compile(r"/usr/local/cuda(?:-\d{1,2}\.\d)?/bin/ptxas(?:-blackwell)?"),
    **dict.fromkeys(
        ("HF_HOME", "HF_HUB_CACHE", "TRANSFORMERS_CACHE"),
        re.compile(r"(?:/root/\.cache|/var/cache/gb10|/cache)/(?:huggingface|hf)(?:/hub)?/?"),
    ),
    **dict.fromkeys(
        (
            *("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"),
            *("SGLANG_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME"),
        ),
        re.compile(r"(?:/root/\.cache|/var/cache/gb10)(?:/(?!huggingface|hub|hf)[a-z0-9_-]{1,40}){0,3}/?"),
    ),
}
"""Names that are allowed with these values alone: folders where no file of a model lies."""
VALUE: Final = re.compile(r"[ +,:=@\[\]^_{}A-Za-z0-9-][ +,.:=@\[\]^_{}A-Za-z0-9\"/-]*|")
"""Printable, and no path; nothing that a shell acts on, should an engine hand the value to one."""


def doubt_of(name: str, value: str) -> str | None:
    """Why a recipe of somebody else may not set a variable to a value; None when it may."""
    if name in VALUES:
        return None if VALUES[name].fullmatch(value) else "this value of it can lead to a program or a library"
    led = BARRED.search(name) or (CACHES.search(name) and not SWITCH.fullmatch(value))
    if name not in NAMES and (FAMILIES.fullmatch(name) is None or led):
        return "it is not one of those that run nothing"
    if VALUE.fullmatch(value) is None or "://" in value or "/../" in value:
        return "its value is a path, an address, or something that a shell expands"
    return None
