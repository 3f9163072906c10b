"""The files that patches and the overlay put into an image, by the store and the user's folder, for the proof."""

import hashlib
from pathlib import Path

from gb10.core.store import Store, file_sha256
from gb10.image.build.grafts import graft_files
from gb10.image.plan.values import Plan, Step


def changed_files(store: Store, plan: Plan) -> dict[str, tuple[str, str]]:
    """Path in the image -> sha256, and the step that puts it there; an overlay lies above the patches."""
    found: dict[str, tuple[str, str]] = {}
    for step in plan.of_kind("graft"):
        found |= _of_graft(store, step, f"usr/local/lib/python{plan.recipe.python}/dist-packages")
    if plan.options.overlay:
        root = Path(plan.options.overlay.path)
        files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        found |= {path.relative_to(root).as_posix(): (file_sha256(path), "overlay") for path in files}
    return found


def _of_graft(store: Store, step: Step, site: str) -> dict[str, tuple[str, str]]:
    """All but its METADATA, which is installed below the name of upstream's release."""
    contents = {name: one for name, one in graft_files(store, step).items() if ".dist-info/" not in name}
    return {
        f"{site}/{name}": (hashlib.sha256(one).hexdigest() if isinstance(one, bytes) else file_sha256(one), step.name)
        for name, one in contents.items()
    }
