"""BuildKit's cache: its size, pruning it, and forgetting single results of ours in it.

Of a user's engine, only results of a build that has just run are forgotten; the rest is the user's to prune.
"""

import csv
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import CacheAnswer, FreedAnswer, UsageAnswer
from gb10.errors import UsageError

if TYPE_CHECKING:
    import docker

HOUR: Final = 3600
FOLDER: Final = "exec.cachemount"
"""The type of a folder that builds share. Its description holds the whole command of the stage that made it first."""


def build_cache(engine: Engine) -> int:
    """Bytes of BuildKit's cache, layers of images that it shares left out. Raises EngineError."""
    with asking(engine) as sdk:
        records = _records(sdk)
    return sum(record.size for record in records if not record.shared)


def prune(engine: Engine, *, keep: int | None, age: float | None) -> int:
    """Let go of what was unused for ``age`` seconds, or of the longest unused down to ``keep`` bytes; bytes freed."""
    hours = None if age is None else f"{max(int(age) // HOUR, 1)}h"
    with asking(engine) as sdk:
        answer = sdk.api.prune_builds(filters={"until": hours} if hours else {}, keep_storage=keep, all=True)
        return FreedAnswer.model_validate(answer).freed


def forget(engine: Engine, wanted: Callable[[str], bool]) -> int:
    """Drop the results whose description, in BuildKit's words, is ``wanted``; bytes freed. Raises EngineError.

    What a build uses now, or an image shares, stays; so do folders that builds share, like the compile cache.
    """
    freed = 0
    with asking(engine) as sdk:
        for record in _records(sdk):
            kept = record.kind == FOLDER or record.used or record.shared
            if not kept and wanted(record.description):
                chosen: Any = {"id": record.id}  # docker's stubs know fewer filters than Docker
                freed += FreedAnswer.model_validate(sdk.api.prune_builds(filters=chosen, all=True)).freed
    return freed


def sent_contexts(names: Iterable[str]) -> set[str]:
    """The descriptions of contexts that were sent, ``context`` for the main one."""
    return {f"local source for {name}" for name in names}


def _records(sdk: "docker.DockerClient") -> tuple[CacheAnswer, ...]:
    return UsageAnswer.model_validate(sdk.api.df()).cache


Direction = Literal["from", "to"]
NEEDED: Final[Mapping[Direction, Mapping[str, tuple[str, ...]]]] = {
    "from": {"registry": ("ref",), "local": ("src",), "gha": (), "s3": ("bucket",), "azblob": ("account_url",)},
    "to": {"registry": ("ref",), "local": ("dest",), "gha": (), "s3": ("bucket",), "azblob": ("account_url",)},
}
"""By type, what must be named. ``inline`` is not here: it would write into the image's config, and so change it."""


def check_cache(direction: Direction, text: str) -> str:
    """The option's value as it is given; raises UsageError unless it is ``type=…`` with what that type needs."""
    option, known = f"--cache-{direction}", NEEDED[direction]
    try:
        fields = dict(field.partition("=")[::2] for field in next(csv.reader([text], strict=True), []))
    except csv.Error as error:
        raise UsageError(
            f"{option} is no list of name=value", where=str(error), hint=f"write {option} type=registry,ref=…"
        ) from error
    kind = fields.get("type", "")
    if kind not in known:
        raise UsageError(
            f"{option}: no type of cache that can be used in {_shown(fields)}",
            hint=f"write {option} type=registry,ref=… ; types: {', '.join(known)}",
        )
    absent = [name for name in known[kind] if not fields.get(name)]
    if absent:
        raise UsageError(f"{option} type={kind} needs {absent[0]}=…", hint=f"given: {_shown(fields)}")
    return text


def _shown(fields: Mapping[str, str]) -> str:
    """The names alone of what was given: values may be keys of an account."""
    return ", ".join(f"{name}=…" if name != "type" else f"type={value}" for name, value in fields.items()) or "nothing"
