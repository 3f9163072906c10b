"""How far a commit is from the releases that a repository has tagged: commits alone are fetched, no files."""

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from gb10.core.fetch import redact
from gb10.core.proc import CommandFailedError, capture, capture_while_active
from gb10.core.store import Store
from gb10.errors import FetchError
from gb10.sources.git.address import without_login
from gb10.sources.git.archive import INIT, PATIENCE, BareGit, Limits

TAG: Final = re.compile(r"[0-9a-f]{40}\trefs/tags/(v?\d{1,9}(?:\.\d{1,9}){1,5}(?:\.?post\d{1,9})?)\n")
LARGEST: Final = 1 << 28
"""Bytes that git may write: the commits of vLLM have some 15 MB."""
MOST_TAGS: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """``ahead``: commits since the merge base that the release lacks; ``behind``: those that only the release has."""

    release: Version
    tag: str
    ahead: int
    behind: int

    @property
    def commits(self) -> int:
        """The length of the way from one to the other."""
        return self.ahead + self.behind


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The distances, the shortest first. ``why_none``: why there are none."""

    distances: tuple[Distance, ...] = ()
    why_none: str = ""


def history(store: Store, env: Mapping[str, str], url: str, commit: str, releases: Collection[Version]) -> History:
    """The tags of a repository that are one of these releases, and how far the commit is from each."""
    work = store.scratch("history")
    git = BareGit(work / "git", env, Limits(pack=LARGEST))
    try:
        capture([*INIT, str(git.repository)], env=git.asking)
        plain, asking = without_login(url, git.asking)
        listed = capture_while_active(["git", "ls-remote", "--tags", plain], env=asking, patience=PATIENCE)
        found = {Version(tag): tag for tag in TAG.findall(f"{listed}\n")}
        tags = {version: tag for version, tag in found.items() if version in releases}
        newest = sorted(tags, reverse=True)[:MOST_TAGS]
        if not newest:
            return History(why_none="the repository has no tag of a release that the index has")
        refs = [f"refs/tags/{tags[version]}:refs/tags/{tags[version]}" for version in newest]
        words = ("fetch", "--progress", "--filter=tree:0", "--no-tags", plain, commit, *refs)
        capture_while_active(git.argv(*words), env=asking, patience=PATIENCE, largest=LARGEST)
        distances = [_distance(git, version, tags[version], commit) for version in newest]
    except CommandFailedError as error:
        return History(why_none=f"git cannot read its history: {' '.join(error.tail.split())[-200:] or error}")
    finally:
        shutil.rmtree(work)
    near = sorted((one for one in distances if one), key=lambda one: one.commits)
    return History(distances=tuple(near), why_none="" if near else "it shares no commit with a release")


def _distance(git: BareGit, release: Version, tag: str, commit: str) -> Distance | None:
    """None for two commits without a merge base."""
    try:
        git.alone("merge-base", f"refs/tags/{tag}", commit)
    except CommandFailedError as error:
        if error.returncode == 1:
            return None
        raise
    behind, ahead = git.alone("rev-list", "--left-right", "--count", f"refs/tags/{tag}...{commit}").split()
    return Distance(release=release, tag=tag, ahead=int(ahead), behind=int(behind))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ancestor:
    """A commit, or one before it: ``back`` commits earlier. ``differ``: the paths that are otherwise in the first."""

    commit: str
    back: int
    differ: tuple[str, ...]


def ancestors(store: Store, env: Mapping[str, str], url: str, commit: str, most: int) -> tuple[Ancestor, ...]:
    """A commit and at most ``most`` before it, the newest first. Folders are fetched, and no files. FetchError."""
    work = store.scratch("history")
    git = BareGit(work / "git", env, Limits(pack=LARGEST))
    try:
        capture([*INIT, str(git.repository)], env=git.asking)
        plain, asking = without_login(url, git.asking)
        words = ("fetch", "--progress", f"--depth={most + 1}", "--filter=blob:none", "--no-tags", plain, commit)
        capture_while_active(git.argv(*words), env=asking, patience=PATIENCE, largest=LARGEST)
        found = git.alone("rev-list", f"--max-count={most + 1}", commit).split()
        listing = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
        differ = [git.alone(*listing, one, commit).split("\0") for one in found]
    except CommandFailedError as error:
        raise FetchError(
            f"git cannot read the commits before {commit}", where=f"{redact(url)}\n{error.tail.strip()[-400:]}"
        ) from error
    finally:
        shutil.rmtree(work)
    return tuple(
        Ancestor(commit=one, back=back, differ=tuple(filter(None, paths)))
        for back, (one, paths) in enumerate(zip(found, differ, strict=True))
    )
