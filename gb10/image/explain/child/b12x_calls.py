"""What b12x compiles at a call, without a declaration: its own function that does it, with the same arguments, is a job."""

import inspect
import sys

import cute_asked

VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
JOBS = {}
"""The keys that b12x looked up while it called such a function, by the job."""
THREADS = {}
"""Threads of a block with which b12x asked whether a kernel can start, by the kernel's key."""


class Kernel(cute_asked.Compiled):
    """One that was not compiled; b12x may ask it for its arguments."""

    def generate_execution_args(self, *_, **__):
        """None."""
        return None, None


def listen(site):
    """Note each kernel that b12x would compile. ``site``: where the packages lie that its keys name."""
    import b12x_worker
    from b12x._lib import compiler

    b12x_worker.name_versions(compiler, site)
    compiler._call_cute_compile = _noted
    try:
        from b12x.moe.fused_moe import _impl as experts
    except ImportError:
        return
    experts._compiled_direct_micro_accepts_block_dim = _starts


def _noted(compile_callable, function, *_, compile_spec, cache_key):
    """In place of CuTe DSL's compiler."""
    import b12x_attention
    import b12x_programs

    name = compile_spec.kernel_id if compile_spec else type(function).__qualname__
    try:
        job = _job(sys._getframe(1)) or b12x_attention.job()
        JOBS.setdefault(b12x_programs.ask(job, name), set()).add(cache_key)
    except Exception as error:
        b12x_programs.leave(name, error)
    return Kernel()


def _job(frame):
    """Of the nearest function of b12x that was called with numbers and names alone."""
    from b12x._lib.compile_pool import CompileJob

    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        named = inspect.unwrap(getattr(sys.modules.get(module), code.co_name, None))
        if module.startswith("b12x.") and getattr(named, "__code__", None) is code and not code.co_flags & VARIABLE:
            try:
                return CompileJob.create(f"{module}:{code.co_name}", **_arguments(frame))
            except (KeyError, TypeError, ValueError):  # a tensor, or something else that no job can have
                pass
        frame = frame.f_back
    return None


def _arguments(frame):
    code = frame.f_code
    return {name: frame.f_locals[name] for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}


def _starts(compiled, threads):
    """Whether the kernel can start is answered when it is compiled, by its own file."""
    for program in compiled.__b12x_programs__:
        THREADS[program.key] = max(int(threads), THREADS.get(program.key, 0))
    return True


def wanted(job):
    """What the kernels of a job have to be: the threads asked for, by key."""
    return {key: THREADS.get(key, 0) for key in JOBS.get(job, ())}
