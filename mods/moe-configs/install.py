"""Write fused-MoE Triton configs for NVIDIA_GB10 where the installed SGLang looks, beside what it ships.

Each row is the engine's own default, from its own function, where that fits 101,376 bytes of shared memory. Where it
does not, the row is what SGLang 0.5.14 takes there on GPUs with little shared memory. Nothing was measured on a GB10.
"""

import ast
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

SHARED = 101_376  # bytes
DEVICE = "NVIDIA_GB10"
MOST = 131_072
Default = Callable[..., dict[str, int]]
# Experts, with fused shared ones, and their intermediate size on one GPU.
SHAPES = (
    *((128, width) for width in (384, 704, 768, 1024, 1536)),
    *((160, 384), (161, 384)),
    *((256, width) for width in (256, 512, 1024)),
    (288, 512),
    *((512, width) for width in (256, 512, 2688)),
)
TAGS = (",dtype=fp8_w8a8", ",dtype=fp8_w8a8,per_channel_quant=True")
INSTEAD = {
    "BLOCK_SIZE_M": 64,
    "BLOCK_SIZE_N": 128,
    "BLOCK_SIZE_K": 256,
    "GROUP_SIZE_M": 64,
    "num_warps": 4,
    "num_stages": 2,
}


def main() -> None:
    """Write a file for each shape whose defaults do not fit."""
    root = package("sglang")
    if root is None:
        sys.exit("sglang is not installed here")
    modules = sorted((root / "srt/layers/moe").glob("**/fused_moe_triton_config.py"))
    if len(modules) != 1:
        sys.exit(f"SGLang chooses its tiles in {len(modules)} modules below {root / 'srt/layers/moe'}, not in one")
    default = function(modules[0], "get_default_config")
    folder = modules[0].parent / "configs"
    target = folder / f"triton_{importlib.metadata.version('triton').replace('.', '_')}"
    written = kept = 0
    for experts, width in SHAPES:
        rows, replaced = seed(default, experts, width)
        for tag in TAGS if replaced else ():
            name = f"E={experts},N={width},device_name={DEVICE}{tag}.json"
            if any((place / name).exists() for place in (target, *folder.glob("triton_*"))):
                kept += 1
                continue
            target.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(json.dumps(rows, indent=1) + "\n", encoding="ascii")
            written += 1
    print(
        f"{target}: {written} files written, {kept} were there and stay; differs from the defaults in 0 rows that fit"
    )


def package(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    found = importlib.util.find_spec(name)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def function(module: Path, name: str) -> Default:
    """One function of a module, cut out: nothing else of it runs. Its few questions get the answers of a GB10."""
    nodes = [node for node in ast.parse(module.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    found = next((node for node in nodes if node.name == name), None)
    if found is None:
        sys.exit(f"{module} has no {name}: this SGLang chooses in another way")
    found.returns = None
    for argument in found.args.args:
        argument.annotation = None
    served = SimpleNamespace(enable_deterministic_inference=False)
    space = {"_is_hip": False, "get_global_server_args": lambda: served, "_use_low_smem_fp8_default": lambda: True}
    exec(compile(ast.Module(body=[found], type_ignores=[]), str(module), "exec"), space)  # noqa: S102
    return space[name]


def seed(default: Default, experts: int, width: int) -> tuple[dict[str, dict[str, int]], int]:
    """The rows by batch size, the first and the last of each run of equal ones; and how many runs were replaced.

    A look-up takes the nearest batch size, so it finds the right row for each one.
    """
    rows: dict[str, dict[str, int]] = {}
    replaced = 0
    last: dict[str, int] = {}
    for batch in range(1, MOST + 1):
        row = default(batch, experts, width, 4096, 8, "fp8_w8a8", False, None)
        if row != last:
            if last:
                rows[str(batch - 1)] = fitting(last)
            rows[str(batch)] = fitting(row)
            replaced += fitting(row) != row
        last = row
    return {**rows, str(MOST): fitting(last)}, replaced


def fitting(row: dict[str, int]) -> dict[str, int]:
    """The row itself where it fits."""
    edges = row["BLOCK_SIZE_M"] + row["BLOCK_SIZE_N"]
    return row if edges * row["BLOCK_SIZE_K"] * (row["num_stages"] - 1) <= SHARED else INSTEAD


if __name__ == "__main__":
    main()
