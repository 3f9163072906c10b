"""External build caches: what buildx's --cache-from and --cache-to may say, read before anything runs. Pure."""

import csv
from collections.abc import Mapping
from typing import Final, Literal

from gb10.errors import UsageError

Direction = Literal["from", "to"]
NEEDED: Final[Mapping[Direction, Mapping[str, tuple[str, ...]]]] = {
    "from": {"registry": ("ref",), "local": ("src",), "gha": (), "s3": ("bucket",), "azblob": ("account_url",)},
    "to": {"registry": ("ref",), "local": ("dest",), "gha": (), "s3": ("bucket",), "azblob": ("account_url",)},
}
"""By type, what must be named. ``inline`` is not here: it would write into the image's config, and so change it."""
IMPORT: Final = "importing cache manifest"
"""How BuildKit names the step of an import, which may fail without failing the build."""
EXPORT: Final = "exporting cache to"
"""How BuildKit names the step of an export."""


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
