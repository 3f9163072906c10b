"""Give vLLM a memory reservation in GiB: every edit has one place, found exactly once, or nothing is written at all."""

import importlib.util
import sys
from pathlib import Path

OPTION = "gpu_memory_utilization_gb"
# File, the text that must stand there exactly once, what comes before it, what comes after it.
EDITS = (
    (
        "config/cache.py",
        "    gpu_memory_utilization: float = Field(default=",
        f"    {OPTION}: float | None = Field(default=None, gt=0)\n"
        '    """All memory of one GPU that this instance takes, in GiB. It replaces\n'
        "    gpu_memory_utilization, which then only says which fraction that is. For\n"
        "    machines whose CPU and GPU share their memory. kv_cache_memory_bytes goes\n"
        '    before it."""\n',
        "",
    ),
    (
        "config/cache.py",
        '            "gpu_memory_utilization",\n',
        "",
        f'            "{OPTION}",\n',
    ),
    (
        "engine/arg_utils.py",
        "    gpu_memory_utilization: float = CacheConfig.gpu_memory_utilization\n",
        "",
        f"    {OPTION}: float | None = None\n",
    ),
    (
        "engine/arg_utils.py",
        '        cache_group.add_argument(\n            "--kv-cache-memory-bytes"',
        f'        cache_group.add_argument("--gpu-memory-utilization-gb", **cache_kwargs["{OPTION}"])\n',
        "",
    ),
    (
        "engine/arg_utils.py",
        "            gpu_memory_utilization=self.gpu_memory_utilization,\n",
        "",
        f"            {OPTION}=self.{OPTION},\n",
    ),
    (
        "v1/worker/utils.py",
        "    requested_memory = math.ceil(\n"
        "        init_snapshot.total_memory * cache_config.gpu_memory_utilization\n"
        "    )\n",
        "",
        f"    if cache_config.{OPTION} is not None:\n"
        f"        requested_memory = int(cache_config.{OPTION} * 2**30)\n"
        "        if requested_memory > init_snapshot.total_memory:\n"
        "            raise ValueError(\n"
        f'                f"--gpu-memory-utilization-gb {{cache_config.{OPTION}}} is more "\n'
        '                f"than the {init_snapshot.total_memory / 2**30:.2f} GiB of the device"\n'
        "            )\n"
        "        cache_config.gpu_memory_utilization = (\n"
        "            requested_memory / init_snapshot.total_memory\n"
        "        )\n",
    ),
)


def main() -> None:
    """Edit all files, or none."""
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        sys.exit("vllm is not installed here")
    root = Path(found.submodule_search_locations[0])
    texts = {name: read(root / name) for name, *_ in EDITS}
    there = [name for name, text in texts.items() if OPTION in text]
    if there and len(there) < len(texts):
        sys.exit(f"half of it is there already, in {', '.join(there)}: start from an untouched vLLM")
    if there:
        print("--gpu-memory-utilization-gb is there already")
        return
    for name, anchor, before, after in EDITS:
        if texts[name].count(anchor) != 1:
            sys.exit(f"{root / name} has another shape: found {texts[name].count(anchor)} times, not once:\n{anchor}")
        texts[name] = texts[name].replace(anchor, f"{before}{anchor}{after}")
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    print("vllm serve --gpu-memory-utilization-gb GIB reserves a fixed amount of memory")


def read(path: Path) -> str:
    """A file of vLLM."""
    if not path.is_file():
        sys.exit(f"{path} is not there: this vLLM has another layout")
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
