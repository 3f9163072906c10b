"""The words of each engine release that the checkout knows: recipes/flags/ENGINE-RELEASE.json."""

import difflib
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.installation import ROOT
from gb10.models.lint.engine_source import EngineWords

FLAGS: Final = ROOT / "recipes/flags"
SWITCH: Final = re.compile("^--(no|disable|enable)-")


@cache
def known_words(engine: str, release: str) -> EngineWords | None:
    """The words of a release; None when the checkout has none of it."""
    path = FLAGS / f"{engine}-{release}.json"
    if "/" in release or not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return EngineWords(
        options={name: tuple(choices) for name, choices in found["options"].items()},
        keys={name: tuple(keys) for name, keys in found["keys"].items()},
        environment=frozenset(found["environment"]),
    )


def document(engine: str, release: str, words: EngineWords) -> str:
    """The words as a file: sorted, an option per line."""
    found = {
        "engine": engine,
        "release": release,
        "options": {name: list(words.options[name]) for name in sorted(words.options)},
        "keys": {name: list(words.keys[name]) for name in sorted(words.keys)},
        "environment": sorted(words.environment),
    }
    return f"{json.dumps(found, indent=1)}\n"


def releases(engine: str) -> list[str]:
    """The releases of an engine that the checkout knows, the newest last."""
    found = (path.stem.removeprefix(f"{engine}-") for path in FLAGS.glob(f"{engine}-*.json"))
    return sorted(filter(_is_version, found), key=Version)


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def declared(words: EngineWords, option: str) -> str | None:
    """The name under which an engine declares an option; None when it does not have it.

    Its parser takes underscores, the opposite of a switch, ``--json-option.key``, and the unique start of a name.
    """
    if not option.startswith("--"):
        name = option.partition(".")[0]  # -cc.mode sets a field, as --compilation-config.mode does
        return name if name in words.options else None
    name = option.partition(".")[0].replace("_", "-")
    stem = SWITCH.sub("", name)
    opposites = [f"--{prefix}{stem}" for prefix in ("", "no-", "enable-", "disable-")] if stem != name else []
    found = next((one for one in (name, *opposites) if one in words.options), None)
    if found:
        return found
    longer = [one for one in words.options if one.startswith(name)]
    return longer[0] if len(longer) == 1 else None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of some names; None when none is close."""
    close = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return close[0] if close else None
