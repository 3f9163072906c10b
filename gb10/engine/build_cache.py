"""BuildKit's cache: its size, pruning it, and forgetting single results of ours in it.

Of a user's engine, only results of a build that has just run are forgotten; the rest is the user's to prune.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import docker

from gb10.engine.connection import Engine, asking

HOUR: Final = 3600
FOLDER: Final = "exec.cachemount"
"""The type of a folder that builds share. Its description holds the whole command of the stage that made it first."""


def build_cache(engine: Engine) -> int:
    """Bytes of BuildKit's cache, layers of images that it shares left out. Raises EngineError."""
    with asking(engine) as sdk:
        records = _records(sdk)
    return sum(int(record["Size"]) for record in records if not record.get("Shared"))


def prune(engine: Engine, *, keep: int | None, age: float | None) -> int:
    """Let go of what was unused for ``age`` seconds, or of the longest unused down to ``keep`` bytes; bytes freed."""
    hours = None if age is None else f"{max(int(age) // HOUR, 1)}h"
    with asking(engine) as sdk:
        freed: Mapping[str, Any] = sdk.api.prune_builds(
            filters={"until": hours} if hours else {}, keep_storage=keep, all=True
        )
    return int(freed.get("SpaceReclaimed") or 0)


def forget(engine: Engine, wanted: Callable[[str], bool]) -> int:
    """Drop the results whose description, in BuildKit's words, is ``wanted``; bytes freed. Raises EngineError.

    What a build uses now, or an image shares, stays; so do folders that builds share, like the compile cache.
    """
    freed = 0
    with asking(engine) as sdk:
        for record in _records(sdk):
            kept = record["Type"] == FOLDER or record["InUse"] or record["Shared"]
            if not kept and wanted(str(record["Description"])):
                chosen: Any = {"id": record["ID"]}  # docker's stubs know fewer filters than Docker
                freed += int(sdk.api.prune_builds(filters=chosen, all=True).get("SpaceReclaimed") or 0)
    return freed


def sent(names: Iterable[str]) -> set[str]:
    """The descriptions of contexts that were sent, ``context`` for the main one."""
    return {f"local source for {name}" for name in names}


def _records(sdk: docker.DockerClient) -> list[Mapping[str, Any]]:
    return sdk.api.df().get("BuildCache") or []
