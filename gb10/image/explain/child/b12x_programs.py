"""b12x's kernels of CuTe DSL are compiled by b12x's own workers, without a device, under the names that it looks up.

b12x declares what a call needs, and keeps each kernel as an object file by a key of its sources, the packages, the
device and the environment. The declarations are taken when the engine makes them.
"""

import base64
import os
import pickle
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

ASKED = {}
"""Jobs of b12x, pickled; the component that asked."""
MADE = []
LEFT = []
WORKER = 3072
"""MiB of memory for one compiler: torch, CuTe DSL and a kernel."""


def listen(site):
    """Take what b12x would compile at its first calls, if the image has it. ``site``: the image's packages."""
    try:
        from b12x.preparation import types
    except ImportError:
        return
    import b12x.preparation.session  # sets the preparer that is replaced
    import b12x_calls

    types._set_lazy_preparer(_prepare)
    b12x_calls.listen(site)


def _prepare(plan):
    """Note the jobs of a plan's default configuration; nothing of it runs."""
    from shape_ops import Enough

    for part in plan.variants.values() if hasattr(plan, "variants") else (plan,):
        try:
            for job in jobs(part):
                ask(job, part.component_id)
        except Exception as error:
            leave(part.component_id, error)
    raise Enough


def ask(job, component):
    """One job; returns it as its processes get it."""
    payload = pickle.dumps(job, protocol=5)
    ASKED.setdefault(payload, component)
    return payload


def jobs(plan):
    """What b12x compiles for a plan that nobody tuned."""
    from b12x.preparation.device import detect_device

    device = detect_device("cuda:0")
    found = plan.contract.configure(plan.query, device=device.identity, override=plan.override)
    return plan._compile_jobs(found.default if found.pinned is None else found.pinned, device)


def leave(component, error):
    """A kernel that the image does not have ready."""
    row = {"what": f"CuTe DSL b12x {component}", "why": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    if row not in LEFT:
        LEFT.append(row)


def make(request):
    """Compile what was asked for, as many at once as cores and memory allow; a job whose process died again alone."""
    for job in _compile(request, [*ASKED], min(os.cpu_count(), len(ASKED), _room())) if ASKED else ():
        if _compile(request, [job], 1):
            leave(ASKED[job], BrokenProcessPool("its compiler's process died twice"))


def _room():
    """How many compilers the memory is enough for that is available now."""
    import room

    return max(1, room.available() // WORKER)


def _compile(request, jobs, many):
    """Take the rows of these jobs; the jobs whose process died, for want of memory as a rule."""
    import b12x_calls
    import b12x_worker
    from b12x._lib.compile_pool import multiprocessing

    given = (request["image"], request["cuda"])
    context = multiprocessing.get_context("spawn")  # as b12x does
    died = []
    with ProcessPoolExecutor(many, context, b12x_worker.become, given) as pool:
        given = [(job, b12x_calls.wanted(job)) for job in jobs]
        for job, future in [(one[0], _submitted(pool, b12x_worker.compiled, *one)) for one in given]:
            if isinstance(future.exception(), BrokenProcessPool):
                died.append(job)
            else:
                _take(job, future)
    return died


def _submitted(pool, work, *given):
    """A pool that is broken already says so as those do that ran in it."""
    try:
        return pool.submit(work, *given)
    except BrokenProcessPool as error:
        future = Future()
        future.set_exception(error)
        return future


def _take(job, future):
    """The rows of one job's kernels; the error of one that did not end well."""
    rows, error = future.result() if future.exception() is None else ([], future.exception())
    known = {row["folder"] for row in MADE}
    lookup = base64.b64encode(job).decode()
    MADE.extend({"lookup": lookup, **row} for row in rows if row["folder"] not in known)
    if error:
        leave(ASKED[job], error)
