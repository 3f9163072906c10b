"""A recipe of somebody else, started without a shell: which words, options and variables it may have. Pure."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import At, ModelRecipe
from gb10.models.render.rendered import NodeContainer, RankCommand, RenderedRecipe, node_container
from gb10.models.render.serve_line import words_of

SERVERS: Final[tuple[tuple[str, ...], ...]] = (
    ("vllm", "serve"),
    ("sglang", "serve"),
    *(
        (python, "-m", module)
        for python in ("python", "python3")
        for module in ("vllm.entrypoints.openai.api_server", "sglang.launch_server")
    ),
    ("llama-server",),
    ("rpc-server",),
    ("trtllm-serve",),
    ("spark", "serve"),
    ("max", "serve"),
    ("tokenary",),
)
"""The first words of each engine's server, whole."""
GAP: Final = re.compile(r"(?: |\\\n)+")
"""Blanks, and a line that goes on."""
BARE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
QUOTED: Final = re.compile(r"'([^'\\$`]*)'|\"([^\"\\$`]*)\"")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
SHOWN: Final = 60


class NotPlainError(Exception):
    """A command needs a shell, or starts something else; the text says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainCommand:
    """The words of a server, and the variables that are set before its name."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def plain_command(text: str) -> PlainCommand:
    """The words of a command line; raises NotPlainError for anything but an engine's server and plain words."""
    environment: dict[str, str] = {}
    words: list[str] = []
    for word, name in _words(text.lstrip(" \n")):
        if name and not words:
            environment[name] = word[len(name) + 1 :]
        else:
            words.append(word)
    if not words:
        raise NotPlainError("it starts nothing")
    if not any(tuple(words[: len(server)]) == server for server in SERVERS):
        raise NotPlainError(f"it starts something else: {_short(' '.join(words))}")
    return PlainCommand(words=tuple(words), environment=environment)


def _words(text: str) -> Sequence[tuple[str, str]]:
    """Each word, and the variable that it sets if it stands before the command; raises NotPlainError."""
    found: list[tuple[str, str]] = []
    position, begun = 0, -1
    while position < len(text):
        gap = GAP.match(text, position)
        if gap:
            position, begun = gap.end(), -1
            continue
        if text[position:] == "\\" or not text[position:].strip("\n "):  # a line that goes on, and nothing comes
            break
        piece, end = _piece(text, position)
        if begun < 0:
            begun = position
            assigned = ASSIGNMENT.match(text, position)
            found.append((piece, assigned[1] if assigned else ""))
        else:
            found[-1] = (found[-1][0] + piece, found[-1][1])
        position = end
    return found


def _piece(text: str, position: int) -> tuple[str, int]:
    """A part of a word and where it ends; raises NotPlainError."""
    bare = BARE.match(text, position)
    if bare:
        return bare[0], bare.end()
    quoted = QUOTED.match(text, position)
    if quoted is None:
        raise NotPlainError(_reason(text, position))
    inner = quoted[1] if quoted[1] is not None else quoted[2]
    odd = next((char for char in inner if not char.isprintable()), None)
    if odd is not None:
        raise NotPlainError(f"a quoted word holds the character U+{ord(odd):04X}: {_short(quoted[0])}")
    return inner, quoted.end()


def _reason(text: str, position: int) -> str:
    char, rest = text[position], _short(text[position:])
    if char == "\n":
        return f"it has a second line: {_short(text[position:].strip())}"
    if char in "'\"":
        sign = next((one for one in "\\$`" if one in text[position:]), "")
        return f"a quotation holds {sign} or does not end: {rest}" if sign else f"a quotation does not end: {rest}"
    if not char.isprintable():
        return f"it holds the character U+{ord(char):04X}"
    return f"a shell reads {char}: {rest}"


def _short(text: str) -> str:
    """The beginning of a text, in which nothing moves a terminal's cursor."""
    shown = "".join(char if char.isprintable() else " " for char in text[: SHOWN + 1])
    shown = " ".join(shown.split())
    return shown if len(text) <= SHOWN else f"{shown[:SHOWN]}…"


BARRED_OPTIONS: Final = words_of("""
    --tool-parser-plugin --reasoning-parser-plugin --middleware --worker-cls --worker-extension-cls --scheduler-cls
    --logits-processors --logits-processor-pattern --io-processor-plugin --config --allowed-local-media-path
    --extra-llm-api-options --slot-save-path --custom-sigquit-handler --ssl-keyfile --ssl-certfile --ssl-ca-certs
    --uds --lora-modules-path
""")
"""By their long names. An engine takes the beginning of a name, too."""
WHOLE: Final = frozenset(words_of("--reasoning-parser --scheduler --worker --logits --io --extra"))
"""Names that are the beginning of one above, and other options."""
FIELD: Final = re.compile(r"(?:module_path|_cls|_plugins?)$", re.IGNORECASE)
"""What a field of a JSON value names that is imported: in ``--x.FIELD`` and in ``{"FIELD": …}``."""
KEY: Final = re.compile(r'"([^"]{1,80})"\s*:')
CLOSED: Final = re.compile(r"(?:^|[\s=\"',:\[{(])/(?:gb10|proc|sys|dev|etc|run)(?:/|$)|(?:^|[/=\"'])\.\.(?:/|$)")
"""Paths of a container where secrets and the machine's own files lie."""


def doubts_of(words: Sequence[str]) -> tuple[str, ...]:
    """Why words of a server's command need trust, each once."""
    return tuple(dict.fromkeys(filter(None, map(_doubt, words))))


def _doubt(word: str) -> str | None:
    name, _, value = word.partition("=")
    if name.startswith("--"):
        plain = name.replace("_", "-").lower()
        field = name.rpartition(".")[2] if "." in name else ""
        if plain not in WHOLE and len(plain) > 3 and any(one.startswith(plain) for one in BARRED_OPTIONS):
            return f"the option {name} runs code or opens a file"
        if field and FIELD.search(field):
            return f"the option {name} names code to run"
    if any(FIELD.search(key) for key in KEY.findall(word)):
        return f"a value names code to run: {word[:60]}"
    if CLOSED.search(value or word):
        return f"it names a file of the container that is no model's: {word[:60]}"
    return None


FAMILIES: Final = re.compile(
    r"(?:VLLM|SGLANG|SGL|NCCL|TORCH_NCCL|TRTLLM|TLLM|FLASHINFER|B12X|INSTANTTENSOR|DG|TORCHINDUCTOR|RAY_CGRAPH)"
    r"_[A-Za-z0-9_]+"
)
"""Names of the engines and of their libraries, but for those with a word of BARRED."""
BARRED_VARIABLES: Final = re.compile(
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
    LLAMA_ARG_NO_MMAP LLAMA_ARG_LOAD_MODE LANG LC_ALL NO_COLOR
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
    led = BARRED_VARIABLES.search(name) or (CACHES.search(name) and not SWITCH.fullmatch(value))
    if name not in NAMES and (FAMILIES.fullmatch(name) is None or led):
        return "it is not one of those that run nothing"
    if VALUE.fullmatch(value) is None or "://" in value or "/../" in value:
        return "its value is a path, an address, or something that a shell expands"
    return None


RUN: Final = '\nexec "$@"'
"""How a text of ours starts the words that it gets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What a recipe of somebody else may not do: in words, and where the recipe has it."""

    text: str
    at: At


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The containers, each with the words of its server; none where there is a doubt, or the recipe has no image."""

    containers: tuple[NodeContainer, ...]
    doubts: tuple[Doubt, ...]


def judge_rendered(recipe: ModelRecipe, rendered: RenderedRecipe) -> Judged:
    """What was rendered, judged as what runs: every node's command and every variable."""
    ranks = rendered.ranks or (RankCommand(host="", command=rendered.serve or "", line=rendered.serve or ""),)
    doubts: list[Doubt] = []
    if recipe.format == "v1" and not recipe.name.isprintable():  # it stands in a comment of the script
        doubts.append(Doubt(text="its name is more than one line of text", at=("name",)))
    containers: list[NodeContainer] = []
    for rank in ranks:
        try:
            found = _command(rank)
        except NotPlainError as error:
            doubts.append(Doubt(text=f"the command is more than an engine and plain options: {error}", at=("command",)))
            continue
        doubts += [Doubt(text=f"its command: {text}", at=("command",)) for text in doubts_of(found.words)]
        environment = {**rendered.environment, **found.environment}
        doubts += _variables(recipe, environment)
        line = shlex.join(found.words)
        if rendered.image and rendered.ranks:
            containers.append(node_container(rank.host, rendered.image, line, environment, found.words))
    doubts = list(dict.fromkeys(doubts))
    return Judged(containers=() if doubts else tuple(containers), doubts=tuple(doubts))


def _command(rank: RankCommand) -> PlainCommand:
    """The words of a node; those of the recipe are given to a text of ours, if there is one."""
    if rank.line is None:
        if rank.before and rank.before == rank.command:
            return PlainCommand(words=("bash", "-c", rank.before), environment={})
        raise NotPlainError("a shell writes its parameters into a file")
    found = plain_command(rank.line)
    if not rank.before:
        return found
    words = ("bash", "-c", f"{rank.before}{RUN}", "gb10", *found.words)
    return PlainCommand(words=words, environment=found.environment)


def _variables(recipe: ModelRecipe, environment: Mapping[str, str]) -> Iterator[Doubt]:
    for name, value in environment.items():
        doubt = doubt_of(name, value)
        if doubt is None and recipe.format == "v1" and '"' in value and not _is_object(value):
            doubt = "a shell reads its quotation marks"
        if doubt:
            at: At = ("env", name) if name in recipe.env else ("command",)
            shown = "".join(char if char.isprintable() else " " for char in f"{name}={value}")[:80]
            yield Doubt(text=f"it sets the variable {shown}: {doubt}", at=at)


def _is_object(value: str) -> bool:
    """Whether a value is a JSON object: a shell would take its quotation marks away, which nobody means."""
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False
