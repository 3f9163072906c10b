"""The works that bad days fall on: what a command does, what may be true at any moment, and what must be at its end."""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from gb10.containers.connection import Engine, client
from gb10.containers.images import find_image
from gb10.core.store import Store, file_sha256, seal
from gb10.core.store_gc import KEPT as LASTING
from gb10.core.store_gc import SECTIONS
from gb10.image.build.image_build import ImageBuild
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import proven
from tests.bad_days.blows import Surroundings
from tests.bad_days.world import REPO, World
from tests.integration.test_pipeline import small_plan
from tests.integration.test_wheel_cache import LIBRARY

NAME: Final = "gb10/test"
ARM: Final = "linux/arm64"
BULK: Final = 3_000_000
"""Bytes of an image that are new each time."""
NEW: Final = 3
"""The uppermost layers of an image, which differ from the last one's."""
KEPT: Final = "kept/below:1"
DAY: Final = 86_400
MANIFESTS: Final = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"


class Work(Protocol):
    """One command that is struck again and again."""

    name: str

    def renew(self, chance: Random) -> None:
        """Give the command something new to do."""

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        """Its command line, and what it has in its environment beside the world's."""

    def around(self) -> Surroundings:
        """What can break beside it."""

    def wrong(self, *, done: bool) -> Iterator[str]:
        """What is wrong now; ``done``: the command has succeeded."""


@dataclass(slots=True)
class Images:
    """``image``: the same digest as on the machine that nothing happens to, or no tag."""

    world: World
    name: str = "image"
    folder: Path = field(init=False)
    plan: Plan = field(init=False)
    truth: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    """Config digests by tag, of all that was ever built."""

    def renew(self, chance: Random) -> None:
        self.folder = self.world.folder / "overlay"
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "etc").mkdir(parents=True)
        (self.folder / "etc/motd.gb10").write_bytes(chance.randbytes(BULK))
        self.plan = small_plan(self.world.truth, overlay=self.folder)
        self.truth = ImageBuild(self.world.truth, self.plan).image().digest
        self.digests[self.plan.tags[-1]] = self.truth

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        return self.world.small("image", "--json"), {"GB10_TEST_OVERLAY": str(self.folder)}

    def around(self) -> Surroundings:
        return Surroundings(engine=self.world.engine, full=self.world.full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        for tag, digest in self.digests.items():
            found = find_image(self.world.engine, tag)
            if found and (found.id != digest or proven(self.world.store, found.id) is None):
                yield f"{tag} is {found.id}, not {digest}, or not proven"
        moving = find_image(self.world.engine, self.plan.tags[0])
        if moving and moving.id not in self.digests.values():
            yield f"the moving tag names {moving.id}"
        here = find_image(self.world.engine, self.plan.tags[-1])
        if done and (here is None or moving is None or moving.id != here.id):
            yield "an image that was built has not its tags"


@dataclass(slots=True)
class Publishing:
    """``publish``: each tag of the registry names an image that is whole, the right one where it has a key."""

    world: World
    images: Images
    name: str = "publish"
    zstd: bool = False

    @property
    def repository(self) -> str:
        """Layers of gzip and of zstd each have one: skopeo would take either for the other."""
        return "bad/day-zstd" if self.zstd else "bad/day"

    def renew(self, chance: Random) -> None:
        """The registry loses the tags and the layers that are new in this image; those below stay."""
        self.zstd = chance.random() < 0.25
        found = manifest(self.world, self.repository, self.images.plan.tags[-1].rpartition(":")[2])
        storage = self.world.folder / "storage/docker/registry/v2"
        for digest in [one["digest"] for one in (found["layers"][-NEW:] if found else ())]:
            name = digest.removeprefix("sha256:")
            shutil.rmtree(storage / "blobs/sha256" / name[:2] / name, ignore_errors=True)
            for repository in (storage / "repositories/bad").iterdir():
                shutil.rmtree(repository / "_layers/sha256" / name, ignore_errors=True)
        shutil.rmtree(storage / "repositories" / self.repository / "_manifests", ignore_errors=True)

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        more = ("--compression", "zstd") if self.zstd else ()
        target = f"{self.world.line.host}/{self.repository}"
        return self.world.build_py("publish", self.images.plan.tags[-1], target, "--json", *more), {}

    def around(self) -> Surroundings:
        return Surroundings(engine=self.world.engine, line=self.world.line, full=self.world.full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        tags = [tag.rpartition(":")[2] for tag in (self.images.plan.tags[-1], self.images.plan.tags[0])]
        found = {tag: manifest(self.world, self.repository, tag) for tag in tags}
        if found[tags[1]] and not found[tags[0]]:
            yield "the moving tag came first"
        for tag, one in found.items():
            if one is None:
                if done:
                    yield f"{tag} is not in the registry"
                continue
            if one["config"]["digest"] != self.images.truth:
                yield f"{tag} is {one['config']['digest']}, not {self.images.truth}"
            for blob in (one["config"], *one["layers"]):
                if size(self.world, self.repository, blob["digest"]) != blob["size"]:
                    yield f"{tag} lacks {blob['digest']}"
        if done:
            local = find_image(self.world.engine, self.images.plan.tags[-1])
            if local is None:
                yield "the image is gone from the machine that published it"


@dataclass(slots=True)
class Pulling:
    """``pull``: a node has the image, or not, under the name; never another."""

    world: World
    images: Images
    publishing: Publishing
    name: str = "pull"
    struck: int = 0

    def renew(self, chance: Random) -> None:
        self.struck = chance.randrange(2)
        for node in self.world.nodes:
            with closing(client(node)) as sdk:
                images = sdk.images.list()
                if images and not any(KEPT in image.tags for image in images):
                    images[0].tag(*KEPT.split(":"))  # the layers below stay
                for image in images:
                    for tag in image.tags:
                        if tag != KEPT:
                            sdk.images.remove(tag)

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        hosts = [word for host in self.world.hosts for word in ("--host", host)]
        return self.world.build_py("pull", self.reference, *hosts, "--platform", ARM, "--json"), {}

    @property
    def reference(self) -> str:
        return f"{self.world.line.host}/{self.publishing.repository}:{self.images.plan.tags[-1].rpartition(':')[2]}"

    def around(self) -> Surroundings:
        return Surroundings(engine=self.world.nodes[self.struck], line=self.world.line, full=self.world.node_full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        for host, node in zip(self.world.hosts, self.world.nodes, strict=True):
            found = find_image(node, self.reference) if host in self.command()[0] else None
            missing = done and found is None and host in self.command()[0]
            if missing or (found and found.id != self.images.truth):
                yield f"{host} has {found.id if found else 'no image'}, not {self.images.truth}"


@dataclass(slots=True)
class ThroughHead(Pulling):
    """``pull --via-head``: the same from the machine itself, to the node that ssh reaches."""

    name: str = "pull --via-head"

    @property
    def reference(self) -> str:
        return self.images.plan.tags[-1]

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        words = ("--via-head", "localhost", "--host", self.world.hosts[1], "--platform", ARM, "--json")
        return self.world.build_py("pull", self.reference, *words), {}

    def around(self) -> Surroundings:
        return Surroundings(engine=(self.world.engine, self.world.nodes[1])[self.struck], full=self.world.full)


@dataclass(slots=True)
class Sharing:
    """``cache push``: whoever reads the cache finds only wheels that are listed, signed and whole."""

    world: World
    name: str = "cache push"
    key: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    def renew(self, chance: Random) -> None:
        self.key = hashlib.sha256(chance.randbytes(16)).hexdigest()
        path = write_wheel(self.world.store, self.key, chance.randbytes(BULK))
        self.sha256[self.key] = file_sha256(path)

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        return self.world.build_py("cache", "push", "--all", "--json"), {}

    def around(self) -> Surroundings:
        return Surroundings(line=self.world.hub_line, full=self.world.full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        tree = self.world.hub.repositories[REPO].commits[-1]
        listing = json.loads(self.world.hub.blobs[tree["wheels.json"]])["wheels"] if "wheels.json" in tree else {}
        for key, listed in listing.items():
            found = tree.get(f"wheels/{key}/{listed['file']}")
            if found != listed["sha256"] or found not in self.world.hub.blobs:
                yield f"the listing names {listed['file']} as {listed['sha256']}, and there is {found}"
            if key in self.sha256 and self.sha256[key] != found:
                yield f"{listed['file']} is another wheel than the one that was pushed"
        if ("wheels.json" in tree) != ("wheels.json.sig" in tree):
            yield "a listing without its signature, or the other way round"
        if done and self.key not in listing:
            yield "a wheel that was pushed is not listed"


@dataclass(slots=True)
class Taking:
    """``cache pull`` on a second machine: a wheel is in its store whole, or not at all."""

    world: World
    sharing: Sharing
    name: str = "cache pull"

    @property
    def store(self) -> Store:
        return Store(self.world.store.root / "second")

    def renew(self, chance: Random) -> None:
        shutil.rmtree(self.store.entry("wheels", chance.choice(sorted(self.sharing.sha256))), ignore_errors=True)

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        argv = self.world.build_py("cache", "pull", "--all", "--json")
        return [argv[0], "-m", "gb10", *argv[2:]], {"GB10_CACHE_DIR": str(self.store.root)}

    def around(self) -> Surroundings:
        return Surroundings(line=self.world.hub_line, full=self.world.full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        for key, sha256 in self.sharing.sha256.items():
            found = next(self.store.entry("wheels", key).glob("*.whl"), None)
            if found and file_sha256(found) != sha256:
                yield f"{found} is not the wheel that was pushed"
            if done and found is None and self._listed(key):
                yield f"{key} was not taken"

    def _listed(self, key: str) -> bool:
        tree = self.world.hub.repositories[REPO].commits[-1]
        return any(path.startswith(f"wheels/{key}/") for path in tree)


@dataclass(slots=True)
class Collecting:
    """``cache gc`` in a store of old entries: each is whole or gone, and what is young stays."""

    world: World
    name: str = "cache gc"
    young: str = ""
    old: dict[str, str] = field(default_factory=dict)
    """The sha256 of the file of an entry, by its path."""

    @property
    def store(self) -> Store:
        return Store(self.world.store.root / "attic")

    def renew(self, chance: Random) -> None:
        shutil.rmtree(self.store.root, ignore_errors=True)
        self.old = {}
        sections = [section for section in SECTIONS if section != LASTING]  # which is never chosen to go
        for number in range(40):
            content = chance.randbytes(4_000)
            sha256 = hashlib.sha256(content).hexdigest()
            section = sections[number % len(sections)]
            entry = self.store.entry(section, sha256)
            for name in (f"file-{inner}" for inner in range(1 if section == "downloads" else 10)):
                entry.mkdir(parents=True, exist_ok=True)
                (entry / name).write_bytes(content)
                self.old[str(entry / name)] = sha256
            _age(entry, 3 * DAY)
        self.young = hashlib.sha256(b"young").hexdigest()
        self.store.entry("downloads", self.young).mkdir(parents=True)
        (self.store.entry("downloads", self.young) / "file").write_bytes(b"young")

    def command(self) -> tuple[Sequence[str], dict[str, str]]:
        argv = self.world.build_py("cache", "gc", "--older-than", "1d", "--json")
        return [argv[0], "-m", "gb10", *argv[2:]], {"GB10_CACHE_DIR": str(self.store.root)}

    def around(self) -> Surroundings:
        return Surroundings(full=self.world.full)

    def wrong(self, *, done: bool) -> Iterator[str]:
        there = {Path(path).parent for path in self.old if Path(path).parent.is_dir()}
        for path, sha256 in self.old.items():
            if Path(path).parent in there and _unread_sha256(Path(path)) != sha256:
                yield f"{path} is not whole"
        if done and there:
            yield f"{len(there)} old entries are not collected"
        if not (self.store.entry("downloads", self.young) / "file").is_file():
            yield "a young entry is gone"


def _age(folder: Path, seconds: float) -> None:
    for path in (folder, *folder.iterdir()):
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


def _unread_sha256(path: Path) -> str:
    """The sha256 of a file, empty when it is gone; it does not count as used."""
    if not path.is_file():
        return ""
    stat, found = path.stat(), file_sha256(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return found


def write_wheel(store: Store, key: str, bulk: bytes) -> Path:
    """A compiled wheel in a store, as a compile leaves it."""
    folder = store.entry("wheels", key)
    folder.mkdir(parents=True)
    path = folder / f"kernels-1.0+gb10.{key[:8]}-py3-none-any.whl"
    manifest = {"modules": {"k": {"file": "pack/libk.so", "cubins": ["12.1f"]}}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(LIBRARY, "pack/libk.so")
        archive.writestr("pack/manifest.json", json.dumps(manifest))
        archive.writestr("pack/bulk", bulk)
    seal(path)
    return path


def manifest(world: World, repository: str, tag: str) -> dict[str, Any] | None:
    """A manifest of the registry, asked directly."""
    asked = Request(f"http://{world.place.host}/v2/{repository}/manifests/{tag}", headers={"Accept": MANIFESTS})
    try:
        with urlopen(asked) as reply:  # noqa: S310 - http, to the registry of the test
            found: dict[str, Any] = json.load(reply)
            return found
    except HTTPError as error:
        if error.code != 404:
            raise
        return None


def size(world: World, repository: str, digest: str) -> int | None:
    """Bytes of a blob that the registry has."""
    asked = Request(f"http://{world.place.host}/v2/{repository}/blobs/{digest}", method="HEAD")
    try:
        with urlopen(asked) as reply:  # noqa: S310 - http, to the registry of the test
            return int(reply.headers["Content-Length"])
    except HTTPError as error:
        if error.code != 404:
            raise
        return None


def engines(world: World) -> tuple[Engine, ...]:
    """The engines that commands use."""
    return (world.engine, *world.nodes)
