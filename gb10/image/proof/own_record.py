"""What an image says of itself: its plan and its layers' scans, below /usr/share/gb10. Whoever made it may lie."""

import json
from collections.abc import Mapping
from typing import Final

from gb10.errors import VerifyError
from gb10.image.plan.recorded import RecordedPlan, recorded_plan
from gb10.image.proof.reading import read_scan
from gb10.image.proof.scans import SCANS, merge_layers
from gb10.inside.scan import Scan

PLAN: Final = "/usr/share/gb10/plan.json"
ORDER: Final = ("base", "layer", "graft", "settings", "overlay", "cache", "mod")
"""The kinds of scanned stages, lowest first."""


def own_plan(files: Mapping[str, bytes]) -> RecordedPlan | None:
    """The plan that an image holds; None for an image that is not ours. Pure."""
    try:
        return recorded_plan(json.loads(files.get(PLAN, b"")))
    except (ValueError, RecursionError):
        return None


def own_scans(files: Mapping[str, bytes]) -> dict[str, Scan]:
    """The scans that an image holds, by step, lowest first; what is no scan is left out. Pure."""
    scans = {}
    for path, content in files.items():
        try:
            scans[path.removeprefix(f"{SCANS}/").removesuffix(".json")] = read_scan(content.decode(), path)
        except (VerifyError, UnicodeDecodeError):
            continue
    return {name: scans[name] for name in sorted(scans, key=_place)}


def own_scan(reference: str, files: Mapping[str, bytes]) -> Scan:
    """All of them as one. Pure."""
    return merge_layers(reference, list(own_scans(files).values()))


def own_changes(files: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """The files that were changed on purpose: sha256, and the last step that did it. Pure."""
    changed: dict[str, tuple[str, str]] = {}
    for name, scan in own_scans(files).items():
        changed = {path: one for path, one in changed.items() if path not in scan.gone}
        changed |= {path: (sha256, name) for path, sha256 in scan.contents.items()}
    return changed


def _place(name: str) -> tuple[int, int, str]:
    """Where a step's layer lies: by its kind, mods by their number."""
    kind, _, number = name.partition("-")
    mod = int(number) if kind == "mod" and number.isdecimal() and len(number) < 5 else 0
    return ORDER.index(kind) if kind in ORDER else -1, mod, name
