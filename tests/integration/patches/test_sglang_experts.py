"""The SGLang series on real releases, expert parallelism: 0002 to 0004, before and after each patch.

Nothing of SGLang is imported and there is no torch: tensors are lists, and the kernels that a function calls are a few
lines each.
"""

import ast
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.patches import lists
from tests.integration.patches.cut import both, find, run
from tests.integration.patches.lists import Tensor
from tests.integration.patches.releases import original, patched

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MAPS, SCALES = "0002-moe-maps-of-dropped-tokens", "0003-modelopt-scales-of-local-experts"
ZEROS = "0004-wna16-zeros-of-local-experts"
EARLY = ("0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15")
LATE = ("0.5.16", "0.5.17", "0.5.20", "0.5.21", "0.5.22")
MOE = "sglang/srt/layers/moe/cutlass_moe.py"
MODELOPT = "sglang/srt/layers/quantization/modelopt_quant.py"
WNA16 = "sglang/srt/layers/quantization/moe_wna16.py"
LAYER = "sglang/srt/layers/moe/fused_moe_triton/layer.py"


# 0002: slots whose expert is on another rank

IDS = ((0, -1), (-1, -1), (1, 0), (-1, 1))
ALL_ELSEWHERE = ((-1, -1),) * 4
HERE = ((0, 1), (1, 0), (1, 0), (0, 1))
WEIGHTS = ((0.5, 0.25), (0.5, 0.5), (2.0, 1.0), (4.0, 8.0))
VALUES = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0))
EXPERTS = 2
WIDTH = 2


def tensor(rows: Sequence[Sequence[Any]], dtype: str = "bf16") -> Tensor:
    return Tensor([value for row in rows for value in row], (len(rows), len(rows[0])), dtype)


def prepare(ids: Tensor, offsets: Tensor, _1: object, _2: object, a_map: Tensor, c_map: Tensor, *_: object) -> None:
    """prepare_moe_input: rows packed by expert; nothing is written for an id that is no expert's."""
    slots = [slot for expert in range(EXPERTS) for slot, found in enumerate(ids) if found == expert]
    offsets.write([0] + [sum(found in range(expert + 1) for found in ids) for expert in range(EXPERTS)])
    a_map.write(slot // ids.size(1) for slot in slots)
    for row, slot in enumerate(slots):
        c_map.values[slot] = row


def gather(source: Tensor, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """shuffle_rows: a row that is not there is an illegal access."""
    if not all(0 <= row < source.size(0) for row in rows):
        raise IndexError
    return Tensor([value for row in rows for value in source[row]], (shape[0], source.size(1)))


def grouped_mm(out: Tensor, rows: Tensor, offsets: Tensor) -> None:
    """A grouped GEMM whose expert e doubles by e + 1; rows behind the last expert's are not written."""
    for row in range(list(offsets)[-1]):
        expert = sum(row >= end for end in list(offsets)[1:])
        wide = out.size(1) // rows.size(1)
        out[row].write([value * (expert + 1) for value in rows[row]] * wide)


def combine(rows: Tensor, out: Tensor, c_map: Tensor, weights: Tensor | None) -> None:
    """apply_shuffle_mul_sum: each token the sum of its slots."""
    tokens = out.size(0)
    found = gather(rows, c_map, (c_map.numel(),)).view(tokens, c_map.numel() // tokens, out.size(1))
    out.write((found if weights is None else found * weights.view(tokens, weights.size(1), 1)).sum(dim=1))


def kernels(index_garbage: int, offsets: Tensor) -> dict[str, Any]:
    """All that the two functions call."""
    torch = lists.torch(index_garbage)

    def fp4_mm(rows: Tensor, weight: Tensor, *_: object) -> Tensor:
        out: Tensor = torch.empty((rows.size(0), weight.size(1)))
        grouped_mm(out, rows, offsets)
        return out

    def fp4_quant(rows: Tensor, *_: object, expert_map: Tensor | None = None) -> tuple[Tensor, None]:
        return (gather(rows, expert_map, (expert_map.numel(),)) if expert_map else rows), None

    def half(rows: Tensor) -> Tensor:
        return tensor([list(rows[row])[:WIDTH] for row in range(rows.size(0))])

    return {
        "torch": torch,
        "is_cuda": True,
        "is_sm90_supported": lambda: False,
        "get_platform": lambda: SimpleNamespace(is_sm90=False),
        "sglang_per_token_group_quant_fp8": lambda rows, _: (rows, rows),
        "prepare_moe_input": prepare,
        "shuffle_rows": gather,
        "shuffle_rows_with_scales": lambda a, b, rows, m: (gather(a, rows, (m,)), gather(b, rows, (m,))),
        "fp8_blockwise_scaled_grouped_mm": lambda out, *rest: grouped_mm(out, rest[5], offsets),
        "silu_and_mul": lambda rows, out: out.write(half(rows)),
        "apply_shuffle_mul_sum": combine,
        "scaled_fp4_experts_quant": fp4_quant,
        "silu_and_mul_scaled_fp4_experts_quant_packed": lambda rows, *_: (half(rows), None),
        "cutlass_fp4_group_mm": fp4_mm,
    }


Moe = Callable[[str, Sequence[Sequence[int]], int], list[float]]


def fp8_moe(text: str, ids: Sequence[Sequence[int]], index_garbage: int) -> list[float]:
    """cutlass_fused_experts_fp8 of a release for four tokens."""
    offsets = Tensor([0] * (EXPERTS + 1), (EXPERTS + 1,))
    names = kernels(index_garbage, offsets)
    helper = find(text, "_give_dropped_slots_a_zero_row")
    function = run([helper, find(text, "cutlass_fused_experts_fp8")], names)["cutlass_fused_experts_fp8"]
    weights = {
        "w1_q": Tensor([], (EXPERTS, WIDTH, 2 * WIDTH), "float8_e4m3fn"),
        "w2_q": Tensor([], (EXPERTS, WIDTH, WIDTH), "float8_e4m3fn"),
        "w1_scale": Tensor([], (EXPERTS,)),
        "w2_scale": Tensor([], (EXPERTS,)),
    }
    arguments = find(text, "cutlass_fused_experts_fp8").args  # type: ignore[union-attr]
    required = [argument.arg for argument in arguments.args[: -len(arguments.defaults)]]
    given = (
        dict.fromkeys(required)
        | weights
        | {
            "a": tensor(VALUES),
            "topk_weights": tensor(WEIGHTS),
            "topk_ids": tensor(ids, "int32"),
            "expert_offsets": offsets,
        }
    )
    return list(function(**given))


def fp4_moe(text: str, ids: Sequence[Sequence[int]], index_garbage: int) -> list[float]:
    """cutlass_moe_fp4 of a release for four tokens."""
    offsets = Tensor([0] * (EXPERTS + 1), (EXPERTS + 1,))
    helper = find(text, "_give_dropped_slots_a_zero_row")
    function = run([helper, find(text, "cutlass_moe_fp4")], kernels(index_garbage, offsets))["cutlass_moe_fp4"]
    made = function(
        a=tensor(VALUES),
        a1_gscale=None,
        a2_gscale=None,
        w1_alphas=None,
        w2_alphas=None,
        w1_fp4=Tensor([], (EXPERTS, 2 * WIDTH, WIDTH // 2), "uint8"),
        w1_blockscale=Tensor([], (1, 1, 1)),
        w2_fp4=Tensor([], (EXPERTS, WIDTH, WIDTH // 2), "uint8"),
        w2_blockscale=Tensor([], (1, 1, 1)),
        topk_weights=tensor(WEIGHTS),
        topk_ids=tensor(ids, "int32"),
        params=SimpleNamespace(
            num_experts=EXPERTS,
            hidden_size=WIDTH,
            intermediate_size_per_partition=WIDTH,
            expert_offsets=offsets,
            problem_sizes1=None,
            problem_sizes2=None,
            blockscale_offsets=None,
            to_gemm1_args=lambda: None,
            to_gemm2_args=lambda: None,
        ),
    )
    return list(made)


def true_sums(ids: Sequence[Sequence[int]]) -> list[float]:
    """Each token by the weights of its slots on this rank: expert e multiplies by e + 1, twice."""
    factors = [
        sum(weight * (expert + 1) ** 2 for expert, weight in zip(row, weights, strict=True) if expert >= 0)
        for row, weights in zip(ids, WEIGHTS, strict=True)
    ]
    return [value * factor for factor, row in zip(factors, VALUES, strict=True) for value in row]


FUNCTIONS = [(version, fp8_moe) for version in (*EARLY, *LATE)] + [(version, fp4_moe) for version in EARLY]


@pytest.mark.parametrize(("version", "moe"), FUNCTIONS)
def test_dropped_slots_add_nothing_after_the_patch_alone(version: str, moe: Moe) -> None:
    before, after = both("sglang", version, MAPS, MOE)
    for index_garbage in (10**6, -1, 0, 3):
        for ids in (IDS, ALL_ELSEWHERE, HERE):
            assert moe(after, ids, index_garbage) == true_sums(ids)
    assert moe(before, HERE, 10**6) == true_sums(HERE)
    with pytest.raises(IndexError):
        moe(before, IDS, 10**6)


@pytest.mark.parametrize(("version", "moe"), FUNCTIONS)
def test_zero_maps_would_not_do(version: str, moe: Moe) -> None:
    before = original("sglang", version, MOE)
    assert moe(before, IDS, 0) != true_sums(IDS)
    assert all(math.isnan(value) for value in moe(before, ALL_ELSEWHERE, 0))


# 0003: the input scales of the experts that are here


@dataclass(kw_only=True)
class Layer:
    """What a MoE layer of a release knows of its experts."""

    num_experts: int
    num_fused_shared_experts: int
    moe_ep_size: int
    moe_ep_rank: int
    layer_id: int = 0
    moe_tp_size: int = 1
    moe_tp_rank: int = 0
    intermediate_size_per_partition: int = 4
    group_size_div_factor: int = 1

    def __post_init__(self) -> None:
        self._num_global_routed = self.num_experts - self.num_fused_shared_experts
        self._num_local_routed = self._num_global_routed // self.moe_ep_size
        self._has_fused_shared = self.num_fused_shared_experts > 0
        self._expert_storage_rank = self.moe_ep_rank
        self.num_local_experts = self._num_local_routed + self.num_fused_shared_experts
        self.quant_config = SimpleNamespace(has_zp=True, linear_quant_method="converted already")
        self.w13_input_scale = tensor([(float(expert), 0.0) for expert in range(self.num_experts)])
        self.w2_input_scale = Tensor([100.0 + expert for expert in range(self.num_experts)], (self.num_experts,))


def mapped(version: str, layer: Layer) -> Layer:
    """The layer with the release's own mapping of experts."""
    text = original("sglang", version, LAYER)
    function = run([find(text, "FusedMoE._map_global_expert_id_to_local_expert_id")], {})
    layer._map_global_expert_id_to_local_expert_id = functools.partial(  # type: ignore[attr-defined]
        function["_map_global_expert_id_to_local_expert_id"], layer
    )
    return layer


def input_scales(text: str, layer: Layer) -> tuple[list[float], list[float]]:
    """The scales that a release chooses for the triton and cutlass backends."""
    loaded = find(text, "ModelOptNvFp4FusedMoEMethod.process_weights_after_loading")
    assert isinstance(loaded, ast.FunctionDef)
    arms = next(
        node
        for node in loaded.body
        if isinstance(node, ast.If) and ast.unparse(node.test).startswith("self.enable_flashinfer_cutlass_moe or")
    )
    method = SimpleNamespace(
        **dict.fromkeys([f"enable_flashinfer_{name}_moe" for name in ("cutlass", "trtllm", "cutedsl")])
    )
    names = run([arms], {"self": method, "layer": layer, "torch": lists.torch(0)})
    return list(names["w13_input_scale"]), list(names["w2_input_scale"])


@pytest.mark.parametrize("version", EARLY)
@pytest.mark.parametrize(
    ("rank", "shared", "here"), [(0, 0, [0, 1, 2, 3]), (1, 0, [4, 5, 6, 7]), (1, 1, [4, 5, 6, 7, 8])]
)
def test_scales_are_of_this_rank_after_the_patch_alone(version: str, rank: int, shared: int, here: list[int]) -> None:
    layer = mapped(
        version, Layer(num_experts=8 + shared, num_fused_shared_experts=shared, moe_ep_size=2, moe_ep_rank=rank)
    )
    before, after = both("sglang", version, SCALES, MODELOPT)
    assert [len(scales) for scales in input_scales(before, layer)] == [8 + shared, 8 + shared]
    assert layer.num_local_experts == len(here)
    assert input_scales(after, layer) == ([float(expert) for expert in here], [100.0 + expert for expert in here])


@pytest.mark.parametrize("version", EARLY)
def test_scales_of_one_rank_are_all_of_them(version: str) -> None:
    layer = mapped(version, Layer(num_experts=8, num_fused_shared_experts=0, moe_ep_size=1, moe_ep_rank=0))
    before, after = both("sglang", version, SCALES, MODELOPT)
    assert input_scales(before, layer) == input_scales(after, layer)


# 0004: the zero points of the experts that are here


class Rows:
    """A parameter that notes which rows were written, of as many as it has."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.written: dict[tuple[int, int], str] = {}
        self.data = self

    def __setitem__(self, key: int | tuple[int, slice], value: str) -> None:
        row, part = key if isinstance(key, tuple) else (key, slice(None))
        range(self.rows)[row]
        self.written[row, 0 if part.start is None else 1] = value


class Shards:
    """Zero points of a checkpoint's expert, which ``view`` splits into shards."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shards = range(0)

    def to(self, _device: str) -> "Shards":
        return self

    def size(self, _axis: int) -> int:
        return 1

    def view(self, *shape: int) -> "Shards":
        self.shards = range(shape[0] if shape[1] == -1 else shape[1])
        return self

    def __getitem__(self, key: int | tuple[slice, int]) -> str:
        return f"{self.name}/{self.shards[key[1] if isinstance(key, tuple) else key]}"


def load_zeros(text: str, layer: Layer, tp_rank: int, copies: dict[int, list[int]] | None = None) -> dict[str, Any]:
    """What the release's loader writes of the zero points of all experts, by the parameter's name."""
    group = SimpleNamespace(device="device")
    names = {
        "get_tp_group": lambda: group,
        "get_tensor_model_parallel_rank": lambda: tp_rank,
        "get_parallel": lambda: SimpleNamespace(tp_group=group, tp_rank=tp_rank),
        "get_global_expert_location_metadata": lambda: (
            None if copies is None else SimpleNamespace(logical_to_all_physical=lambda _, expert: copies[expert])
        ),
    }
    method = find(text, "MoeWNA16Method.get_weight_loader")
    assert isinstance(method, ast.FunctionDef)
    method.decorator_list = []
    load = run([find(text, "_rows_on_this_rank"), method], names)["get_weight_loader"](layer, None)
    parameters = {name: Rows(layer.num_local_experts) for name in ("w13_qzeros", "w2_qzeros")}
    for expert in range(layer.num_experts if copies is None else len(copies)):
        for name, shard in (("w13_qzeros", "w1"), ("w13_qzeros", "w3"), ("w2_qzeros", "w2")):
            load(parameters[name], Shards(f"{expert}.{shard}"), name, shard, expert)
    return {name: rows.written for name, rows in parameters.items()}


@pytest.mark.parametrize("version", (*EARLY, *LATE[:-1]))
@pytest.mark.parametrize("rank", [0, 1])
def test_zeros_go_to_rows_of_this_rank_after_the_patch_alone(version: str, rank: int) -> None:
    layer = mapped(version, Layer(num_experts=8, num_fused_shared_experts=0, moe_ep_size=2, moe_ep_rank=rank))
    before, after = both("sglang", version, ZEROS, WNA16)
    with pytest.raises(IndexError):
        load_zeros(before, layer, rank)
    with pytest.raises(IndexError):  # the row alone, were the shard right
        load_zeros(before, layer, layer.moe_tp_rank)
    assert load_zeros(after, layer, rank) == {
        "w13_qzeros": {(row, at): f"{row + 4 * rank}.{('w1', 'w3')[at]}/0" for row in range(4) for at in (0, 1)},
        "w2_qzeros": {(row, 0): f"{row + 4 * rank}.w2/0" for row in range(4)},
    }


@pytest.mark.parametrize("version", (*EARLY, *LATE[:-1]))
def test_zeros_go_to_every_copy_of_an_expert(version: str) -> None:
    layer = mapped(version, Layer(num_experts=8, num_fused_shared_experts=0, moe_ep_size=2, moe_ep_rank=1))
    copies = {0: [0, 4], 1: [1, 5, 6], 2: [2], 3: [3], 4: [7]}
    written = load_zeros(patched("sglang", version, ZEROS, WNA16), layer, 1, copies)
    assert written["w2_qzeros"] == {(0, 0): "0.w2/0", (1, 0): "1.w2/0", (2, 0): "1.w2/0", (3, 0): "4.w2/0"}


@pytest.mark.parametrize("version", ["0.5.10", "0.5.21"])
def test_zeros_without_expert_parallelism_stay_as_they_were(version: str) -> None:
    layer = mapped(version, Layer(num_experts=4, num_fused_shared_experts=0, moe_ep_size=1, moe_ep_rank=0))
    layer.moe_tp_size, layer.moe_tp_rank = 2, 1
    before, after = both("sglang", version, ZEROS, WNA16)
    assert load_zeros(before, layer, 1) == load_zeros(after, layer, 1)
