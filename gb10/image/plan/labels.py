"""The labels of an image: what it is, and what was changed in it. Pure."""

from typing import Final

from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import Plan

NAMESPACE: Final = "io.github.gb10"
SLIM: Final = f"{NAMESPACE}.slim"
"""The label with the slimming rules that were applied to an image; with ``.mb``, the MB that they save."""
LOCAL_ONLY: Final = f"{SLIM}.local-only"
"""The label with the slimming rules that bar an image from being published."""


def labels(plan: Plan) -> dict[str, str]:
    """OCI labels; ``created`` is the lock's date, so that a commit that changes no byte changes no image."""
    recipe, options = plan.recipe, plan.options
    return {
        "org.opencontainers.image.created": f"{plan.lock.created.isoformat()}T00:00:00Z",
        "org.opencontainers.image.title": f"{recipe.engine} {recipe.version} for {options.arch}",
        "org.opencontainers.image.version": recipe.version,
        f"{NAMESPACE}.arch": str(options.arch),
        f"{NAMESPACE}.cuda": recipe.cuda,
        f"{NAMESPACE}.plan.key": plan.key,
        f"{NAMESPACE}.lock.digest": plan.lock.input_digest,
        **{f"{NAMESPACE}.wheel.{step.name}": step.key for step in plan.of_kind("wheel")},
        **_patch_labels(options.patches),
        **_url_labels(options.patches),
        **({f"{NAMESPACE}.without": " ".join(options.without)} if options.without else {}),
        **({f"{NAMESPACE}.without-patches": " ".join(options.unpatched)} if options.unpatched else {}),
        **_slim_labels(plan),
        **{f"{NAMESPACE}.source.{use.source}": use.taken.label for use in options.patches if use.taken},
        **({f"{NAMESPACE}.overlay": options.overlay.digest} if options.overlay else {}),
        **{f"{NAMESPACE}.mod.{number}": mod.label for number, mod in enumerate(options.mods, 1)},
    }


def _slim_labels(plan: Plan) -> dict[str, str]:
    """The rules of recipes/slim.yaml that were applied, and those that bar the image from being published."""
    return {
        **({SLIM: " ".join(rule.name for rule in plan.slim)} if plan.slim else {}),
        **({f"{SLIM}.mb": f"{sum(rule.saved for rule in plan.slim):.0f}"} if plan.slim else {}),
        **({LOCAL_ONLY: " ".join(plan.local_only)} if plan.local_only else {}),
    }


def _url_labels(patches: tuple[PatchUse, ...]) -> dict[str, str]:
    """Where diffs were fetched from, each as ``--patch`` takes it again."""
    urls = dict.fromkeys(f"{use.url}#sha256={use.whole or use.sha256}" for use in patches if use.url)
    return {f"{NAMESPACE}.patch-url.{number}": url for number, url in enumerate(urls, 1)}


def _patch_labels(patches: tuple[PatchUse, ...]) -> dict[str, str]:
    """By source, what was applied in its order."""
    sources = dict.fromkeys(use.source for use in patches)
    applied = {name: dict.fromkeys(use.label for use in patches if use.source == name) for name in sources}
    return {f"{NAMESPACE}.patches.{name}": " ".join(uses) for name, uses in applied.items()}
