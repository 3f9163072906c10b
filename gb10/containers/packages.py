"""The embedded engine's programs: Debian's own packages, accepted by apt's signatures, unpacked into the store."""

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gb10.containers.failure import explained
from gb10.core.files import digest
from gb10.core.proc import CommandFailedError, capture, without_logins
from gb10.core.store import Store, file_sha256
from gb10.errors import EngineError
from gb10.sources.debian.mirror import APT_SETTINGS, archive_keyring, mirror_url

SUITE = "trixie"
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "docker.io": ("usr/sbin/dockerd",),
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2"),
    "runc": ("usr/sbin/runc",),
    "docker-cli": ("usr/bin/docker",),
    "docker-buildx": ("usr/libexec/docker/cli-plugins/docker-buildx",),
}
"""Of each package only these programs are kept: 274 of 311 MB."""
RUNC_SUITES = (((2, 38), SUITE), ((2, 34), "bookworm"))
"""The least glibc that each suite's runc needs, newest first; trixie's other programs need 2.34 (Depends)."""
RETRY = "run the command again; or install Docker and point to it by DOCKER_HOST"


@dataclass(frozen=True, slots=True)
class Programs:
    """The unpacked programs, the package versions that they came from, and each program's sha256."""

    bin: Path
    versions: Mapping[str, str]
    sha256: Mapping[str, str]


def unpacked(store: Store) -> Programs | None:
    """The programs if they are already in the store; uses no network."""
    record = _record(store)
    if not record.is_file():
        return None
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        programs = Programs(store.entry("engine", found["key"]) / "bin", found["versions"], found.get("sha256", {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # emptied or cut: the packages are fetched again
    return programs if programs.bin.is_dir() else None


def unpack(store: Store, env: Mapping[str, str]) -> Programs:
    """The programs, fetched from the host's Debian mirror when the store lacks them (79 MB).

    Raises EngineError (no apt, libc too old, mirror or signature wrong) and UsageError (no mirror is known).
    """
    with store.locked("engine-packages"):
        return unpacked(store) or _fetch(store, env)


def unpack_sound(store: Store, env: Mapping[str, str]) -> tuple[Programs, tuple[str, ...]]:
    """The programs after a look at every byte (270 MB), and the names of those that had to be fetched again.

    Raises as ``unpack``.
    """
    with store.locked("engine-packages"):
        programs = unpacked(store)
        broken = damaged(programs) if programs else ()
        return (programs, ()) if programs and not broken else (_fetch(store, env), broken)


def damaged(programs: Programs) -> tuple[str, ...]:
    """The programs that changed since they were unpacked, or have no recorded sha256."""
    names = (Path(path).name for paths in PROGRAMS.values() for path in paths)
    return tuple(name for name in names if not _sound(programs.bin / name, programs.sha256.get(name)))


def _sound(path: Path, sha256: str | None) -> bool:
    return path.is_file() and file_sha256(path) == sha256


def _record(store: Store) -> Path:
    return store.entry("engine", "packages.json")


def _fetch(store: Store, env: Mapping[str, str]) -> Programs:
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool, path=env.get("PATH")) is None]
    if missing:
        raise EngineError(
            f"the embedded engine is unpacked by apt, and {' and '.join(missing)} is not here",
            hint="install Docker and point to it by DOCKER_HOST",
        )
    work = store.scratch("apt")
    try:
        packages = {name: _runc_suite() if name == "runc" else SUITE for name in PROGRAMS}
        debs = _download(work, env, packages, "the embedded engine")
        versions = dict(_version(deb) for deb in debs)
        key = digest(versions | {"machine": platform.machine()})[:16]
        shutil.rmtree(store.entry("engine", key), ignore_errors=True)
        programs = store.ensure("engine", key, lambda out: _keep_programs(debs, out)) / "bin"
        sha256 = {path.name: file_sha256(path) for path in programs.iterdir()}
        record = {"key": key, "versions": versions, "sha256": sha256}
        store.write_text(_record(store), json.dumps(record, indent=2, sort_keys=True) + "\n")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Programs(programs, versions, sha256)


@contextmanager
def fetch_packages(
    store: Store, env: Mapping[str, str], names: Sequence[str], architecture: str | None = None
) -> Iterator[Sequence[Path]]:
    """Packages of the suite, accepted by apt's signatures; gone afterwards. Raises EngineError.

    They are for this machine, or for another ``architecture``, in Debian's spelling.
    """
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool, path=env.get("PATH")) is None]
    if missing:
        raise EngineError(
            f"{' and '.join(names)} is fetched by apt, and {' and '.join(missing)} is not here",
            hint=f"install {' and '.join(names)} by your system's own means",
        )
    work = store.scratch("apt")
    try:
        yield _download(work, env, dict.fromkeys(names, SUITE), ", ".join(names), architecture)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(
    root: Path, env: Mapping[str, str], packages: Mapping[str, str], what: str, architecture: str | None = None
) -> Sequence[Path]:
    """The packages, by name and suite, without what they depend on."""
    source = f"deb [signed-by={archive_keyring()}] {mirror_url(env)}"
    for name in ("etc/preferences.d", "etc/trusted.gpg.d", "state/lists/partial", "cache/archives/partial", "debs"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    suites = dict.fromkeys(packages.values())
    (root / "etc/sources.list").write_text("".join(f"{source} {suite} main\n" for suite in suites), encoding="utf-8")
    chosen = f'APT::Architecture "{architecture}";\n' if architecture else ""
    (root / "apt.conf").write_text(APT_SETTINGS.format(root=root) + chosen, encoding="utf-8")
    apt = ["apt-get", "-q", "-c", str(root / "apt.conf")]
    wanted = [f"{name}/{suite}" for name, suite in packages.items()]
    try:
        capture([*apt, "update"], env={**env, "LC_ALL": "C"})
        capture([*apt, "download", *wanted], env={**env, "LC_ALL": "C"}, cwd=root / "debs")
    except CommandFailedError as error:
        raise EngineError(
            f"cannot fetch {what} from {without_logins(mirror_url(env))}",
            where=error.tail,
            hint="check the network and the mirror in apt's sources (or GB10_DEBIAN_MIRROR);\n"
            "or install Docker and point to it by DOCKER_HOST",
        ) from error
    return sorted((root / "debs").glob("*.deb"))


def _runc_suite() -> str:
    name, _, text = (os.confstr("CS_GNU_LIBC_VERSION") or "another libc 0").rpartition(" ")
    have = tuple(int(part) for part in text.split(".")[:2])
    for least, suite in RUNC_SUITES:
        if have >= least:
            return suite
    raise EngineError(
        f"the embedded engine needs glibc 2.34 or newer, here is {name} {text}",
        hint="install Docker and point to it by DOCKER_HOST",
    )


def _version(deb: Path) -> tuple[str, str]:
    with explained(f"{deb.name} cannot be read", hint=RETRY):
        fields = capture(["dpkg-deb", "--show", "--showformat", "${Package} ${Version}", str(deb)])
    name, _, version = fields.partition(" ")
    return name, version


def _keep_programs(debs: Sequence[Path], out: Path) -> None:
    tree = out / "tree"
    (out / "bin").mkdir()
    for deb in debs:
        with explained(f"{deb.name} cannot be unpacked", hint="see whether the store's disk is full, and run again"):
            capture(["dpkg-deb", "--extract", str(deb), str(tree)])
    for paths in PROGRAMS.values():
        for path in paths:
            (tree / path).rename(out / "bin" / Path(path).name)
    shutil.rmtree(tree)
