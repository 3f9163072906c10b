"""The context: what every phase needs from the machine, opened once per command."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gb10.core.concurrency import Stop
from gb10.core.fields import Architecture
from gb10.core.forecast import Forecast
from gb10.core.host import Host, open_host
from gb10.core.machine import ARCHITECTURES
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT, Catalog

if TYPE_CHECKING:
    from gb10.containers.buildx.progress import Event
    from gb10.containers.connection import Engine
    from gb10.image.plan.values import Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Context(Host):
    """The host, the checkout's catalog, and how images are built."""

    catalog: Catalog
    builder: str | None = None
    """Your buildx builder; it builds instead of the engine."""
    cache_from: tuple[str, ...] = ()
    cache_to: tuple[str, ...] = ()
    """External build caches of an image, as buildx takes them."""
    stop: Stop = field(default_factory=Stop)
    """Set when work in another thread has failed: builds and downloads of this context end."""
    forecast: Forecast = field(default_factory=Forecast)
    """What is expected of the command's build; it knows no part where none was made."""
    on_build: "Callable[[Engine, Step, Event], None]" = lambda engine, step, event: None
    """What else hears of the events of BuildKit's builds: the build's log is the step's."""


def open_context(env: Mapping[str, str], *, verbosity: int) -> Context:
    """The context of this machine; raises UsageError when settings or store are unusable."""
    return on_host(open_host(env, verbosity=verbosity))


def on_host(host: Host) -> Context:
    """The context of a machine that is already opened."""
    return Context(env=host.env, store=host.store, reporter=host.reporter, catalog=Catalog(ROOT))


def build_architecture() -> Architecture:
    """The architecture of this machine, in Debian's spelling."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise UsageError(f"cannot build on {machine}", hint=f"supported build machines: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[machine]


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory() -> int:
    """Bytes of memory that are available now (Linux's own estimate)."""
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
