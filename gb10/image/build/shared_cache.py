"""The shared compile cache: a server that ccache uses in addition to the builder's own folder.

It changes only the speed, so no key has it. The URL may hold a password, so it is a build secret.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gb10.core.config import variable, without_login
from gb10.core.host import Host
from gb10.image.build.contexts import secret_file
from gb10.image.plan.values import Inputs
from gb10.patches.patched import adds_files

SCRIPT: Final = "inside/compile_cache.py"
SAYS: Final = "compile cache: "
CONNECT_TIMEOUT: Final = 1000  # milliseconds; ccache's own 100 are for a network without routers


def shared_cache(env: Mapping[str, str], inputs: Inputs) -> str | None:
    """The server's URL, when this machine has one set; None for a change by hand.

    What such a compile writes, and the server's password that it could read, would reach every later build.
    """
    return None if inputs.by_hand else env.get(variable("compile-cache")) or None


def reads_reviewed(inputs: Inputs) -> bool:
    """Whether what is by hand may take results of reviewed builds.

    Not with a new file: it can hide a header of the same name. ccache looks results up by the compiler's list of
    headers (CCACHE_DEPEND), which does not show that. Raises PatchError when a diff has changed since.
    """
    return not adds_files([use for origin in inputs.origins for use in origin.patches])


@contextmanager
def cache_secret(host: Host, inputs: Inputs) -> Iterator[Mapping[str, Path]]:
    """The server's URL as a build secret. The log shows it, because the stage gets a network."""
    url = shared_cache(host.env, inputs)
    if url is None:
        yield {}
        return
    host.reporter.say(f"compile cache {without_login(url)}: the compile stage has a network for it")
    with secret_file(host.store, configuration(url)) as path:
        yield {"compile-cache": path}


def configuration(url: str) -> str:
    """ccache's configuration. ``reshare``: what lies in the builder's own folder goes to the server, too."""
    return f"remote_storage = {with_user(url)}|connect-timeout={CONNECT_TIMEOUT}\nreshare = true\n"


def with_user(url: str) -> str:
    """A redis URL that names its user: ccache takes ``:secret@`` for no login, and splits at a coded colon."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    user, _, password = login.rpartition(":")
    if parts.scheme != "redis" or not at or user:
        return url
    return urlunsplit(parts._replace(netloc=f"default:{password}@{place}"))
