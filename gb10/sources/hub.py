"""The Hub: a Hugging Face repository, read at one commit and changed by one commit, through its own client.

The client reads HF_TOKEN (or the login of ``hf auth login``), HF_ENDPOINT and HF_HUB_OFFLINE. Its import takes a third
of a second, so callers import this room only when they need it.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import (
    CommitOperationAdd,
    HfApi,
    get_hf_file_metadata,
    get_token,
    hf_hub_url,
    is_offline_mode,
    set_client_factory,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    NotASafetensorsRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import disable_progress_bars

from gb10 import __version__
from gb10.core.fetch import Place, ca_bundle, redact
from gb10.errors import FetchError, Gb10Error, PublishError, UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file of a commit: large ones have the sha256 of their bytes, small ones git's own SHA-1 of a blob."""

    path: str
    size: int
    blob: str
    sha256: str | None = None

    @property
    def etag(self) -> str:
        """The name of its content in the Hub's cache on a machine."""
        return self.sha256 or self.blob


BRANCH: Final = "main"
NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
SECONDS: Final = 60.0
"""Seconds without a received byte."""
MOVED: Final = (409, 412)
"""The branch moved, or another commit is in progress."""
REFUSED: Final = (401, 403)
MOST: Final = 20_000
"""Files of a repository."""
LONGEST: Final = 400
"""Characters of a path."""
BLOB: Final = re.compile(r"[0-9a-f]{40}")
SHA256: Final = re.compile(r"[0-9a-f]{64}")
TOKEN: Final = "set HF_TOKEN, or run `hf auth login`, with a token that has access"  # noqa: S105 - a hint, not a token
# The client's errors: network, bad response, upload in a thread.
FAILURES: Final = (httpx2.HTTPError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository (``OWNER/NAME``) and its client."""

    repo: str
    api: HfApi

    def head(self, revision: str = BRANCH) -> str:
        """The newest commit of a branch or tag; raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            sha = self.api.model_info(self.repo, revision=revision, timeout=SECONDS).sha
            if not sha:
                raise ValueError("its branch has no commit")
            return sha

    def files(self, head: str) -> list[HubFile]:
        """A commit's files; raises FetchError, also for more than MOST of them."""
        with self._answers(FetchError, "cannot be read"):
            listed = islice(self.api.list_repo_tree(self.repo, recursive=True, revision=head), MOST + 1)
            found = [_hub_file(one) for one in listed if isinstance(one, RepoFile)]
            if len(found) > MOST:
                raise ValueError(f"it has more than {MOST} files")
            return found

    def place(self, path: str, head: str) -> Place:
        """Where a commit's file is read. Raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            url = hf_hub_url(self.repo, path, revision=head, endpoint=self.api.endpoint)
            found = get_hf_file_metadata(url, token=self.api.token, timeout=SECONDS, endpoint=self.api.endpoint)
            same = urlsplit(found.location).netloc == urlsplit(url).netloc  # the token is the Hub's alone
            token = self.api.token if isinstance(self.api.token, str) else get_token()
            return Place(found.location, {"Authorization": f"Bearer {token}"} if token and same else {})

    def fetch(self, path: str, head: str, folder: Path) -> Path | None:
        """A commit's file, below ``folder``, resumed if interrupted; None if missing. Raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            try:
                return Path(self.api.hf_hub_download(self.repo, path, revision=head, local_dir=folder))
            except LocalEntryNotFoundError:  # no response; that differs from a missing file
                raise
            except EntryNotFoundError:
                return None

    def headers(self, head: str) -> dict[str, dict[str, dict[str, object]]]:
        """Type, shape and place of each tensor, by file, from the headers alone. Raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            try:
                found = self.api.get_safetensors_metadata(self.repo, revision=head, timeout=SECONDS)
            except (NotASafetensorsRepoError, SafetensorsParsingError) as error:
                raise ValueError(f"it has no weights in safetensors files: {error}") from error
        return {
            file: {
                name: {"dtype": one.dtype, "shape": list(one.shape), "data_offsets": list(one.data_offsets)}
                for name, one in part.tensors.items()
            }
            for file, part in found.files_metadata.items()
        }

    def commit(self, files: Mapping[str, Path | bytes], head: str, message: str) -> str | None:
        """Add files by one commit on top of ``head``, and return it; None when the branch moved on.

        Files that the Hub already has are not sent again. Raises PublishError.
        """
        adding = [CommitOperationAdd(path, file) for path, file in files.items()]
        with self._answers(PublishError, "was not changed"):
            try:
                return self.api.create_commit(
                    self.repo, adding, commit_message=message, revision=BRANCH, parent_commit=head
                ).oid
            except HfHubHTTPError as error:
                if error.response.status_code in MOVED:
                    return None
                raise

    @contextmanager
    def _answers(self, kind: type[Gb10Error], failed: str) -> Iterator[None]:
        """Convert the client's errors to ours; a full disk stays an OSError."""
        try:
            yield
        except FAILURES as error:
            if isinstance(error, OSError) and error.errno:
                raise
            why, hint = _explained(error)
            raise kind(f"{self.repo} {failed}: {why}", where=redact(self.api.endpoint), hint=hint) from error


def _hub_file(one: RepoFile) -> HubFile:
    """The file; raises ValueError for a name or a hash that no hub gives."""
    parts = one.path.split("/")
    if {"", ".", ".."} & set(parts) or not one.path.isprintable() or len(one.path) > LONGEST:
        raise ValueError(f"it lists a file with an odd name: {one.path[:LONGEST]!a}")
    sha256 = one.lfs.sha256 if one.lfs else None
    if not BLOB.fullmatch(one.blob_id) or (sha256 is not None and not SHA256.fullmatch(sha256)) or one.size < 0:
        raise ValueError(f"it lists {one.path} with a wrong hash or size")
    return HubFile(path=one.path, size=one.size, blob=one.blob_id, sha256=sha256)


def open_hub(repo: str, env: Mapping[str, str]) -> Hub:
    """The repository, without a request; raises UsageError for an invalid name, FetchError in offline mode."""
    if not NAME.fullmatch(repo):
        raise UsageError(f"{repo!r} is not a Hub repository name", hint="write OWNER/NAME")
    if is_offline_mode():
        raise FetchError(f"{repo} cannot be read: HF_HUB_OFFLINE is set", hint="unset it")
    bundle = ca_bundle(env)
    if bundle:
        trusted = ssl.create_default_context(cafile=bundle)
        set_client_factory(lambda: httpx2.Client(verify=trusted, follow_redirects=True, timeout=SECONDS))
    disable_progress_bars()
    return Hub(
        repo,
        HfApi(
            endpoint=env.get("HF_ENDPOINT") or None,
            token=env.get("HF_TOKEN") or None,
            library_name="gb10",
            library_version=__version__,
        ),
    )


def _explained(error: Exception) -> tuple[str, str]:
    """The cause and a hint, from the error that the client wrapped."""
    cause = error.__cause__ if isinstance(error, (LocalEntryNotFoundError, RuntimeError)) else error
    if isinstance(cause, GatedRepoError):
        return "it is gated: its owner asks you to accept terms", f"accept them on its page on the Hub, then {TOKEN}"
    if isinstance(cause, RevisionNotFoundError):
        return "the Hub has no such revision of it", "name a branch, a tag or a commit of 40 digits"
    if isinstance(cause, RepositoryNotFoundError):
        return "the Hub has no such repository, or it is private", f"create it on the Hub; if it is private, {TOKEN}"
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        return f"the Hub returned {code} {cause.response.reason_phrase}", TOKEN if code in REFUSED else "try again"
    if isinstance(cause, httpx2.TransportError):
        return f"the Hub cannot be reached: {str(cause) or type(cause).__name__}", "check network, proxy, HF_ENDPOINT"
    return (str(cause or error) or type(error).__name__).splitlines()[0], "run the command again"
