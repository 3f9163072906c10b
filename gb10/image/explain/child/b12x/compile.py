"""b12x's kernels of CuTe DSL, compiled by b12x's own workers, without a device, under the names that it looks up."""

import base64
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NoReturn

from gb10.image.explain.child.b12x import calls, worker
from gb10.image.explain.child.b12x.jobs import LEFT, MADE, REQUESTED, add_job, jobs_of, leave
from gb10.image.explain.child.shared.shape_ops import Enough
from gb10.image.explain.child.shared.values import Request, Row
from gb10.inside.compile.compile_slots import available

__all__ = ["LEFT", "MADE", "REQUESTED", "listen", "make"]

WORKER = 3072
"""MiB of memory for one compiler: torch, CuTe DSL and a kernel."""
Rows = tuple[list[Row], BaseException | None]


def listen(site: str) -> None:
    """Note what b12x would compile at its first calls, if the image has it. ``site``: the image's packages."""
    try:
        from b12x.preparation import types
    except ImportError:
        return
    import b12x.preparation.session  # noqa: F401 - sets the preparer that is replaced

    types._set_lazy_preparer(_prepare)
    calls.listen(site)


def _prepare(plan: Any) -> NoReturn:
    """Note the jobs of a plan's default configuration, and end the call: there is nothing to run."""
    for part in plan.variants.values() if hasattr(plan, "variants") else (plan,):
        try:
            for job in jobs_of(part):
                add_job(job, part.component_id)
        except Exception as error:
            leave(part.component_id, error)
    raise Enough


def make(request: Request) -> None:
    """Run the jobs, as many at once as cores and memory allow. A job whose process died runs once more, alone."""
    if not REQUESTED:
        return
    at_once = min(os.cpu_count() or 1, len(REQUESTED), max(1, available() // WORKER))
    for job in _compile(request, [*REQUESTED], at_once):
        if _compile(request, [job], 1):
            leave(REQUESTED[job], BrokenProcessPool("its compiler's process died twice"))


def _compile(request: Request, jobs: Iterable[bytes], at_once: int) -> list[bytes]:
    """Note the kernels of these jobs. The jobs whose process died, most often for want of memory."""
    from b12x._lib.compile_pool import multiprocessing

    context = multiprocessing.get_context("spawn")  # as b12x does
    died = []
    with ProcessPoolExecutor(at_once, context, worker.become, (request["image"], request["cuda"])) as pool:
        needs = [(job, calls.threads_of(job)) for job in jobs]
        for job, future in [(job, _submitted(pool, worker.compiled, job, threads)) for job, threads in needs]:
            if isinstance(future.exception(), BrokenProcessPool):
                died.append(job)
            else:
                _note_outcome(job, future)
    return died


def _submitted(pool: ProcessPoolExecutor, work: Callable[..., Rows], *given: Any) -> Future[Rows]:
    """The future of a job. A pool that is broken already gives one with that error."""
    try:
        return pool.submit(work, *given)
    except BrokenProcessPool as error:
        future: Future[Rows] = Future()
        future.set_exception(error)
        return future


def _note_outcome(job: bytes, future: Future[Rows]) -> None:
    """Note the rows of one job's kernels, and its error if it failed."""
    failed = future.exception()
    rows, error = ([], failed) if failed else future.result()
    known = {row["folder"] for row in MADE}
    lookup = base64.b64encode(job).decode()
    MADE.extend({"lookup": lookup, **row} for row in rows if row["folder"] not in known)
    if error:
        leave(REQUESTED[job], error)
