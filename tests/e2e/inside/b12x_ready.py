"""In an image of vLLM, without a GPU: b12x's own look-up computes the key of each kernel of the image, and loads it.

b12x takes the device's answers as its own compiler processes do. CuTe DSL may not compile.
"""

import base64
import importlib
import importlib.metadata
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

GROUP, PLUGIN = "vllm.general_plugins", "gb10_b12x"
BAN = "CuTe DSL compiles"


def check(rows: list[dict[str, Any]], root: Path) -> dict[str, object]:
    """Run the job that led to each kernel as at its first call; then one job without the image's kernels.

    ``rows``: of the image's report; ``root``: where its kernels lie.
    """
    importlib.import_module(PLUGIN).FOLDER = root
    for plugin in importlib.metadata.entry_points(group=GROUP, name=PLUGIN):
        plugin.load()()
    compiler, pool = (importlib.import_module(f"b12x._lib.{name}") for name in ("compiler", "compile_pool"))
    pool._initialize_worker(0, (12, 1), "GPU-0", "NVIDIA GB10", 48, 101376, 102400, multiprocessing.Array("q", (0, 0)))
    compiler._call_cute_compile = forbidden
    hits = compiler.compile_cache_info()["disk_cache_hits"]
    wrong = []
    for row in rows:
        keys, error = first_call(pool, row["lookup"])
        key = Path(row["folder"]).name
        if error:
            wrong.append(f"{row['kernel']}: {error}")
        elif key not in keys:
            wrong.append(f"{row['kernel']}: b12x looks for {keys}, the image has {key}")
    wrong += [f"{path}: not for every user" for path in root.rglob("*.*") if not path.stat().st_mode & 0o004]
    loaded = compiler.compile_cache_info()["disk_cache_hits"] - hits
    compiler._load_cute_compile_from_disk = lambda _: None
    _, refused = first_call(pool, rows[0]["lookup"])
    names = sorted({row["kernel"] for row in rows})
    told = {"kernels": len(rows), "names": names, "loaded": loaded, "wrong": wrong}
    return {**told, "refused": BAN if BAN in refused else refused}


def forbidden(*_: object, **__: object) -> None:
    """Stands for CuTe DSL's compiler."""
    raise RuntimeError(BAN)


def first_call(pool: Any, job: str) -> tuple[list[str], str]:
    """The keys that b12x plans to look up for a job; the error of what it does then."""
    payload = base64.b64decode(job)
    programs = pool.describe_compilation(pickle.loads(payload)).programs  # noqa: S301 - of the image's own report
    importlib.import_module("b12x._lib.program_cache").evict_unretained(())  # as in a process that has none in memory
    try:
        pool._run_job(payload, programs)
    except RuntimeError as error:
        return [one.key for one in programs], str(error)
    return [one.key for one in programs], ""
