"""The machine as a command opened it: environment, store, talk."""

from collections.abc import Mapping
from dataclasses import dataclass

from gb10.core.store import Store
from gb10.core.talk import Talk


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Environment with the settings in it, store, and what is shown to a person."""

    env: Mapping[str, str]
    store: Store
    talk: Talk
