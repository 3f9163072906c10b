"""Kernel sets: which modules a wheel of kernels holds, from recipes/kernels; a set may include others. Pure."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from gb10.core.fields import Model
from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import (
    LONGEST,
    Config,
    list_in,
    mapping_in,
    number_in,
    text_config,
    word_in,
)

FOLDER: Final = "kernels/"
COSTS: Final = f"{FOLDER}costs.toml"
UNITS: Final = f"{FOLDER}units.toml"

NO_BYTES: Final = ("name", "flashinfer", "includes", "asked", "unasked")
"""Words of a set that decide no byte of its wheel."""

KernelSet = Mapping[str, Any]
"""A set in its file format (SetFile): ``name``, ``module`` and ``group`` tables; included entries come first."""


class Entry(Model):
    """A module or a group of modules, and the function that makes it."""

    name: str
    factory: str | None = Field(default=None, pattern=r"^flashinfer(\.\w+)+:\w+$")
    """``package.module:function`` of FlashInfer. Our own modules have none: all units of the set are one module."""
    arguments: tuple[str | int | bool, ...] = ()
    capabilities: tuple[str, ...] = ()
    """Compute capabilities that get it. Default: all."""
    cubins: tuple[str, ...] = ()
    """The GPU code that it must hold, where its own code decides that. Default: the plan's arch."""
    instructions: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What every kernel whose name contains the key must hold."""
    wheels: tuple[str, ...] = ()
    cost: str | None = None
    """Its entry in costs.toml. Default: its name."""


class SetFile(Model):
    """``recipes/kernels/<owner>-<name>.toml``."""

    name: str
    version: str | None = None
    """Of the wheel, for kernels of our own."""
    flashinfer: tuple[str, ...] = ()
    """The releases that it was tried with."""
    cutlass: str | None = None
    headers: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    asked: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The releases of engines whose calls the set holds: what they do not call may be left out of it."""
    unasked: str | None = None
    """The set for every other engine."""
    module: tuple[Entry, ...] = ()
    group: tuple[Entry, ...] = ()
    without: dict[str, str] = Field(default_factory=dict)
    """Factories that are left out of a group, with the reason."""


def read_sets(contents: Mapping[str, bytes]) -> dict[str, KernelSet]:
    """Every set among the catalog's files, by the name of its file; raises UsageError for an invalid set."""
    files = {
        name: content for name, content in contents.items() if name.startswith(FOLDER) and name not in (COSTS, UNITS)
    }
    raw = {_name_of(path): _read(path, content) for path, content in files.items()}
    return {name: merged(name, raw) for name in raw}


def merged(name: str, raw: Mapping[str, KernelSet], above: tuple[str, ...] = ()) -> KernelSet:
    """A set with the included sets of the same owner behind its own part; releases are those that all support."""
    own = dict(raw[name])
    for short in own.pop("includes", ()):
        other = f"{name.removesuffix(own['name'])}{short}"
        if other not in raw or other in (*above, name):
            raise UsageError(
                f"the kernel set {own['name']} includes {short!r}",
                where=f"recipes/{FOLDER}{name}.toml",
                hint=f"known: {', '.join(sorted(raw))}",
            )
        below = merged(other, raw, (*above, name))
        tried = below.get("flashinfer", ())
        own.setdefault("flashinfer", tried)
        own["flashinfer"] = [release for release in own["flashinfer"] if release in tried]
        for part in ("module", "group"):
            own[part] = [*own.get(part, ()), *below.get(part, ())]
        own["without"] = {**below.get("without", {}), **own.get("without", {})}
    return own


def content(kernels: KernelSet) -> KernelSet:
    """The part of a set that affects its wheel: not its name, the releases that it was held against, or its cost.

    ``wheels`` are not included: they are inputs with their own digests.
    """
    words = {name: value for name, value in kernels.items() if name not in NO_BYTES}
    for part in ("module", "group"):
        words[part] = [
            {word: merged for word, merged in entry.items() if word not in ("cost", "wheels")}
            for entry in kernels.get(part, ())
        ]
    return words


def entries(kernels: KernelSet) -> tuple[Mapping[str, Any], ...]:
    """Its modules and groups, in the order in which they are compiled."""
    return (*kernels.get("module", ()), *kernels.get("group", ()))


def target_wheels(kernels: KernelSet) -> tuple[str, ...]:
    """Additional image wheels that provide headers and libraries to its modules."""
    return tuple(dict.fromkeys(name for entry in entries(kernels) for name in entry.get("wheels", ())))


def _name_of(path: str) -> str:
    return path.removeprefix(FOLDER).removesuffix(".toml")


def _read(path: str, content: bytes) -> KernelSet:
    try:
        found = tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageError(f"cannot read the kernel set recipes/{path}", where=str(error)) from error
    from gb10.core.document import check_value  # noqa: PLC0415 - YAML, which a kept plan is read without

    check_value(_tuples(found), SetFile, where=f"recipes/{path}", what="kernel set")
    if not _name_of(path).endswith(f"-{found['name']}"):
        raise UsageError(
            f"recipes/{path} has the name {found['name']!r}",
            hint="`name` is what follows the owner in the file's name: flashinfer-NAME.toml",
        )
    return found


def _tuples(value: object) -> object:
    if isinstance(value, dict):
        return {name: _tuples(inner) for name, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value


KernelEntry = dict[str, Any]

DTYPES: Final = ("bfloat16", "float16")
SMALL_CACHE: Final = "float8_e4m3fn"
LATENT: Final = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
LARGEST: Final = 4096
EXPERTS: Final = ("num_experts", "n_routed_experts", "num_local_experts")
CASCADE: Final = {"name": "cascade", "factory": "flashinfer.jit.cascade:gen_cascade_module"}
FUSED_MOE: Final = {
    "name": "fused_moe_120",
    "wheels": ["nvidia-cuda-nvrtc"],
    "factory": "flashinfer.jit.fused_moe:gen_cutlass_fused_moe_sm120_module",
}
SPARSE_MLA: Final = {"name": "sparse_mla_sm120", "factory": "flashinfer.jit.mla:gen_sparse_mla_sm120_module"}
GEMM: Final = {
    "nvfp4": {
        "name": "fp4_gemm_cutlass_sm120",
        "factory": "flashinfer.jit.gemm.core:gen_gemm_sm120_module_cutlass_fp4",
    },
    "mxfp8": {
        "name": "mxfp8_gemm_cutlass_sm120",
        "factory": "flashinfer.jit.gemm.core:gen_gemm_sm120_module_cutlass_mxfp8",
    },
}
"""The dense GEMM by scheme; other schemes use none of FlashInfer's."""
BESIDE_MXFP4: Final[tuple[KernelEntry, ...]] = (
    {
        "name": "mxfp8_quantization_sm100",
        "factory": "flashinfer.jit.fp8_quantization:gen_mxfp8_quantization_sm100_module",
    },
    {"name": "tinygemm2", "factory": "flashinfer.jit.tinygemm2:gen_tinygemm2_module"},
)
"""What SGLang calls beside experts in MXFP4: their tokens become MXFP8, and GPT-OSS' router is a small GEMM."""
FUSED: Final = ("nvfp4", "fp8-tensor")
"""Schemes with experts in FlashInfer's fused kernel."""
OWN_ATTENTION: Final = ("FLASHINFER", "flashinfer")
"""How the names of FlashInfer's attention backends start, in vLLM and in SGLang."""
BY_KERNEL: Final[dict[str, tuple[KernelEntry, ...]]] = {
    "FlashInferCutlassNvFp4LinearKernel": (GEMM["nvfp4"],),
    "FlashInferCutlassMxfp8LinearKernel": (GEMM["mxfp8"],),
    "FlashInferExperts": (FUSED_MOE,),
    "FlashInfer fp4_gemm_cutlass_sm120": (GEMM["nvfp4"],),
    "FlashInfer mxfp8_gemm_cutlass_sm120": (GEMM["mxfp8"],),
    "experts flashinfer_cutlass": (FUSED_MOE,),
    "experts flashinfer_mxfp4": (FUSED_MOE, *BESIDE_MXFP4),
}
"""The modules of a kernel, by the name that `explain` prints: vLLM's kernels first, then SGLang's."""


def set_name(model: str) -> str:
    """``for-qwen-qwen3-30b-a3b`` of ``Qwen/Qwen3-30B-A3B``."""
    return "for-" + re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")


def model_set(config: Config, model: str, releases: Sequence[str], chosen: Collection[str] | None = None) -> KernelSet:
    """The set of one model, on top of ``core``; raises UsageError if the config is not a decoder's.

    ``chosen``: the kernels that the engine takes for the model, where that is known; then these decide.
    """
    text = text_config(config)
    dtype = str(text.get("dtype") or text.get("torch_dtype"))[:LONGEST].removeprefix("torch.")
    if dtype not in DTYPES or not {"head_dim", "num_attention_heads"} & text.keys():
        raise UsageError(
            f"cannot choose kernels from the config of {model}",
            where=f"dtype {dtype}",
            hint="give the config.json of a decoder in bfloat16 or float16",
        )
    latent = "kv_lora_rank" in text
    own = chosen is None or any(name.startswith(OWN_ATTENTION) for name in chosen)
    heads = list(_latent(text, dtype) if latent else _heads(text, dtype)) if own else []
    sparse = [SPARSE_MLA] if own and latent and text.get("index_topk") else []
    products = _quantized(text) if chosen is None else _of_kernels(chosen)
    return {
        "name": set_name(model),
        "includes": ["core"],
        "flashinfer": list(releases),
        "group": heads,
        "module": [*([CASCADE] if own else []), *products, *sparse],
    }


def _of_kernels(chosen: Collection[str]) -> list[KernelEntry]:
    """The modules of the engine's own choices."""
    found = [module for kernel, modules in BY_KERNEL.items() if kernel in chosen for module in modules]
    return list({module["name"]: module for module in found}.values())


def _heads(text: Config, dtype: str) -> Iterator[KernelEntry]:
    """Prefill and decode, for a cache of the model's own type and for one of FP8."""
    if text.get("head_dim"):
        size = number_in(text, "head_dim", LARGEST)
    else:
        hidden, heads = number_in(text, "hidden_size", 1 << 20), number_in(text, "num_attention_heads", LARGEST)
        size = number_in({"head_dim": hidden // heads}, "head_dim", LARGEST)
    cap = bool(text.get("attn_logit_softcapping"))
    for window in _windows(text):
        for cache in (dtype, SMALL_CACHE):
            yield _fa2(dtype, cache, (size, size), window=window, cap=cap)


def _latent(text: Config, dtype: str) -> Iterator[KernelEntry]:
    """Multi-head latent attention: decode over the latent, prefill over the expanded heads."""
    latent, rope, rest, value = (number_in(text, name, LARGEST) for name in LATENT)
    yield {
        "name": f"attention-{dtype}-latent-{latent}-{rope}",
        "factory": "flashinfer.jit.attention:gen_batch_mla_module",
        "arguments": ["fa2", *[f"torch.{dtype}"] * 3, "torch.int32", latent, rope, False],
    }
    heads = _fa2(dtype, dtype, (rest + rope, value), window=False, cap=False)
    yield {**heads, "arguments": [*heads["arguments"], True]}  # prefill only


def _fa2(dtype: str, cache: str, sizes: tuple[int, int], *, window: bool, cap: bool) -> KernelEntry:
    marks = "".join(mark for mark, used in (("-window", window), ("-cap", cap)) if used)
    return {
        "name": f"attention-{dtype}-{cache}-{sizes[0]}-{sizes[1]}{marks}",
        "cost": "attention",
        "factory": "flashinfer.aot:gen_fa2",
        "arguments": [f"torch.{dtype}", f"torch.{cache}", *sizes, window, cap],
    }


def _windows(text: Config) -> tuple[bool, ...]:
    """Whether layers use full attention, a window, or a mix."""
    if not text.get("sliding_window") or text.get("use_sliding_window") is False:
        return (False,)
    layers = list_in(text, "layer_types")
    return tuple(sorted({layer == "sliding_attention" for layer in layers})) if layers else (False, True)


def _quantized(text: Config) -> Iterator[KernelEntry]:
    """The GEMMs of the weights' scheme, and the fused one for experts."""
    scheme = _scheme(mapping_in(text, "quantization_config"))
    if scheme in GEMM:
        yield GEMM[scheme]
    if scheme in FUSED and any(text.get(name) for name in EXPERTS):
        yield FUSED_MOE


def _scheme(config: Config) -> str:
    """``nvfp4``, ``mxfp8``, ``fp8-tensor`` (one static scale for activations), or the config's own name."""
    merged = {**config, **mapping_in(config, "quantization")}  # the layout of hf_quant_config.json
    words = " ".join(word_in(merged, name) for name in ("quant_algo", "quant_method", "format")).lower()
    named = next((name for name in GEMM if name in words), None)
    if named:
        return named
    groups = mapping_in(merged, "config_groups")
    inputs = mapping_in(mapping_in(groups, next(iter(groups), "")), "input_activations")
    static = inputs.get("strategy") == "tensor" and inputs.get("dynamic") is False and inputs.get("num_bits") == 8
    static = static or ("fp8" in words and merged.get("activation_scheme") == "static")
    return "fp8-tensor" if static or word_in(merged, "quant_algo").upper() == "FP8" else words.strip()
