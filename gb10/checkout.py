"""Sources from git: the files of a tag as one tar, the same bytes wherever the commit comes from."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from gb10.artifact import Artifact, Checkout
from gb10.errors import FetchError
from gb10.fetch import accept, ca_bundle, redact, stored
from gb10.proc import CommandFailedError, capture
from gb10.store import Store, file_sha256

ALONE: Final = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1",
                "XDG_CONFIG_HOME": "/nonexistent"}  # fmt: skip
"""For what decides bytes: a user's line endings and attributes do not. Asking a server, their settings count."""
REPOSITORY: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
                     "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_PREFIX")  # fmt: skip


def resolve(store: Store, env: Mapping[str, str], filename: str, wanted: Checkout) -> Artifact:
    """The tar of what a tag stands for now, kept in the store. Raises FetchError."""
    with _made(store, env, filename, wanted) as (tar, commit):
        found = Artifact(filename, file_sha256(tar), tar.stat().st_size, replace(wanted, commit=commit))
        accept(tar, found, stored(store, found))
    return found


def fetch_checkout(store: Store, env: Mapping[str, str], locked: Artifact, checkout: Checkout) -> None:
    """The tar that was locked, made anew. Raises FetchError, also when the tag stands for another commit by now."""
    with _made(store, env, locked.filename, checkout) as (tar, commit):
        if commit != checkout.commit:
            raise FetchError(f"the tag {checkout.tag} is not the commit that was locked",
                             where=f"{redact(checkout.url)}\nlocked {checkout.commit}\n found {commit}",
                             hint="read what changed upstream; ./build.py lock takes it")  # fmt: skip
        with store.locked(f"download-{locked.sha256}"):
            accept(tar, locked, stored(store, locked))


@contextmanager
def _made(store: Store, env: Mapping[str, str], filename: str, wanted: Checkout) -> Iterator[tuple[Path, str]]:
    """A tar of the tag's files below ``<name>-<version>/``, gone afterwards, and the tag's commit."""
    work = store.scratch("checkout")
    tar, repository, bundle = work / filename, str(work / "git"), ca_bundle(env)
    asking = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **outside(env), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
              **({"GIT_SSL_CAINFO": str(bundle)} if bundle else {})}  # fmt: skip

    def git(*arguments: str, alone: bool = False) -> str:
        settings = {**asking, **ALONE} if alone else asking
        return capture(["git", "-c", "tar.umask=0022", f"--git-dir={repository}", *arguments], env=settings)

    try:
        capture(["git", "init", "--quiet", "--bare", repository], env=asking)
        git("fetch", "--quiet", "--depth", "1", "--no-tags", wanted.url, f"refs/tags/{wanted.tag}")
        commit = git("rev-parse", "FETCH_HEAD^{commit}").strip()
        git("archive", f"--output={tar}", f"--prefix={tar.stem}/", commit, "--", *wanted.paths, alone=True)
        yield tar, commit
    except CommandFailedError as error:
        raise _failed(error, wanted) from error
    finally:
        shutil.rmtree(work)


def outside(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the repository that a hook, or a rebase, may be running in."""
    return {name: value for name, value in env.items() if name not in REPOSITORY}


def _failed(error: CommandFailedError, wanted: Checkout) -> FetchError:
    if error.returncode == 127:
        return FetchError("git is not installed, and a source of the recipe comes from git", where=redact(wanted.url),
                          hint="apt-get install git, or name a source archive that bundles it")  # fmt: skip
    return FetchError(f"cannot take the tag {wanted.tag} from git", where=f"{redact(wanted.url)}\n{error.tail.strip()}",
                      hint="check the URL, the tag, the paths and the network")  # fmt: skip
