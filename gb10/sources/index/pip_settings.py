"""Which package indexes the user's pip uses: its configuration files and variables, read as pip reads them."""

import configparser
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uv

from gb10.core import proc
from gb10.core.fetch import ca_bundle
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError

TIMEOUT: Final = "UV_HTTP_TIMEOUT"
FLAGS_ON = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexSettings:
    """``url`` is the index that everybody reaches; the others belong to one machine and never reach a lock."""

    url: str | None
    extra_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


def read_settings(env: Mapping[str, str], prefix: Path = Path(sys.prefix)) -> IndexSettings:
    """pip's settings, else uv's variables, else uv's default index. Raises UsageError, FetchError."""
    options = pip_options(env, prefix)
    return IndexSettings(
        url=None if options.get("no-index", "").lower() in FLAGS_ON else _url(options, env),
        extra_urls=tuple(options.get("extra-index-url", "").split()),
        find_links=tuple(options.get("find-links", "").split()),
    )


def _url(options: Mapping[str, str], env: Mapping[str, str]) -> str:
    named = options.get("index-url") or env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")
    return named or _default_url(env)


def _default_url(env: Mapping[str, str]) -> str:
    """The index that uv uses by default, by its own output."""
    argv = [uv.find_uv_bin(), "pip", "compile", "-", "--emit-index-url", "--offline", "--no-config", "--quiet"]
    try:
        text = proc.capture([*argv, "--python", sys.executable], env=uv_env(env), stdin="")
    except proc.CommandFailedError as error:
        raise FetchError(
            "uv does not print its default package index",
            where=f"{error}\n{error.tail}",
            hint="set PIP_INDEX_URL",
        ) from error
    found = re.search(r"^--index-url (\S+)$", text, re.MULTILINE)
    if not found:
        raise FetchError("no package index is configured", hint="set PIP_INDEX_URL")
    return found[1]


def uv_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv, without settings of one machine that could change a resolution."""
    return {name: value for name, value in env.items() if not name.startswith(("UV_", "PIP_", "VIRTUAL_ENV"))}


def uv_index_env(store: Store, env: Mapping[str, str], url: str | None) -> dict[str, str]:
    """The environment for a uv that fetches: the index, its cache in the store, the CA bundle. Raises UsageError."""
    bundle = ca_bundle(env)
    # On the command line, every user of the machine could read the index's password.
    own = {"UV_CACHE_DIR": str(store.root / "uv"), TIMEOUT: env.get(TIMEOUT) or "60"}
    own |= {"UV_DEFAULT_INDEX": url} if url else {}
    return uv_env(env) | own | ({"SSL_CERT_FILE": str(bundle)} if bundle else {})


def pip_options(env: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """pip's options for ``install``: files from general to special, then variables (pip's manual, Configuration).

    As in pip, [install] wins over [global] whatever file it stands in. Raises UsageError for a broken file.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in _files(env, prefix):
        parser = _parse(path)
        for name, options in sections.items():
            if parser.has_section(name):
                options.update({_normal(key): value for key, value in parser.items(name)})
    variables = {_normal(name[4:]): value for name, value in env.items() if name.startswith("PIP_") and value}
    return sections["global"] | sections["install"] | variables


def _files(env: Mapping[str, str], prefix: Path) -> tuple[Path, ...]:
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    system = [Path(folder) / "pip" for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if folder]
    folders = [*system, Path("/etc")]
    if env.get("HOME"):
        folders += [Path(env["HOME"], ".pip"), Path(env.get("XDG_CONFIG_HOME") or Path(env["HOME"], ".config"), "pip")]
    files = [folder / "pip.conf" for folder in [*folders, prefix]]
    return tuple(path for path in [*files, *([Path(named)] if named else [])] if path.is_file())


def _parse(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read pip's configuration {path}", where=str(error)) from error
    return parser


def _normal(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")
