"""One small file by its URL: https, or http of this machine; bounded in bytes, time and redirects."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from gb10.core.concurrency import LateError, within
from gb10.core.fetch import redact
from gb10.core.proc import without_logins
from gb10.errors import FetchError, UsageError

if TYPE_CHECKING:
    import requests

HERE: Final = ("localhost", "127.0.0.1", "::1")
MOST_REDIRECTS: Final = 5
PATIENCE: Final = 60
"""Seconds without a byte."""
DEADLINE: Final = 300.0
"""Seconds for the whole file: requests, waits between them, redirects."""
BLOCK: Final = 1 << 16
LONGEST: Final = 2000
"""Characters of a URL."""
SHOWN: Final = 200
"""Characters of a URL that an error quotes."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
OK: Final = 200


def check_url(url: str) -> None:
    """Raise UsageError for a URL that is not fetched: another scheme, http of another machine, unreadable."""
    problem = _problem(url)
    if problem:
        raise UsageError(
            f"{ascii(without_logins(url))[1:-1][:SHOWN]}: {problem}",
            hint="give an https URL, or download it and give the file",
        )


def _problem(url: str) -> str | None:
    """Why a URL is not fetched; None when it is."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - it raises for a port that is no number
    except ValueError as error:
        return f"the URL cannot be read: {error}"
    if len(url) > LONGEST or not url.isprintable() or " " in url:
        return "the URL is too long, or holds blanks or control characters"
    if not host:
        return "the URL names no host"
    if parts.scheme == "https" or (parts.scheme == "http" and host in HERE):
        return None
    return "only https is read (http only from this machine itself)"


def public(url: str) -> str:
    """The URL as records keep it: without login, query and fragment, which may hold secrets."""
    return redact(urlsplit(url)._replace(query="", fragment="").geturl())


def name_of(url: str, otherwise: str) -> str:
    """The name of the file: the last part of the URL's path, if it is a plain name."""
    last = urlsplit(url).path.rpartition("/")[2]
    return last if NAME.fullmatch(last) else otherwise


def fetch_small(env: Mapping[str, str], url: str, most: int) -> bytes:
    """The file, of at most ``most`` bytes. Raises UsageError for a URL that is not fetched, FetchError."""
    check_url(url)
    try:
        return within(DEADLINE, lambda: _followed(env, url, most))
    except LateError as error:
        raise FetchError(f"cannot fetch {public(url)}: not done in {DEADLINE:.0f} s", hint="try again later") from error


def _followed(env: Mapping[str, str], url: str, most: int) -> bytes:
    """The file at the end of the redirects."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - for a download; most verbs only read a URL

    from gb10.core.http_session import open_session  # noqa: PLC0415 - the same

    at = url
    with open_session(env) as session:
        for _ in range(MOST_REDIRECTS + 1):
            try:
                with _ask(session, at) as reply:
                    if not reply.is_redirect:
                        return _body(reply, url, most)
                    at = _next(at, reply.headers.get("location", ""), url)
            # requests' own errors are OSErrors; ValueError: a damaged redirect
            except (HTTPError, OSError, ValueError) as error:
                raise _failed(error, url) from error
    raise FetchError(f"cannot fetch {public(url)}: more than {MOST_REDIRECTS} redirects", hint="check the URL")


def _ask(session: "requests.Session", url: str) -> "requests.Response":
    return session.get(url, stream=True, allow_redirects=False, timeout=PATIENCE, verify=session.verify)


def _next(at: str, location: str, url: str) -> str:
    """Where a redirect leads. Raises FetchError for a place that the user did not allow: this machine, no https."""
    found = urljoin(at, location.strip())
    problem = _problem(found)
    if problem is None and urlsplit(found).hostname in HERE and urlsplit(at).hostname not in HERE:
        problem = "another machine may not name a place on this one"
    if problem:
        raise FetchError(
            f"cannot fetch {public(url)}: it redirects to {ascii(without_logins(found))[1:-1][:SHOWN]}",
            where=problem,
            hint="download it yourself, read it, and give the file",
        )
    return found


def _body(reply: "requests.Response", url: str, most: int) -> bytes:
    """The bytes of a reply as they come, unpacked. Raises FetchError for a bad status, too many bytes."""
    if reply.status_code != OK:
        raise FetchError(
            f"cannot fetch {public(url)}: the server answered {reply.status_code} {reply.reason}",
            hint="check the URL; what needs a login: download it and give the file",
        )
    whole = bytearray()
    while block := reply.raw.read1(BLOCK, decode_content=True):
        whole += block
        if len(whole) > most:
            raise FetchError(f"{public(url)} has more than {most >> 20} MiB", hint="check the URL")
    return bytes(whole)


def _failed(error: Exception, url: str) -> FetchError:
    from requests import RequestException  # noqa: PLC0415 - for a download that failed

    from gb10.core.http_session import network_error  # noqa: PLC0415 - the same

    what = f"cannot fetch {public(url)}"
    if isinstance(error, RequestException):
        found = network_error(error, what)
        return FetchError(found.message, hint="check the URL and the network, or download it and give the file")
    return FetchError(f"{what}: {error}", hint="try again; or download it and give the file")
