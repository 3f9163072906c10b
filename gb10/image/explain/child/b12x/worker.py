"""A compiler process of b12x, as b12x makes one, that compiles for the image: its keys, its machine's object files."""

import importlib
import importlib.metadata
import pickle
import sys
from collections.abc import Callable
from typing import Any

import torch

from gb10.image.explain.child.b12x import kernel_threads, planned
from gb10.image.explain.child.shared import gpu, triton_cache
from gb10.image.explain.child.shared.values import Row

HOST = "linux-aarch64"


def become(image: dict[str, Any], cuda: str) -> None:
    """Prepare this process. ``image``: its packages, and what Triton's keys name; ``cuda``: torch's release of CUDA."""
    sys.modules["b12x_planned"] = planned
    torch.version.cuda = cuda
    pool, compiler = _module("compile_pool"), _module("compiler")
    name_versions(compiler, image["site"])
    compiler._call_cute_compile = _for_host(compiler._call_cute_compile)
    triton_cache.answer_keys(image)
    triton_cache.listen()
    pool._initialize_worker(
        0, (12, 1), "GPU-0", gpu.NAME, gpu.UNITS, gpu.SHARED, 102400, pool.multiprocessing.Array("q", (0, 0))
    )


def _module(name: str) -> Any:
    """A module of b12x."""
    return importlib.import_module(f"b12x._lib.{name}")


def name_versions(compiler: Any, site: str) -> None:
    """Let b12x's keys name the versions of the image's packages, which lie in ``site``; empty for an absent one."""

    def version(name: str) -> str:
        found = next(iter(importlib.metadata.distributions(name=name, path=[site])), None)
        return found.version if found else ""

    compiler._distribution_version = version


def _for_host(compile_one: Callable[..., Any]) -> Callable[..., Any]:
    """Compile for the image's machine. b12x has computed the key by then; it names no host."""
    from cutlass.base_dsl.compiler import HostTarget

    return lambda compile_callable, *args, **named: compile_one(compile_callable[HostTarget(HOST)], *args, **named)


def compiled(payload: bytes, threads: dict[str, int]) -> tuple[list[Row], Exception | None]:
    """The rows of one job's kernels, and its error. Not every exception can be pickled: it is one that can.

    ``threads``: keys that must be among the kernels, and the threads of a block with which each must start.
    """
    pool, plans = _module("compile_pool"), _module("compile_plan")
    programs: tuple[Any, ...] = ()
    error: Exception | None = None
    try:
        programs = pool.describe_compilation(pickle.loads(payload)).programs  # noqa: S301 - of jobs.py
        if others := threads.keys() - {one.key for one in programs}:
            raise LookupError(f"b12x looks up {sorted(others)}, which is none of this job's kernels")
        plans.evict_planning_artifacts(programs)
        pool._run_job(payload, programs)
    except Exception as failed:
        error = RuntimeError(f"{type(failed).__name__}: {str(failed).strip()[:300]}")
    found = [(one, has_file(one)) for one in programs]
    absent = [one.name for one, kept in found if not kept]
    if absent and error is None:
        error = LookupError(f"b12x kept no file of {', '.join(absent)}")
    error = error or too_few_threads(threads)
    rows = [
        {"compiler": "cute", "kernel": f"b12x {one.name}", "folder": f"{one.key[:2]}/{one.key}"}
        for one, kept in found
        if kept and one.dialect == "cute"
    ]
    made, triton_cache.MADE[:] = [*rows, *triton_cache.MADE], []
    return made, error


def has_file(program: Any) -> bool:
    """Whether a kernel has a file; b12x itself also counts one in memory."""
    if program.dialect == "cute":
        return bool(_module("compiler")._valid_cute_compile_cache(program.key))
    return bool(_module("compile_plan").compiled_program_available(program))


def too_few_threads(threads: dict[str, int]) -> RuntimeError | None:
    """The error that b12x has on the device, for the first kernel with fewer threads than b12x starts it with."""
    path = _module("compiler")._cache_object_path
    for key, least in threads.items():
        most = kernel_threads.most(path(key).read_bytes()) if least else 0
        if most < least:
            return RuntimeError(f"a kernel can have {most} threads, and b12x starts it with {least}: b12x stops there")
    return None
