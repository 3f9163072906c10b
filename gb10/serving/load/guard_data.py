"""The guard's data from the checkout: its limits, and the facts that canaries ask."""

from gb10.core.data_root import ROOT
from gb10.serving.guard.canary import Fact, read_facts
from gb10.serving.guard.limits import Limits, read_limits

FOLDER = ROOT / "recipes/guard"


def guard_limits() -> Limits:
    """The limits. Raises UsageError."""
    return read_limits((FOLDER / "limits.toml").read_text(encoding="utf-8"), "recipes/guard/limits.toml")


def guard_facts() -> tuple[Fact, ...]:
    """The facts. Raises UsageError."""
    return read_facts((FOLDER / "facts.toml").read_text(encoding="utf-8"), "recipes/guard/facts.toml")
