"""The workshop: what every phase needs from the machine, opened once per command."""

import os
import platform
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gb10.catalog import ROOT, Catalog
from gb10.config import with_settings
from gb10.errors import UsageError
from gb10.schema import Architecture
from gb10.store import Store, open_store
from gb10.talk import Talk

MACHINES: Mapping[str, Architecture] = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """Environment, store, talk and checkout."""

    env: Mapping[str, str]
    store: Store
    talk: Talk
    catalog: Catalog


def open_workshop(env: Mapping[str, str], *, verbosity: int) -> Workshop:
    """The workshop of this machine; raises UsageError when settings or store are unusable."""
    settings = with_settings(env)
    talk = Talk(settings, verbosity=verbosity)
    return Workshop(env=settings, store=open_store(settings), talk=talk, catalog=Catalog(ROOT))


def build_architecture() -> Architecture:
    """The architecture of this machine, in Debian's spelling."""
    machine = platform.machine()
    if machine not in MACHINES:
        raise UsageError(f"cannot build on {machine}", hint=f"supported build machines: {', '.join(MACHINES)}")
    return MACHINES[machine]


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


def write_whole(path: Path, text: str) -> None:
    """Write a small file of the store: whole or not at all, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
