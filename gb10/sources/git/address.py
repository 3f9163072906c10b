"""URLs of git repositories that are read, and the login in one. git gets it by its environment."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from gb10.core.proc import without_logins
from gb10.errors import FetchError
from gb10.sources.web import HERE

SCHEMES: Final = ("https", "ssh", "file")


def split_git_url(url: str) -> SplitResult | None:
    """The parts of a URL; None for one that is not read: http is for this machine alone.

    Raises ValueError for one that is none.
    """
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in HERE
    return parts if url.isprintable() and " " not in url and (parts.scheme in SCHEMES or local) else None


USER: Final = "GB10_GIT_USER"
PASSWORD: Final = "GB10_GIT_PASSWORD"  # noqa: S105 - a variable's name
HELPER: Final = f'!f() {{ test "$1" != get || printf "username=%s\\npassword=%s\\n" "${USER}" "${PASSWORD}"; }}; f'
"""A credential helper. Git starts it in a shell, with a verb as its argument."""
CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
COUNT: Final = "GIT_CONFIG_COUNT"


def without_login(url: str, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The URL without its login, and the environment from which git reads that login. Raises FetchError.

    In an ssh URL the user name stays: it is no secret. ssh takes no password from a URL.
    """
    parts = _parts(url)
    login, _, host = parts.netloc.rpartition("@")
    name, colon, password = login.partition(":")
    if not login:
        return url, dict(env)
    if parts.scheme not in ("http", "https"):
        return urlunsplit(parts._replace(netloc=f"{name}@{host}")), dict(env)
    plain = urlunsplit(parts._replace(netloc=host))
    user, secret = (unquote(part, errors="surrogateescape") for part in (name, password))
    if CONTROL.search(user + secret):
        raise _unreadable(plain, "its login holds a control character")
    scope = f"credential.{parts.scheme}://{host}"
    if not colon:
        return plain, _set(env, (f"{scope}.username", user))
    settings = _set(env, (f"{scope}.helper", ""), (f"{scope}.helper", HELPER))  # an empty one drops the user's own
    return plain, settings | {USER: user, PASSWORD: secret}


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _unreadable(without_logins(url), str(error)) from error


def _unreadable(url: str, why: str) -> FetchError:
    return FetchError(
        f"the URL of a git repository cannot be read: {why}",
        where=url,
        hint="correct it in the recipe: https://USER:PASSWORD@HOST/PATH, odd characters of the login as %XX",
    )


def _set(env: Mapping[str, str], *settings: tuple[str, str]) -> dict[str, str]:
    """The environment with more settings of git, after those that it holds."""
    first = int(env[COUNT]) if env.get(COUNT, "").isdecimal() else 0
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(settings, first)}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(settings, first)}
    return {**env, **keys, **values, COUNT: str(first + len(settings))}
