"""The machine as a command opened it: environment, store, reporter."""

from collections.abc import Mapping
from dataclasses import dataclass

from gb10.core.reporter import Reporter
from gb10.core.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Environment with the settings in it, store, and what is shown to a person."""

    env: Mapping[str, str]
    store: Store
    reporter: Reporter
