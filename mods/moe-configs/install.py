"""Write safe fused-MoE Triton configs for NVIDIA_GB10 where the installed engines look, beside what they ship.

Safe, not fast: nothing here was measured on a GB10. A tile fits when (M + N) * K * bytes * (stages - 1), and four bytes
a column more for block scales, is within the 101,376 bytes of shared memory that one block may have there.
"""

import importlib.metadata
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path

SHARED = 101_376  # bytes
ACCUMULATORS = 128  # a thread's at most: the tiles that spill much have 256 and more
DEVICE = "NVIDIA_GB10"
LADDER = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
# Experts, and their intermediate size on one GPU: shapes for which vLLM ships files for other GPUs, and that of
# Qwen3-235B-A22B on one (128, 1536).
SHAPES = (
    (128, 384),
    (128, 704),
    (128, 768),
    (128, 1536),
    (160, 384),
    (256, 256),
    (256, 512),
    (256, 1024),
    (512, 256),
    (512, 512),
)


@dataclass(frozen=True)
class Numbers:
    """What the weights are: the tag in the name, bytes of a number, the edge of a block that has its own scale."""

    tag: str
    size: int
    block: int = 0


KINDS = (Numbers("", 2), Numbers("fp8_w8a8", 1), Numbers("fp8_w8a8", 1, block=128))


def main() -> None:
    """Write for every engine that is here."""
    places = [*vllm_places(), *sglang_places()]
    if not places:
        sys.exit("neither vllm nor sglang is installed here")
    for target, look, space in places:
        written = kept = 0
        for name, kind in names(space):
            if any((folder / name).exists() for folder in look):
                kept += 1
                continue
            target.mkdir(exist_ok=True)
            (target / name).write_text(json.dumps(configs(kind), indent=1) + "\n", encoding="ascii")
            written += 1
        print(f"{target}: {written} files written, {kept} were there and stay; untuned: safe, not fast")


def vllm_places() -> list[tuple[Path, list[Path], str]]:
    """vLLM's one folder; block shapes are spelled without a space."""
    root = package("vllm")
    if root is None:
        return []
    folder = root / "model_executor/layers/fused_moe/configs"
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: this vLLM looks elsewhere")
    return [(folder, [folder], "")]


def sglang_places() -> list[tuple[Path, list[Path], str]]:
    """SGLang's folder of this version of Triton; a file of any other version is its fallback, and counts as shipped."""
    root = package("sglang")
    if root is None:
        return []
    found = {path.parent for path in (root / "srt/layers/moe").glob("**/configs/triton_*") if path.is_dir()}
    if len(found) != 1:
        sys.exit(f"SGLang keeps its configs in {len(found)} places below {root / 'srt/layers/moe'}, not in one")
    (folder,) = found
    version = importlib.metadata.version("triton").replace(".", "_")
    own = folder / f"triton_{version}"
    return [(own, sorted({own, *folder.glob("triton_*")}), " ")]


def package(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    found = importlib.util.find_spec(name)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def names(space: str) -> list[tuple[str, Numbers]]:
    """Every file's name as an engine spells it."""
    return [
        (f"E={experts},N={size},device_name={DEVICE}{tags(kind, space)}.json", kind)
        for experts, size in SHAPES
        for kind in KINDS
    ]


def tags(kind: Numbers, space: str) -> str:
    """The part of a name that says what the weights are."""
    dtype = f",dtype={kind.tag}" if kind.tag else ""
    return dtype + (f",block_shape=[{kind.block},{space}{kind.block}]" if kind.block else "")


def configs(kind: Numbers) -> dict[str, dict[str, int]]:
    """The whole ladder; it has no other keys, since SGLang takes each one for a batch size."""
    return {str(batch): config(batch, kind) for batch in LADDER}


def config(batch: int, kind: Numbers) -> dict[str, int]:
    """One tile: few rows for few tokens, and no wider than GB10 can hold."""
    rows = 16 if batch <= 64 else 32 if batch <= 256 else 64
    columns = 64 if batch <= 256 else 128
    depth = kind.block or 128 // kind.size
    made = {
        "BLOCK_SIZE_M": rows,
        "BLOCK_SIZE_N": columns,
        "BLOCK_SIZE_K": depth,
        "GROUP_SIZE_M": 1 if batch <= 256 else 16,
        "num_warps": 4,
        "num_stages": 3,
    }
    if shared(made, kind) > SHARED or rows * columns > ACCUMULATORS * 32 * made["num_warps"]:
        sys.exit(f"a tile does not fit: {made}")
    return made


def shared(tile: dict[str, int], kind: Numbers) -> int:
    """Bytes of shared memory of a tile, at most."""
    rows, columns = tile["BLOCK_SIZE_M"], tile["BLOCK_SIZE_N"]
    buffers = (rows + columns) * tile["BLOCK_SIZE_K"] * kind.size * (tile["num_stages"] - 1)
    return buffers + (4 * columns if kind.block else 0)


if __name__ == "__main__":
    main()
