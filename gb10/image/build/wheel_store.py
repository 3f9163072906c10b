"""Compiled and grafted wheels in the store, each under its step's key."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gb10.core.host import Host
from gb10.core.store import Store, file_sha256, is_sealed
from gb10.errors import BuildError
from gb10.image.plan.values import Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A proven wheel in the store."""

    name: str
    key: str
    path: Path
    sha256: str
    hit: bool


def kept_wheel(host: Host, step: Step, make: Callable[[Path], None], *, rebuild: bool = False) -> Wheel:
    """The wheel of a step from the store, else made now; ``make`` fills and seals a fresh entry. One run at a time."""
    with wheel_lock(host, step):
        found = None if rebuild else found_wheel(host, step)
        return found or made_wheel(host.store, step, make)


def wheel_lock(host: Host, step: Step) -> AbstractContextManager[None]:
    """What a run holds while it makes the wheel of a step."""
    return host.store.locked(f"wheel-{step.key}", host.reporter.waiting_for(step.name))


def found_wheel(host: Host, step: Step) -> Wheel | None:
    """The store's wheel of a step if it is whole. A damaged one is reported; its lock must be held."""
    path = sealed_wheel(host.store, step.key)
    if path is None:
        if host.store.entry("wheels", step.key).exists():
            host.reporter.say(f"{step.name} is damaged in the store: making it again")
        return None
    host.reporter.hit(step.name)
    return _wheel(step, path, hit=True)


def made_wheel(store: Store, step: Step, make: Callable[[Path], None]) -> Wheel:
    """The wheel of a step, made now: ``make`` fills and seals a fresh entry. Its lock must be held."""
    entry = store.entry("wheels", step.key)
    store.replace(entry, make)
    return _wheel(step, wheel_file(entry), hit=False)


def _wheel(step: Step, path: Path, *, hit: bool) -> Wheel:
    return Wheel(name=step.name, key=step.key, path=path, sha256=file_sha256(path), hit=hit)


def sealed_wheel(store: Store, key: str) -> Path | None:
    """The store's wheel of a key, if it exists and is whole."""
    found = sorted(store.entry("wheels", key).glob("*.whl"))
    return found[0] if len(found) == 1 and is_sealed(found[0]) else None


def wheel_file(entry: Path) -> Path:
    """The one wheel of a fresh entry; raises BuildError when the compile stage wrote none or several."""
    found = sorted(entry.glob("*.whl"))
    if len(found) != 1:
        raise BuildError(f"the compile stage wrote {len(found)} wheels, not one", where=str(entry))
    return found[0]
