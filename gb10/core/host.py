"""The machine as a command opened it: environment, store, reporter."""

from collections.abc import Mapping
from dataclasses import dataclass

from gb10.core.config import unknown_variables, with_settings
from gb10.core.reporter import Reporter
from gb10.core.store import Store, open_store


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Environment with the settings in it, store, and what is shown to a person."""

    env: Mapping[str, str]
    store: Store
    reporter: Reporter


def open_host(env: Mapping[str, str], *, verbosity: int) -> Host:
    """This machine for one command; raises UsageError when settings or store are unusable."""
    settings = with_settings(env)
    reporter = Reporter(settings, verbosity=verbosity)
    for line in unknown_variables(env):
        reporter.say_once(line)
    return Host(env=settings, store=open_store(settings), reporter=reporter)
