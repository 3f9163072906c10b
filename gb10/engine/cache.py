"""BuildKit's cache: what it holds, and dropping what later builds can do without."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from gb10.engine.connection import Engine, client


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheRecord:
    """One snapshot of the build cache; ``size`` in bytes."""

    id: str
    kind: str
    description: str
    size: int
    in_use: bool


def cache_records(engine: Engine) -> tuple[CacheRecord, ...]:
    """Everything in the engine's build cache."""
    with closing(client(engine)) as sdk:
        found = sdk.api.df()["BuildCache"] or ()
    return tuple(
        CacheRecord(
            id=one["ID"], kind=one["Type"], description=one["Description"], size=one["Size"], in_use=one["InUse"]
        )
        for one in found
    )


def drop_records(engine: Engine, records: tuple[CacheRecord, ...]) -> int:
    """Remove these records, nothing else; returns the bytes freed.

    What was made from them stays cached by their keys: after ``COPY --link`` a stage's own snapshot can go.
    """
    freed = 0
    with closing(client(engine)) as sdk:
        for record in records:
            # The stubs know two of the filters; the API has all of BuildKit's fields (Engine API, POST /build/prune).
            chosen = cast("Any", {"id": [record.id]})
            freed += int(sdk.api.prune_builds(filters=chosen, all=True)["SpaceReclaimed"] or 0)
    return freed
