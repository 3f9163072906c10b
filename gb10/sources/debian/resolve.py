"""The closure of a set of Debian packages, by an apt of our own: its own state, Debian's keys, no host package.

Only ``lock`` comes here. Main of the suite and of its updates is read, not the security suite: that pool drops a
version days after its successor, so a lock over it would be dead within weeks; its fixes arrive with each point
release and ``lock --upgrade base``.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from gb10.core.fetch import redact
from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.sources.debian.mirror import APT_SETTINGS, SETTING, LockedDeb, archive_keyring, mirror_url
from gb10.sources.debian.stanza import parse

URI_LINE = re.compile(r"^'[^']+' (?P<name>[^_ ]+)_(?P<version>[^_ ]+)_(?P<architecture>[^_ ]+)\.deb ", re.MULTILINE)
CLOSURE = """\
APT::Architecture "{architecture}";
APT::Architectures {{ {architectures} }};
APT::Install-Recommends "false";
APT::Cmd::Pattern-Only "true";
pkgCacheGen::ForceEssential "";
"""


def resolve_set(
    store: Store,
    env: Mapping[str, str],
    *,
    suite: str,
    architecture: str,
    foreign: tuple[str, ...] = (),
    packages: tuple[str, ...],
) -> tuple[LockedDeb, ...]:
    """Debian's essential packages, ``packages`` and all they depend on, sorted by name and architecture.

    Needs apt on this machine and the network. Raises UsageError (no apt, no mirror, an unknown package) and
    FetchError (the mirror does not answer, or its signature is not Debian's).
    """
    if not shutil.which("apt-get"):
        raise UsageError("`lock` needs apt-get to resolve Debian packages", hint="run it on a Debian or Ubuntu machine")
    with _apt(store, env, suite=suite, architectures=(architecture, *foreign)) as configuration:
        essential = f"?architecture({architecture})?essential"
        chosen = _install(env, configuration, [essential, *packages])
        return tuple(sorted(_show(env, configuration, chosen), key=lambda deb: (deb.name, deb.architecture)))


@contextmanager
def _apt(store: Store, env: Mapping[str, str], *, suite: str, architectures: Sequence[str]) -> Iterator[Path]:
    """The configuration file of an apt with fresh lists of the suite; it is gone afterwards."""
    source = f"deb [signed-by={archive_keyring()}] {mirror_url(env)}"
    root = store.scratch("apt")
    try:
        for name in ("etc/preferences.d", "etc/trusted.gpg.d", "state/lists/partial", "cache/archives/partial"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        sources = f"{source} {suite} main\n{source} {suite}-updates main\n"
        (root / "etc/sources.list").write_text(sources, encoding="utf-8")
        configuration = root / "apt.conf"
        quoted = " ".join(f'"{name}";' for name in architectures)
        text = APT_SETTINGS.format(root=root)
        text += CLOSURE.format(architecture=architectures[0], architectures=quoted)
        configuration.write_text(text, encoding="utf-8")
        _update(env, configuration, suite)
        yield configuration
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _update(env: Mapping[str, str], configuration: Path, suite: str) -> None:
    try:
        capture(["apt-get", "-q", "-c", str(configuration), "update"], env=_locale(env))
    except CommandFailedError as error:
        raise FetchError(
            f"cannot read Debian {suite} from {redact(mirror_url(env))}",
            where=error.tail,
            hint=f"check the network, or set {SETTING} to another mirror",
        ) from error


def _install(env: Mapping[str, str], configuration: Path, wanted: Sequence[str]) -> list[tuple[str, str, str]]:
    """(name, version, architecture) of all packages apt would install into an empty system."""
    argv = ["apt-get", "-q", "-c", str(configuration), "--yes", "--print-uris", "install", *wanted]
    try:
        text = capture(argv, env=_locale(env))
    except CommandFailedError as error:
        raise UsageError(
            "apt cannot install the base's packages together",
            where=error.tail,
            hint="correct the package names under base.packages in the recipe",
        ) from error
    return [(m["name"], unquote(m["version"]), m["architecture"]) for m in URI_LINE.finditer(text)]


def _show(env: Mapping[str, str], configuration: Path, chosen: Sequence[tuple[str, str, str]]) -> Iterator[LockedDeb]:
    """What the signed package lists say of exactly these versions."""
    names = [f"{name}{'' if arch == 'all' else ':' + arch}={version}" for name, version, arch in chosen]
    text = capture(["apt-cache", "-c", str(configuration), "show", *names], env=_locale(env))
    yield from map(locked_deb, parse(text))


def locked_deb(fields: Mapping[str, str]) -> LockedDeb:
    """A package as the lock has it, by its stanza in a package list; raises FetchError when a field is absent. Pure."""
    try:
        return LockedDeb(
            name=fields["Package"],
            version=fields["Version"],
            architecture=fields["Architecture"],
            path=fields["Filename"],
            sha256=fields["SHA256"],
            size=int(fields["Size"]),
        )
    except KeyError as error:
        raise FetchError(
            f"the Debian mirror's package list has no {error.args[0]} for {fields.get('Package', 'a package')}",
            where=", ".join(f"{name}: {fields[name]}" for name in ("Version", "Architecture") if name in fields)
            or None,
            hint=f"set {SETTING} to another mirror of Debian, then lock again",
        ) from error


def _locale(env: Mapping[str, str]) -> dict[str, str]:
    return {**env, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
