"""Real releases for the tests of patches: fetched by their pins into the store, read where they lie, never run."""

import os
from functools import lru_cache

from packaging.version import Version

from gb10.cli.patch.patches import library
from gb10.image.context import Context, open_context
from gb10.image.patches.release_files import Opened, open_release
from gb10.image.patches.releases import load_releases
from gb10.image.patches.series import Patch, load_series
from gb10.image.patches.verdict import Row, changes_of, judge, judge_series, judged_row


@lru_cache
def ctx() -> Context:
    """The context over the machine's own store."""
    return open_context(os.environ, verbosity=-1)


@lru_cache
def opened(source: str, version: str) -> Opened:
    """A release of the supported window."""
    return open_release(library(ctx()), load_releases(ctx().catalog.patches), source, Version(version))


@lru_cache
def rows_of(source: str) -> tuple[Row, ...]:
    """Every patch of a source on every release of the supported window."""
    patches, pins = load_series(ctx().catalog.patches, source), load_releases(ctx().catalog.patches).source(source)
    return tuple(judged_row(patches, opened(source, version)) for version in sorted(pins.releases, key=Version))


def original(source: str, version: str, path: str) -> str:
    """A file of a release as upstream shipped it."""
    content = opened(source, version).tree.read(path)
    assert content is not None, f"{source} {version} has no {path}"
    return content.decode()


def patched(source: str, version: str, patch_id: str, path: str) -> str:
    """The same file after one patch of ours; fails when the patch does not apply."""
    release = opened(source, version)
    verdicts = [judge(patch, release.version, release.tree) for patch in variants(source, patch_id)]
    applied = [verdict for verdict in verdicts if verdict.outcome == "applies"]
    assert len(applied) == 1, [(verdict.patch.name, verdict.outcome, verdict.why) for verdict in verdicts]
    content = applied[0].changes[path]
    assert content is not None
    return content.decode()


def after_series(source: str, version: str, path: str) -> str:
    """The same file after the whole series."""
    release = opened(source, version)
    verdicts = judge_series(load_series(ctx().catalog.patches, source), release.version, release.tree)
    content = changes_of(verdicts)[path]
    assert content is not None
    return content.decode()


def variants(source: str, patch_id: str) -> list[Patch]:
    """The patches of one id."""
    return [patch for patch in load_series(ctx().catalog.patches, source) if patch.id == patch_id]
