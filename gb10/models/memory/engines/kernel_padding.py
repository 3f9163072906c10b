"""What an engine adds to weights because a kernel takes only multiples of some sizes. Pure.

Multiples are those of vLLM 0.33 (model_executor/layers/fused_moe/oracle/mxfp4.py and fp8.py, quantization/utils/
marlin_utils.py, marlin_utils_fp4.py and flashinfer_fp4_moe.py), and for MXFP4 of SGLang 0.5.23 (layers/quantization/
mxfp4.py). The kernels are those that they take on a GB10 by themselves (what ``explain`` answers), or what
``--moe-backend`` and ``--moe-runner-backend`` name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm
from typing import Final

from gb10.models.memory.launch import Engine, Launch
from gb10.models.memory.model import Model
from gb10.models.memory.shapes.decoder import model_tensors
from gb10.models.memory.shapes.feed_forward import TWO_MATRICES, expert_size, latent_size
from gb10.models.memory.shapes.tensor import Tensor
from gb10.models.memory.weights.stored import Format
from gb10.models.memory.weights.weight import LAYER, Ranks, stage_of, weight_of

MARLIN: Final = "marlin"
DEFAULTS: Final = {"mxfp4": MARLIN, "nvfp4": "flashinfer_cutlass", "int4": MARLIN, "int8": MARLIN}
"""Kernels for experts by format, where no option names one."""
ROW_PARALLEL: Final = ("o_proj", "down_proj", "out_proj", "w2", "wo_b", "g_b_proj")
"""Projections whose columns the ranks divide; of others they divide the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expert:
    """Columns that an expert reads, and its inner width on a rank."""

    hidden: int
    inner: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """Bytes on a rank, and in words which sizes became which."""

    size: int = 0
    words: str = ""


def padding(model: Model, launch: Launch, stage: int) -> Padding:
    """What is added to the weights of a rank of a stage; nothing where the model's layers are not known."""
    if launch.engine not in ("vllm", "sglang"):
        return Padding()
    return _padding(model, launch.engine, launch.ranks, launch.experts, stage)


@lru_cache(maxsize=256)
def _padding(model: Model, engine: Engine, ranks: Ranks, experts: str, stage: int) -> Padding:
    fields, scheme = model.fields, model.scheme
    if fields is None or scheme is None or not scheme.rules:
        return Padding()
    inner = -(-expert_size(fields) // ranks.tensor) if fields.experts else 0
    was = now = Expert(hidden=latent_size(fields) or fields.hidden, inner=inner)
    total, gated = 0, fields.kind not in TWO_MATRICES
    for tensor in model_tensors(fields.config, model.name):
        weight = weight_of(tensor.name, 0, fields.layers)
        if weight.part == "draft" or not _is_on(tensor, stage, ranks, fields.layers):
            continue
        found = scheme.format_of(tensor)
        if weight.part == "experts":
            kind = found or scheme.format_of(replace(tensor, linear=True))  # a bias has no format of its own
            if kind is not None and (engine == "vllm" or kind.name == "mxfp4"):
                now = expert_sizes(kind, ranks, experts, was, gated=gated)
            total += round(_of_expert(tensor, found, was, now) * tensor.copies / ranks.expert_copies)
        elif found is not None and found.name in ("int4", "int8") and engine == "vllm":
            total += _of_projection(tensor, found, ranks.tensor)
    pairs = dict.fromkeys(((was.hidden, now.hidden), (was.inner, now.inner)))
    return Padding(size=total, words=" and ".join(f"{one:,} as {other:,}" for one, other in pairs if one != other))


def expert_sizes(kind: Format, rank: Ranks, experts: str, wanted: Expert, *, gated: bool) -> Expert:
    """Columns that an expert reads, and its inner width on a rank, as the kernel takes them."""
    kernel = DEFAULTS.get(kind.name, "") if experts == "auto" else experts
    wide, deep = _multiples(kind, kernel, rank, wanted.hidden, gated=gated)
    return Expert(hidden=_up(wanted.hidden, wide), inner=_up(wanted.inner, deep))


def _multiples(kind: Format, kernel: str, rank: Ranks, hidden: int, *, gated: bool) -> tuple[int, int]:
    """What the columns and the inner width are multiples of."""
    found = 1, 1
    if kind.name == "mxfp4" and kernel != "b12x":
        other = (128, 128) if "cutlass" in kernel else (1, 64)
        found = (256, 128) if kernel in (MARLIN, "flashinfer_mxfp4") else other
    elif kind.name == "nvfp4":
        marlin = 64 if hidden % 128 == 0 else 128
        found = 1, marlin if kernel == MARLIN else 1 if gated else 128
    elif kind.name in ("int4", "int8") and kernel == MARLIN:
        found = 1, lcm(64, kind.group or 1)
    elif kind.block and rank.tensor > 1:
        found = 1, kind.block
    return found


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _is_on(tensor: Tensor, stage: int, ranks: Ranks, layers: int) -> bool:
    found = LAYER.search(tensor.name)
    return stage_of(int(found[1]), layers, ranks.stages) == stage if found else stage == 0


def _of_expert(tensor: Tensor, found: Format | None, was: Expert, now: Expert) -> int:
    """The bytes that a tensor of one expert grows by."""
    if found is None:  # a bias of gate, up and output, in two bytes
        grown = 2 * (now.inner - was.inner) + now.hidden - was.hidden
        return 2 * grown if tensor.name.endswith("bias") else 0
    down = tensor.name.endswith(("down_proj", "w2"))
    sizes = [(one.hidden, one.inner) if down else (one.inner, one.hidden) for one in (was, now)]
    before, after = (found.size(Tensor(name=tensor.name, rows=r, columns=c, linear=True)) for r, c in sizes)
    return after - before


def _of_projection(tensor: Tensor, found: Format, ranks: int) -> int:
    """Marlin's multiples of a dense projection on a rank: 64 rows by 128 columns, or 128 by 64."""
    rows, columns = tensor.rows, tensor.columns
    if tensor.name.rsplit(".", 1)[-1] in ROW_PARALLEL:
        columns = -(-columns // ranks)
    else:
        rows = -(-rows // ranks)
    best = min(_shapes(rows, columns, found.group or 1), key=lambda shape: shape[0] * shape[1])
    one = [Tensor(name=tensor.name, rows=r, columns=c, linear=True) for r, c in ((rows, columns), best)]
    return (found.size(one[1]) - found.size(one[0])) * tensor.copies


def _shapes(rows: int, columns: int, group: int) -> Iterator[tuple[int, int]]:
    yield _up(rows, 64), _up(columns, lcm(128, group))
    yield _up(rows, 128), _up(columns, lcm(64, group))
