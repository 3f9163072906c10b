"""The Hub's client at its border: names and hashes that no hub gives, and its own errors as ours. Nothing is sent."""

from collections.abc import Iterator
from typing import Any, NoReturn

import httpx2
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile, RepoFolder

from gb10.errors import FetchError, UsageError
from gb10.sources import hub
from gb10.sources.hub import Hub, HubFile, open_hub

BLOB, SHA = "a" * 40, "b" * 64


class Listing(HfApi):
    """The client, with an answer that is known."""

    def __init__(self, answer: list[Any] | Exception) -> None:
        super().__init__(endpoint="https://me:secret@hub.invalid")
        self.answer = answer

    def list_repo_tree(self, *_: object, **__: object) -> Iterator[Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return iter(self.answer)


def file(path: str = "model.safetensors", *, oid: str = BLOB, sha: str | None = SHA, size: int = 7) -> RepoFile:
    lfs = {"size": size, "oid": sha, "pointerSize": 1} if sha else None
    return RepoFile(path=path, size=size, oid=oid, lfs=lfs)  # type: ignore[no-untyped-call]


def files(*listed: object) -> list[HubFile]:
    return Hub("me/model", Listing(list(listed))).files("c" * 40)


def test_files_are_listed_and_folders_are_not() -> None:
    folder = RepoFolder(path="deep", oid=BLOB)  # type: ignore[no-untyped-call]
    assert files(file(), folder, file("deep/a.json", sha=None, size=0)) == [
        HubFile(path="model.safetensors", size=7, blob=BLOB, sha256=SHA),
        HubFile(path="deep/a.json", size=0, blob=BLOB, sha256=None),
    ]


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "./x", "a/..", "a\nb", "x" * 401, ""])
def test_a_name_that_leads_out_or_cannot_be_printed_is_refused(path: str) -> None:
    with pytest.raises(FetchError, match="a file with an odd name"):
        files(file(path))
    assert files(file("x" * 400))[0].path == "x" * 400


@pytest.mark.parametrize(
    "wrong", [{"oid": "x" * 40}, {"oid": "a" * 39}, {"sha": "b" * 63}, {"sha": "B" * 64}, {"size": -1}]
)
def test_a_hash_or_a_size_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FetchError, match=r"lists model.safetensors with a wrong hash or size"):
        files(file(**wrong))


def test_a_repository_has_a_limit_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MOST", 2)
    assert len(files(file(), file("b"))) == 2
    with pytest.raises(FetchError, match="more than 2 files"):
        files(file(), file("b"), file("c"))


def response(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://hub.invalid"))


def caused(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "why", "hint"),
    [
        (GatedRepoError("x", response=response(403)), "it is gated", "accept them on its page"),
        (RevisionNotFoundError("x", response=response(404)), "no such revision", "a commit of 40 digits"),
        (RepositoryNotFoundError("x", response=response(404)), "no such repository", "set HF_TOKEN"),
        (HfHubHTTPError("x", response=response(401)), "returned 401 Unauthorized", "set HF_TOKEN"),
        (HfHubHTTPError("x", response=response(403)), "returned 403 Forbidden", "set HF_TOKEN"),
        (HfHubHTTPError("x", response=response(500)), "returned 500 Internal Server Error", "try again"),
        (httpx2.ConnectError("no route"), "cannot be reached: no route", "check network"),
        (httpx2.ReadTimeout(""), "cannot be reached: ReadTimeout", "check network"),
        (caused(LocalEntryNotFoundError("x"), httpx2.ConnectError("no route")), "cannot be reached", "check network"),
        (caused(RuntimeError("x"), GatedRepoError("x", response=response(403))), "it is gated", "accept them"),
        (RuntimeError("first line\nsecond"), "first line", "run the command again"),
        (ValueError(""), "ValueError", "run the command again"),
    ],
)
def test_the_clients_errors_say_what_to_do(error: Exception, why: str, hint: str) -> None:
    with pytest.raises(FetchError) as caught:
        Hub("me/model", Listing(error)).files("c" * 40)
    assert caught.value.message.startswith("me/model cannot be read: ")
    assert why in caught.value.message
    assert "second" not in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "secret" not in (caught.value.where or "")


def test_a_full_disk_stays_a_full_disk() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        Hub("me/model", Listing(OSError(28, "No space left"))).files("c" * 40)
    assert caught.value.errno == 28


def test_a_bug_stays_a_bug() -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise KeyError("x")

    api = Listing([])
    api.list_repo_tree = broken  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        Hub("me/model", api).files("c" * 40)


@pytest.mark.parametrize("name", ["model", "a/b/c", "-a/b", "a/../b", "a b/c", "é/b", ""])
def test_what_is_no_repository_is_refused_before_a_request(name: str) -> None:
    with pytest.raises(UsageError, match="is not a Hub repository name"):
        open_hub(name, {})
