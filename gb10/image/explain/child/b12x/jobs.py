"""The jobs of b12x that the image needs, and their outcome: a job is a function of b12x with numbers and names.

b12x declares what a call needs, and keeps each kernel as an object file by a key of its sources, the packages, the
device and the environment.
"""

import pickle
from typing import Any

from gb10.image.explain.child.shared.values import Row

REQUESTED: dict[bytes, str] = {}
"""Pickled jobs; the component that needs each."""
MADE: list[Row] = []
LEFT: list[Row] = []
"""Kernels that the image does not have ready, and why."""


def add_job(job: Any, component: str) -> bytes:
    """Note one job; returns it pickled, as a compiler process gets it."""
    payload = pickle.dumps(job, protocol=5)
    REQUESTED.setdefault(payload, component)
    return payload


def jobs_of(plan: Any) -> tuple[Any, ...]:
    """The jobs of a plan of b12x's, with the configuration that it has when nobody tuned it."""
    from b12x.preparation.device import detect_device

    device = detect_device("cuda:0")
    found = plan.contract.configure(plan.query, device=device.identity, override=plan.override)
    jobs: tuple[Any, ...] = plan._compile_jobs(found.default if found.pinned is None else found.pinned, device)
    return jobs


def leave(component: str, error: BaseException) -> None:
    """Note that the image will not have a kernel of this component."""
    row = {"what": f"CuTe DSL b12x {component}", "why": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    if row not in LEFT:
        LEFT.append(row)
