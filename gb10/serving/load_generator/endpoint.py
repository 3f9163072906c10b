"""A serving endpoint: its URL, its model, and one sentence for each way in which it does not answer."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import requests
from urllib3.exceptions import HTTPError

from gb10.core.fetch import ca_bundle, redact
from gb10.errors import EndpointError, UsageError

KEY: Final = "OPENAI_API_KEY"
TIMEOUT_S: Final = 15
LARGEST: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go. The key is never printed, logged or written into a result."""

    url: str
    """With the version of the API: ``http://spark-1:8000/v1``."""
    model: str
    key: str = field(default="", repr=False)
    direct: bool = False
    """Whether it is asked without a proxy and without logins of ~/.netrc, and a redirect is not followed."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


def base_url(text: str) -> str:
    """``host:8000`` and ``http://host:8000/v1/`` as ``http://host:8000/v1``. Raises UsageError. Pure."""
    given = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"not an endpoint: {text!r}", where=str(error), hint="write http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise UsageError(f"not an endpoint: {redact(given)!r}", hint="write http://HOST:PORT or https://HOST/v1")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return urlunsplit(parts._replace(path=path or "/v1", query="", fragment=""))


def reach(url: str, model: str | None, env: Mapping[str, str], *, keyed: bool = True, direct: bool = False) -> Endpoint:
    """The endpoint with the model that it serves. Raises EndpointError, and UsageError for a model that it has not.

    ``keyed``: it may get the user's key, as one that the user named may. ``direct`` is the endpoint's.
    """
    base, key = base_url(url), env.get(KEY, "") if keyed else ""
    served = models(base, key, env, direct=direct)
    if model is None and len(served) == 1:
        return Endpoint(url=base, model=served[0], key=key, direct=direct)
    if model in served:
        return Endpoint(url=base, model=str(model), key=key, direct=direct)
    names = ", ".join(served[:8]) or "none"
    what = f"the endpoint does not serve {model!r}" if model else f"the endpoint serves {len(served)} models"
    raise UsageError(what, where=f"{redact(base)}: {names}", hint="choose one: --model NAME")


@contextmanager
def page(
    url: str,
    headers: Mapping[str, str],
    env: Mapping[str, str],
    *,
    seconds: float | tuple[float, float],
    direct: bool,
    sent: Mapping[str, object] | None = None,
    form: Mapping[str, tuple[str | None, str | bytes]] | None = None,
) -> Iterator[requests.Response]:
    """The answer to a GET, or to a POST of ``sent`` as JSON, or of a ``form``: names of files, and what is in each
    field. Its body is not read yet.

    ``seconds``: to connect, and without a byte; two numbers where they differ.
    """
    bundle = ca_bundle(env)
    with requests.Session() as session:
        session.trust_env = not direct
        verify = str(bundle) if bundle else True
        with session.request(
            "GET" if sent is None and form is None else "POST",
            url,
            headers=headers,
            json=sent,
            files=form,
            timeout=seconds,
            verify=verify,
            stream=True,
            allow_redirects=not direct,
        ) as reply:
            yield reply


def models(base: str, key: str, env: Mapping[str, str], *, direct: bool = False) -> tuple[str, ...]:
    """The names of the models that an endpoint serves. Raises EndpointError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with page(f"{base}/models", headers, env, seconds=TIMEOUT_S, direct=direct) as reply:
            if reply.status_code != 200:
                raise http_error(base, reply.status_code, reply.reason)
            text = reply.raw.read(LARGEST, decode_content=True)
            found = json.loads(text)
    except (requests.RequestException, HTTPError) as error:
        raise connection_error(base, error) from error
    except ValueError as error:
        raise not_compatible(base, "its list of models is no JSON") from error
    entries = found.get("data") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise not_compatible(base, "its list of models has no `data`")
    return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id"))


def http_error(base: str, status: int, reason: str) -> EndpointError:
    """The error of a status that is no success."""
    if status in (401, 403):
        return EndpointError(
            f"the endpoint wants a key ({status} {reason})",
            where=redact(base),
            hint=f"set {KEY} to a key that it accepts",
        )
    if status == 404:
        return EndpointError(
            "the endpoint has no /models (404)",
            where=redact(base),
            hint="the URL ends in the API's version: http://HOST:PORT/v1",
        )
    return EndpointError(f"the endpoint answered {status} {reason}", where=redact(base), hint="read the server's log")


def connection_error(base: str, error: Exception) -> EndpointError:
    """The error of a connection that was not made."""
    if isinstance(error, requests.exceptions.SSLError):
        return EndpointError(
            "the endpoint's certificate is not trusted, or it does not speak TLS",
            where=f"{redact(base)}: {_innermost(error)}",
            hint="set SSL_CERT_FILE to the CA bundle of your network; a server without TLS wants http://",
        )
    if isinstance(error, requests.exceptions.Timeout):
        return EndpointError(
            f"the endpoint did not answer in {TIMEOUT_S} s", where=redact(base), hint="is the model loaded?"
        )
    return EndpointError(
        "the endpoint does not answer",
        where=f"{redact(base)}: {_innermost(error)}",
        hint="is the server up, on this port?",
    )


def not_compatible(base: str, why: str) -> EndpointError:
    """The error of a server that is something else."""
    return EndpointError("this is not an OpenAI-compatible endpoint", where=f"{redact(base)}: {why}")


def _innermost(error: BaseException) -> str:
    """The cause in the middle of what requests and urllib3 wrap."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error)[:200]
