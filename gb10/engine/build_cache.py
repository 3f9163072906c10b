"""BuildKit's cache of the embedded engine: its size, and pruning it. A user's engine is the user's to prune."""

from collections.abc import Mapping
from typing import Any, Final

from gb10.engine.connection import Engine, asking

HOUR: Final = 3600


def build_cache(engine: Engine) -> int:
    """Bytes of BuildKit's cache, layers of images that it shares left out. Raises EngineError."""
    with asking(engine) as sdk:
        records: list[Mapping[str, Any]] = sdk.api.df().get("BuildCache") or []
    return sum(int(record["Size"]) for record in records if not record.get("Shared"))


def prune(engine: Engine, *, keep: int | None, age: float | None) -> int:
    """Let go of what was unused for ``age`` seconds, or of the longest unused down to ``keep`` bytes; bytes freed."""
    hours = None if age is None else f"{max(int(age) // HOUR, 1)}h"
    with asking(engine) as sdk:
        freed: Mapping[str, Any] = sdk.api.prune_builds(
            filters={"until": hours} if hours else {}, keep_storage=keep, all=True
        )
    return int(freed.get("SpaceReclaimed") or 0)
