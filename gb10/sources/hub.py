"""The Hub: a Hugging Face repository, read at one commit and changed by one commit, through its own client.

The client reads HF_TOKEN (or the login of ``hf auth login``), HF_ENDPOINT and HF_HUB_OFFLINE. Its import takes a third
of a second, so callers import this room only when they need it.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
from huggingface_hub import CommitOperationAdd, HfApi, is_offline_mode, set_client_factory
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    NotASafetensorsRepoError,
    RepositoryNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from gb10 import __version__
from gb10.errors import FetchError, Gb10Error, PublishError, UsageError
from gb10.host.fetch import ca_bundle, redact

BRANCH: Final = "main"
NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
SECONDS: Final = 60.0
"""Seconds without a received byte."""
MOVED: Final = (409, 412)
"""The branch moved, or another commit is in progress."""
REFUSED: Final = (401, 403)
TOKEN: Final = "set HF_TOKEN, or run `hf auth login`, with a token that has access"  # noqa: S105 - a hint, not a token
# The client's errors: network, bad response, upload in a thread.
FAILURES: Final = (httpx2.HTTPError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository (``OWNER/NAME``) and its client."""

    repo: str
    api: HfApi

    def head(self) -> str:
        """The branch's newest commit; raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            sha = self.api.model_info(self.repo, revision=BRANCH, timeout=SECONDS).sha
            if not sha:
                raise ValueError("its branch has no commit")
            return sha

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
    if isinstance(cause, RepositoryNotFoundError):
        return "the Hub has no such repository, or it is private", f"create it on the Hub; if it is private, {TOKEN}"
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        return f"the Hub returned {code} {cause.response.reason_phrase}", TOKEN if code in REFUSED else "try again"
    if isinstance(cause, httpx2.TransportError):
        return f"the Hub cannot be reached: {str(cause) or type(cause).__name__}", "check network, proxy, HF_ENDPOINT"
    return (str(cause or error) or type(error).__name__).splitlines()[0], "run the command again"
