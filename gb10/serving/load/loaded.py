"""What a load generator leaves: its streams as runs, its own result, how it failed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gb10.serving.guard.finding import Finding
from gb10.serving.load.canary_batch import CanaryBatch
from gb10.serving.load.results import LoadRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One load. ``runs`` judges its streams, once it is known whether the canaries were right."""

    runs: Callable[[bool], tuple[LoadRun, ...]]
    own: Mapping[str, object] = field(default_factory=dict)
    broken: str = ""
    beside: tuple[CanaryBatch, ...] = ()
    sure: Finding | None = None
    """The first collapse of a stream, which ended the load."""
