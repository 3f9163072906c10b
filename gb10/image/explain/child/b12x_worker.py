"""A compiler process of b12x, as b12x makes one, that compiles for the image: its key, its machine's object files."""

import importlib
import importlib.metadata
import pickle

HOST = "linux-aarch64"


def become(image, cuda):
    """``image``: where its packages lie and what Triton's keys name; ``cuda``: torch's release of CUDA."""
    import spark
    import torch
    import triton_kept

    torch.version.cuda = cuda
    pool, compiler = (importlib.import_module(f"b12x._lib.{name}") for name in ("compile_pool", "compiler"))
    name_versions(compiler, image["site"])
    compiler._call_cute_compile = _crossed(compiler._call_cute_compile)
    triton_kept.answer_keys(image)
    triton_kept.listen()
    pool._initialize_worker(
        0, (12, 1), "GPU-0", spark.NAME, spark.UNITS, spark.SHARED, 102400, pool.multiprocessing.Array("q", (0, 0))
    )


def name_versions(compiler, site):
    """b12x's keys name the versions of the image's packages, which lie in ``site``."""
    compiler._distribution_version = lambda name: _version(name, site)


def _version(name, site):
    """As b12x asks for it: empty for a package that is not there."""
    found = next(iter(importlib.metadata.distributions(name=name, path=[site])), None)
    return found.version if found else ""


def _crossed(compile_one):
    """The object file is for the image's machine; the key, which b12x has by now, names no host."""
    from cutlass.base_dsl.compiler import HostTarget

    return lambda compile_callable, *args, **named: compile_one(compile_callable[HostTarget(HOST)], *args, **named)


def compiled(payload, wanted):
    """The rows of one job's kernels; and the error, if it did not end well (not every error can leave a process).

    ``wanted``: keys that have to be among them, and the threads of a block with which each has to start.
    """
    import triton_kept

    pool, plans = (importlib.import_module(f"b12x._lib.{name}") for name in ("compile_pool", "compile_plan"))
    programs, error = (), None
    try:
        programs = pool.describe_compilation(pickle.loads(payload)).programs
        if others := wanted.keys() - {one.key for one in programs}:
            raise LookupError(f"b12x looks up {sorted(others)}, which is none of this job's kernels")
        plans.evict_planning_artifacts(programs)
        pool._run_job(payload, programs)
    except Exception as failed:
        error = RuntimeError(f"{type(failed).__name__}: {str(failed).strip()[:300]}")
    found = [(one, is_kept(one)) for one in programs]
    absent = [one.name for one, kept in found if not kept]
    if absent and error is None:
        error = LookupError(f"b12x kept no file of {', '.join(absent)}")
    error = error or cannot_start(wanted)
    rows = [
        {"compiler": "cute", "kernel": f"b12x {one.name}", "folder": f"{one.key[:2]}/{one.key}"}
        for one, kept in found
        if kept and one.dialect == "cute"
    ]
    made, triton_kept.MADE[:] = [*rows, *triton_kept.MADE], []
    return made, error


def is_kept(program):
    """Whether there is a file of it: b12x itself also counts what is in memory alone."""
    if program.dialect == "cute":
        return bool(importlib.import_module("b12x._lib.compiler")._valid_cute_compile_cache(program.key))
    return importlib.import_module("b12x._lib.compile_plan").compiled_program_available(program)


def cannot_start(wanted):
    """The error of b12x on the device, for the first kernel that has fewer threads than b12x starts it with."""
    import kernel_threads

    path = importlib.import_module("b12x._lib.compiler")._cache_object_path
    for key, least in wanted.items():
        most = kernel_threads.most(path(key).read_bytes()) if least else 0
        if most < least:
            return RuntimeError(f"a kernel can have {most} threads, and b12x starts it with {least}: b12x stops there")
    return None
