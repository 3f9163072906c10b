"""What an image says of itself: engine, releases of its distributions, patches. From plan.json, or from names. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ENGINES: Final = ("vllm", "sglang")
PLACE: Final = "/usr/share/gb10/plan.json"
INSTALLED: Final = re.compile(r"(?P<name>[A-Za-z0-9][\w.]{0,99})-(?P<version>[0-9][\w.!+]{0,60})\.dist-info/?")
NUMBER: Final = re.compile(r"^(\d{4})-")
MOST: Final = 20_000
"""Names of an image that are looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRecord:
    """An image. ``patches`` are named as in the checkout, without titles: ``vllm/0006``."""

    engine: str | None
    release: str | None
    versions: Mapping[str, str]
    """Of its distributions, by name."""
    patches: frozenset[str] = frozenset()
    slim: tuple[str, ...] = ()
    """The slimming rules that were applied to it."""
    arch: str | None = None
    key: str | None = None
    """The key of its plan; None for an image that gb10 did not build."""
    source: str = field(default="its plan.json")

    @property
    def cuda(self) -> str | None:
        """CUDA's release in the image (``13.0``)."""
        found = self.versions.get("nvidia-cuda-runtime") or self.versions.get("cuda-toolkit")
        return ".".join(found.split(".")[:2]) if found else None


def read_plan(text: str) -> ImageRecord | None:
    """The record of a plan.json; None for what is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != "gb10/plan/v1":
        return None
    engine, release = _text(found.get("engine")), _text(found.get("version"))
    versions = versions_of_wheels(_files(found))
    return ImageRecord(
        engine=engine,
        release=release,
        versions={**versions, **({engine: release} if engine and release else {})},
        patches=frozenset(_patches(found)),
        slim=tuple(name for rule in _dicts(found.get("slim")) if (name := _text(rule.get("name")))),
        arch=_text(found.get("arch")),
        key=_text(found.get("key")),
    )


def _text(value: Any) -> str | None:  # noqa: ANN401 - a document of anybody's
    return value[:200] if isinstance(value, str) and value and value.isprintable() else None


def _dicts(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _files(plan: dict[str, Any]) -> list[str]:
    steps = [step for step in _dicts(plan.get("steps")) if step.get("kind") in ("layer", "graft")]
    files = (file for step in steps for file in _dicts(step.get("files")))
    return [name for file in files if (name := _text(file.get("filename")))][:MOST]


def _patches(plan: dict[str, Any]) -> Iterable[str]:
    for one in _dicts(plan.get("patches")):
        source, number = _text(one.get("source")), NUMBER.match(_text(one.get("name")) or "")
        if source and number:
            yield f"{source}/{number[1]}"


def versions_of_wheels(names: Iterable[str]) -> dict[str, str]:
    """Version by distribution, of names of wheels."""
    found = {}
    for name in names:
        try:
            project, version, _, _ = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        found[str(project)] = str(version)
    return found


def read_installed(text: str) -> ImageRecord | None:
    """The record of an image of others, by the names of its ``*.dist-info`` folders, one a line."""
    names = (PurePosixPath(line).name for line in text.splitlines()[:MOST])
    matches = [found for name in names if (found := INSTALLED.fullmatch(name))]
    versions = {str(canonicalize_name(found["name"])): found["version"] for found in matches}
    engine = next((name for name in ENGINES if name in versions), None)
    return (
        ImageRecord(
            engine=engine,
            release=versions.get(engine) if engine else None,
            versions=versions,
            source="the distributions that are installed in it",
        )
        if versions
        else None
    )
