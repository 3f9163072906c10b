"""Which Debian mirror to use: the user's setting, else the one this machine's own apt trusts Debian's key for."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gb10.core.fetch import redact
from gb10.core.fields import Model, PoolPath, Sha256, Size
from gb10.core.files import Artifact
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.sources.debian.stanza import parse

if TYPE_CHECKING:
    import requests

SETTING = "GB10_DEBIAN_MIRROR"
APT = Path("/etc/apt")
KEYRINGS = Path("/usr/share/keyrings")
ARCHIVE_KEYRING = "debian-archive-keyring"


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSource:
    """One package source of apt's configuration."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


def mirror_url(env: Mapping[str, str], apt: Path | None = None) -> str:
    """The root of a Debian archive, without a slash at its end; raises UsageError when none is known."""
    apt = apt or APT
    if env.get(SETTING):
        return env[SETTING].rstrip("/")
    for source in apt_sources(apt):
        for uri in source.uris:
            known = ARCHIVE_KEYRING in source.signed_by or (
                not source.signed_by and uri.rstrip("/").endswith("/debian")
            )
            security = "-security" in uri or any("security" in suite for suite in source.suites)
            if known and not security and "main" in source.components and uri.startswith(("http://", "https://")):
                return uri.rstrip("/")
    raise UsageError(
        "no Debian mirror is known",
        where=f"{SETTING} is not set, and no source below {apt} is Debian's own archive",
        hint=f"set {SETTING}, or debian-mirror in config.toml, to the address of a Debian mirror (it ends in /debian)",
    )


def archive_keyring(keyrings: Path = KEYRINGS) -> Path:
    """Debian's archive keys on this machine; raises UsageError when they are not installed."""
    for suffix in (".pgp", ".gpg"):
        path = keyrings / f"{ARCHIVE_KEYRING}{suffix}"
        if path.exists():
            return path
    raise UsageError(
        f"Debian's archive keys are not in {keyrings}",
        hint=f"apt-get install {ARCHIVE_KEYRING} (only `lock` needs it)",
    )


def apt_sources(apt: Path = APT) -> Iterator[AptSource]:
    """The enabled binary sources of apt's configuration, in both of its formats; raises UsageError."""
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            yield from tuple(_deb822(text) if path.suffix == ".sources" else _one_line(text))
        except (KeyError, ValueError) as error:  # a continuation of no field; an open quote or bracket
            raise UsageError(
                f"{path} is no list of package sources",
                where="a continuation line follows no field" if isinstance(error, KeyError) else str(error),
                hint=f"correct it, as `apt-get update` reports it, or set {SETTING} to a Debian mirror",
            ) from error


def _deb822(text: str) -> Iterator[AptSource]:
    for fields in parse(text):
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes").lower() not in ("no", "false"):
            yield AptSource(
                uris=tuple(fields.get("URIs", "").split()),
                suites=tuple(fields.get("Suites", "").split()),
                components=tuple(fields.get("Components", "").split()),
                signed_by=fields.get("Signed-By", ""),
            )


def _one_line(text: str) -> Iterator[AptSource]:
    for line in text.splitlines():
        options: dict[str, str] = {}
        words = shlex.split(line.replace("[", " [ ").replace("]", " ] "), comments=True)
        if words[:1] != ["deb"]:
            continue
        if words[1:2] == ["["]:
            if "]" not in words:
                raise ValueError(f"no ] closes the options of {line.strip()}")
            end = words.index("]")
            options = dict(word.split("=", 1) for word in words[2:end] if "=" in word)
            words = [words[0], *words[end + 1 :]]
        if len(words) >= 3:
            yield AptSource(
                uris=(words[1],),
                suites=(words[2],),
                components=tuple(words[3:]),
                signed_by=options.get("signed-by", ""),
            )


APT_SETTINGS: Final = """\
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
Dir "{root}";
Dir::Etc "etc";
Dir::State "state";
Dir::State::status "{root}/status";
Dir::Cache "cache";
"""
"""The text of its configuration file; ``root`` is its folder."""


class LockedDeb(Model):
    """One Debian package; ``path`` is relative to the root of any mirror of the archive."""

    name: str
    version: str
    architecture: str
    path: PoolPath
    sha256: Sha256
    size: Size

    @property
    def filename(self) -> str:
        """The file's own name, as the archive spells it."""
        return self.path.rsplit("/", 1)[-1]


STREAMS = 4
NOT_THERE = (404, 410)


def artifact(deb: LockedDeb) -> Artifact:
    """The package as a file of the store."""
    return Artifact(filename=deb.filename, sha256=deb.sha256, size=deb.size)


def fetch_debs(
    session: "requests.Session",
    store: Store,
    env: Mapping[str, str],
    debs: Sequence[LockedDeb],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> tuple[Path, ...]:
    """The packages' files in the store, in the order of ``debs``; only absent ones are fetched.

    Raises FetchError (among others when the mirror has dropped a pinned version) and UsageError (no mirror known).
    """
    from gb10.core.http_session import download  # noqa: PLC0415 - for a build; most verbs only name the files

    def fetch(deb: LockedDeb) -> Path:
        try:
            return download(session, store, artifact(deb), lambda: _url(env, deb), on_bytes)
        except FetchError as error:
            raise _explained(error, env, deb) from error

    with ThreadPoolExecutor(STREAMS) as pool:
        return tuple(pool.map(fetch, debs))


def _url(env: Mapping[str, str], deb: LockedDeb) -> str:
    return f"{mirror_url(env)}/{quote(deb.path)}"


def _explained(error: FetchError, env: Mapping[str, str], deb: LockedDeb) -> FetchError:
    import requests  # noqa: PLC0415 - for a download that failed

    cause = error.__cause__
    if not isinstance(cause, requests.HTTPError) or cause.response.status_code not in NOT_THERE:
        return error
    return FetchError(
        f"the Debian mirror no longer has {deb.name} {deb.version}, which the lock pins",
        where=redact(_url(env, deb)),
        hint="./build.py lock --upgrade base, to pin what it has now; or\n"
        f"set {SETTING} to a snapshot of the archive from the lock's day",
    )
