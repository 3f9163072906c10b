"""Kernels that b12x compiles at a call, without a declaration: the function of b12x that does it becomes a job."""

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from gb10.image.explain.child.b12x import attention, worker
from gb10.image.explain.child.b12x.jobs import add_job, leave
from gb10.image.explain.child.shared import cute_compiles

VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
KEYS: dict[bytes, set[str]] = {}
"""The keys that b12x looked up while it called such a function, by the job."""
THREADS: dict[str, int] = {}
"""Threads of a block with which b12x asked whether a kernel can start, by the kernel's key."""


class Kernel(cute_compiles.Compiled):
    """A kernel that was not compiled; b12x may ask it for its arguments."""

    def generate_execution_args(self, *_: object, **__: object) -> tuple[None, None]:
        """None."""
        return None, None


def listen(site: str) -> None:
    """Note each kernel that b12x would compile. ``site``: the image's packages, whose versions its keys name."""
    from b12x._lib import compiler

    worker.name_versions(compiler, site)
    compiler._call_cute_compile = _note_kernel
    try:
        from b12x.moe.fused_moe import _impl as experts
    except ImportError:
        return
    experts._compiled_direct_micro_accepts_block_dim = _note_threads


def _note_kernel(
    compile_callable: Callable[..., Any], function: Any, *_: object, compile_spec: Any, cache_key: str
) -> Kernel:
    """In place of CuTe DSL's compiler."""
    name = compile_spec.kernel_id if compile_spec else type(function).__qualname__
    try:
        job = _job(sys._getframe(1)) or attention.job()
        KEYS.setdefault(add_job(job, name), set()).add(cache_key)
    except Exception as error:
        leave(name, error)
    return Kernel()


def _job(frame: FrameType | None) -> Any:
    """The job of the nearest function of b12x that was called with numbers and names alone; None without one."""
    from b12x._lib.compile_pool import CompileJob

    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        named = inspect.unwrap(getattr(sys.modules.get(module), code.co_name, _job))
        if module.startswith("b12x.") and getattr(named, "__code__", None) is code and not code.co_flags & VARIABLE:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            try:
                return CompileJob.create(f"{module}:{code.co_name}", **{name: frame.f_locals[name] for name in names})
            except (KeyError, TypeError, ValueError):  # a tensor, or something else that no job can have
                pass
        frame = frame.f_back
    return None


def _note_threads(compiled: Any, threads: int) -> bool:
    """In place of b12x's question whether the kernel can start: its file answers that, once it is compiled."""
    for program in compiled.__b12x_programs__:
        THREADS[program.key] = max(int(threads), THREADS.get(program.key, 0))
    return True


def threads_of(job: bytes) -> dict[str, int]:
    """The keys that the kernels of a job must have, each with the threads of a block that it must start with."""
    return {key: THREADS.get(key, 0) for key in KEYS.get(job, ())}
