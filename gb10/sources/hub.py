"""The Hub: a Hugging Face repository, read at one commit and changed by one commit, through its own client.

Tokens and endpoints are the client's: HF_TOKEN or what ``hf auth login`` left, HF_ENDPOINT, HF_HUB_OFFLINE. Loading it
costs a third of a second, so who may do without imports this room only when it is asked.
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
    RepositoryNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from gb10 import __version__
from gb10.errors import FetchError, Gb10Error, PublishError, UsageError
from gb10.host.fetch import ca_bundle, redact

BRANCH: Final = "main"
NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
SECONDS: Final = 60.0
"""Without a byte of an answer."""
MOVED: Final = (409, 412)
"""Another commit is being made, or was made since."""
REFUSED: Final = (401, 403)
TOKEN: Final = "set HF_TOKEN, or run `hf auth login`, with a token that may do this"  # noqa: S105 - says how to give one
# What the client raises of its own: of the network, of a bad answer, of an upload in a thread.
FAILURES: Final = (httpx2.HTTPError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository (``OWNER/NAME``) and the client that asks for it."""

    repo: str
    api: HfApi

    def head(self) -> str:
        """The commit that the branch stands for; raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            sha = self.api.model_info(self.repo, revision=BRANCH, timeout=SECONDS).sha
            if not sha:
                raise ValueError("its branch has no commit")
            return sha

    def fetch(self, path: str, head: str, folder: Path) -> Path | None:
        """A commit's file, below ``folder``, resumed when it breaks off; None when it has none. Raises FetchError."""
        with self._answers(FetchError, "cannot be read"):
            try:
                return Path(self.api.hf_hub_download(self.repo, path, revision=head, local_dir=folder))
            except LocalEntryNotFoundError:  # no answer, which is another thing than no file
                raise
            except EntryNotFoundError:
                return None

    def commit(self, files: Mapping[str, Path | bytes], head: str, message: str) -> str | None:
        """Add files by one commit on top of ``head``, and return it; None when the branch moved on.

        What the Hub has already is not sent again. Raises PublishError.
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
        """Raise what the client says as an error of ours; a full disk stays what it is."""
        try:
            yield
        except FAILURES as error:
            if isinstance(error, OSError) and error.errno:
                raise
            why, hint = _explained(error)
            raise kind(f"{self.repo} {failed}: {why}", where=redact(self.api.endpoint), hint=hint) from error


def open_hub(repo: str, env: Mapping[str, str]) -> Hub:
    """The repository, not asked yet; raises UsageError for a name that is none, FetchError when nobody may be asked."""
    if not NAME.fullmatch(repo):
        raise UsageError(f"{repo!r} is no repository of the Hub", hint="write OWNER/NAME")
    if is_offline_mode():
        raise FetchError(f"{repo} is not asked: HF_HUB_OFFLINE is set", hint="unset it")
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
    """What went wrong and what to do, by the cause that the client wrapped."""
    cause = error.__cause__ if isinstance(error, (LocalEntryNotFoundError, RuntimeError)) else error
    if isinstance(cause, RepositoryNotFoundError):
        return "the Hub shows no such repository", f"make it at the Hub; if it is private, {TOKEN}"
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        return f"the Hub answered {code} {cause.response.reason_phrase}", TOKEN if code in REFUSED else "try again"
    if isinstance(cause, httpx2.TransportError):
        return f"the Hub cannot be reached: {str(cause) or type(cause).__name__}", "check network, proxy, HF_ENDPOINT"
    return (str(cause or error) or type(error).__name__).splitlines()[0], "run the command again"
