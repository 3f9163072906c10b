"""skopeo, which compresses by zstd where the classic engine knows gzip: Debian's own, under its own loader."""

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from gb10.containers.failure import explained
from gb10.containers.packages import fetch_packages
from gb10.containers.registry.saving import Layout
from gb10.containers.registry.transfer import Moves, hint_of
from gb10.core.concurrency import IdleTimeout, moved
from gb10.core.fetch import ca_bundle
from gb10.core.proc import SILENT, CommandFailedError, capture, capture_while_active, stream
from gb10.core.store import Store, file_sha256
from gb10.errors import EngineError, PublishError

PACKAGES = ("skopeo", "libgpgme11t64", "libassuan9", "libgpg-error0", "libsqlite3-0", "libc6")
"""12 MB to fetch; of them the program and the libraries are kept: 33 MB."""
RECORD = "packages.json"
WITHOUT = "publish without --compression: Docker compresses by itself"
PATIENCE, ANSWER = 600.0, 120.0
"""Seconds in which a push must move a byte, and a question must be answered: storing a large layer takes minutes."""
STARTED = re.compile(r"Copying blob (sha256:[0-9a-f]{64})")
SENT = re.compile(r'level=debug msg="Upload of layer (sha256:[0-9a-f]{64}) complete"')
FATAL = re.compile(r'level=fatal msg="(.*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """How a registry is met: a file of credentials that this process keeps, and whether TLS is insisted on."""

    credentials: str
    tls: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Skopeo:
    """A skopeo to run: its command with what all of its verbs take, and its environment."""

    command: tuple[str, ...]
    env: Mapping[str, str]

    def copy(self, layout: Layout, name: str, access: Access, level: int, moves: Moves) -> None:
        """Push the layout's image as ``name``, its layers as zstd, those that the registry has or can mount not again.

        Reports to ``moves`` the bytes read of unpacked layers, and which layers were sent. Raises PublishError.
        """
        pushed = layout.path / "pushed"
        argv = [
            *self.command,
            "--debug",
            "copy",
            f"--authfile={access.credentials}",
            f"--digestfile={pushed}",
            f"--dest-tls-verify={str(access.tls).lower()}",
            "--dest-compress-format=zstd",
            f"--dest-compress-level={level}",
            f"oci:{layout.path}",
            f"docker://{name}",
        ]
        started, whole = list[str](), sum(layout.sizes.values())

        def on_line(line: str) -> None:
            if sent := SENT.search(line):
                moves.moved.add(sent[1])
            if blob := STARTED.match(line):
                read = sum(layout.sizes.get(digest, 0) for digest in started)
                moves.on_move(read, whole, f"{len(started)} of {len(layout.sizes)} layers")
                started.append(blob[1])

        try:
            patience = IdleTimeout(seconds=PATIENCE, sign=moved)
            stream(argv, log=Path(os.devnull), on_line=on_line, env=self.env, patience=patience)
        except CommandFailedError as error:
            raise _refusal(error, PATIENCE) from error
        moves.on_move(whole, whole, "")
        moves.digest = pushed.read_text(encoding="ascii").strip()

    def manifest(self, name: str, access: Access) -> str:
        """The manifest that the registry has under a name, byte by byte; raises PublishError."""
        return self._asked(("inspect", "--raw"), access, name)

    def tags(self, repository: str, access: Access) -> tuple[str, ...]:
        """Every tag of a repository; raises PublishError."""
        return tuple(json.loads(self._asked(("list-tags",), access, repository))["Tags"])

    def delete(self, name: str, access: Access) -> None:
        """Delete a manifest, and all tags that name it; raises PublishError, also where the registry forbids that."""
        self._asked(("delete",), access, name)

    def put(self, layout: Path, name: str, access: Access) -> None:
        """Push what the only entry of a layout is, byte by byte: a manifest with its blobs, or an index alone."""
        options = ("copy", "--quiet", "--preserve-digests", "--multi-arch=index-only")
        self._asked(options, access, name, "--dest-tls-verify", f"oci:{layout}")

    def _asked(self, verb: tuple[str, ...], access: Access, name: str, tls: str = "--tls-verify", *source: str) -> str:
        known = (f"--authfile={access.credentials}", f"{tls}={str(access.tls).lower()}")
        try:
            argv = [*self.command, *verb, *known, *source, f"docker://{name}"]
            return capture_while_active(argv, env=self.env, patience=ANSWER)
        except CommandFailedError as error:
            raise _refusal(error, ANSWER) from error


def open_skopeo(store: Store, env: Mapping[str, str]) -> Skopeo:
    """The skopeo of the store, fetched from the host's Debian mirror when it is absent or damaged.

    Its record of blobs stays in the store. It does not read this machine's policy.json, registries.conf and auth.json.
    Raises EngineError (no apt, mirror or signature wrong) and UsageError (no mirror is known).
    """
    with store.locked("skopeo"):
        folder = store.entry("engine", f"skopeo-{platform.machine()}")
        if not _sound(folder):
            store.replace(folder, lambda out: _unpack(store, env, out))
    home = store.entry("engine", "skopeo")
    (home / "registries.d").mkdir(parents=True, exist_ok=True)
    (home / "registries.conf").touch()
    lib = folder / "lib"
    loader = next(lib.glob("ld-linux-*.so.*"))
    command = (
        str(loader),
        "--library-path",
        str(lib),
        str(folder / "skopeo"),
        "--insecure-policy",
        f"--registries.d={home / 'registries.d'}",
        f"--registries-conf={home / 'registries.conf'}",
        f"--tmpdir={home}",
    )
    bundle = ca_bundle(env)
    # For root it keeps its record of blobs in /var/lib; for any other user below XDG_DATA_HOME.
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home), "_CONTAINERS_ROOTLESS_UID": "1"}
    return Skopeo(command=command, env={**env, **own, **({"SSL_CERT_FILE": str(bundle)} if bundle else {})})


def _sound(folder: Path) -> bool:
    """Whether every file is what was unpacked."""
    record = folder / RECORD
    sha256 = json.loads(record.read_text(encoding="utf-8"))["sha256"] if record.is_file() else {"": ""}
    return all((folder / name).is_file() and file_sha256(folder / name) == found for name, found in sha256.items())


def _unpack(store: Store, env: Mapping[str, str], out: Path) -> None:
    try:
        with fetch_packages(store, env, PACKAGES) as debs:
            versions = dict(_take(debs, out / "tree"))
    except EngineError as error:
        raise EngineError(error.message, where=error.where, hint=WITHOUT) from error
    (out / "tree/usr/bin/skopeo").rename(out / "skopeo")
    (out / "lib").mkdir()
    for path in (out / "tree/usr/lib").glob("*-linux-gnu/*.so*"):
        path.rename(out / "lib" / path.name)
    rmtree(out / "tree")
    sha256 = {str(path.relative_to(out)): file_sha256(path) for path in sorted(out.rglob("*")) if path.is_file()}
    record = json.dumps({"versions": versions, "sha256": sha256}, indent=2, sort_keys=True)
    (out / RECORD).write_text(f"{record}\n", encoding="utf-8")


def _take(debs: Sequence[Path], tree: Path) -> list[tuple[str, str]]:
    """Unpack the packages; their names and versions."""
    with explained("skopeo cannot be unpacked", hint="see whether the store's disk is full, and run again"):
        for deb in debs:
            capture(["dpkg-deb", "--extract", str(deb), str(tree)])
        fields = [capture(["dpkg-deb", "--show", "--showformat", "${Package} ${Version}", str(deb)]) for deb in debs]
    return [(name, version) for name, _, version in (field.partition(" ") for field in fields)]


def _refusal(error: CommandFailedError, patience: float) -> PublishError:
    """The last error text of skopeo, unchanged; after silence, how long it lasted."""
    if error.returncode == SILENT:
        return PublishError(
            f"the registry moved nothing for {patience:.0f} s",
            hint="check the network and the registry, then publish again: layers that it has are not sent again",
        )
    fatal = FATAL.search(error.tail)
    reason = fatal[1].replace('\\"', '"') if fatal else error.tail.strip().rpartition("\n")[2] or str(error)
    return PublishError(reason, hint=hint_of(reason))
