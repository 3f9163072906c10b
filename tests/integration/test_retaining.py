"""What goes with an image that is deleted, and what an image that stays keeps: read from the registry's own disk."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from gb10.cli import main
from gb10.containers.connection import client
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.referrers import Descriptor, write_index
from gb10.containers.registry.repository import INDEX, MANIFEST
from gb10.core.proc import capture
from gb10.image.build.image_build import ImageBuild
from gb10.image.context import Context
from gb10.image.publish.publishing import publish
from tests.integration.nodes import Registry, registry
from tests.integration.signers import signing_shop
from tests.integration.test_pipeline import small_plan

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NAME = "gb10/kept"


@dataclass(frozen=True, slots=True)
class Disk:
    """What a registry keeps of the repository, read without asking it."""

    folder: Path

    @property
    def _repository(self) -> Path:
        return self.folder / "storage/docker/registry/v2/repositories" / NAME

    def manifests(self) -> dict[str, dict[str, Any]]:
        """Its manifests and indexes, by digest."""
        found = self._repository.glob("_manifests/revisions/sha256/*/link")
        return {path.read_text(): json.loads(self.blob(path.read_text()).read_bytes()) for path in found}

    def tags(self) -> dict[str, str]:
        """The digest of each tag."""
        return {path.parts[-3]: path.read_text() for path in self._repository.glob("_manifests/tags/*/current/link")}

    def blob(self, digest: str) -> Path:
        """Where the bytes of a digest are."""
        name = digest.removeprefix("sha256:")
        return self.folder / "storage/docker/registry/v2/blobs/sha256" / name[:2] / name / "data"

    def blobs(self) -> set[str]:
        """All bytes that it keeps, by digest."""
        return {f"sha256:{path.parts[-2]}" for path in self.blob(f"sha256:{'0' * 64}").parents[2].glob("*/*/data")}

    def belonging(self, digest: str) -> set[str]:
        """Digests of a manifest, its parts, all that says that it belongs to it, and every list of these."""
        manifests = self.manifests()
        parts = {part["digest"] for part in (manifests[digest]["config"], *manifests[digest]["layers"])}
        beside = {name for name, other in manifests.items() if other.get("subject", {}).get("digest") == digest}
        lists = {name for name, other in manifests.items() if listed(other) and listed(other) <= beside}
        return {digest, *parts, *lists}.union(*map(self.belonging, beside))


def listed(manifest: Mapping[str, Any]) -> set[str]:
    """What an index names; nothing of another manifest."""
    return {one["digest"] for one in manifest.get("manifests", ())}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def ctx(keys: Path) -> Context:
    return signing_shop(keys, "me")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return Disk(tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def place(ctx: Context, disk: Disk) -> Iterator[Registry]:
    with registry(ctx.store, disk.folder, delete=True) as found:
        yield found


@pytest.fixture(scope="module")
def images(ctx: Context, place: Registry, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The names here of three signed images that the registry has, too, oldest first."""
    names = []
    for number in range(3):
        overlay = tmp_path_factory.mktemp("overlay")
        (overlay / "mine.txt").write_text(f"{number}\n")
        tag = ImageBuild(ctx, small_plan(ctx, overlay=overlay)).image().tags[-1]
        publish(ctx, tag, [f"{place.host}/{NAME}"], None, keys / "me")
        names.append(tag)
    yield names
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        for name in names:
            sdk.images.remove(name, force=True)


def asked(place: Registry, method: str, reference: str, content: bytes | None = None) -> None:
    """A request to the registry that changes a manifest."""
    url = f"http://{place.host}/v2/{NAME}/manifests/{reference}"
    with urlopen(Request(url, content, {"Content-Type": INDEX}, method=method)):
        pass


def retained(place: Registry, newest: str, keys: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What ``publish --retain 1 --delete`` of the newest image says of each, by its tag: a reason to stay, or none."""
    words = ["publish", newest, f"{place.host}/{NAME}", "--sign", str(keys / "me"), "--retain", "1", "--delete"]
    assert main([*words, "--json", "--quiet"]) == 0
    (older,) = json.loads(capsys.readouterr().out)["older"].values()
    assert [one["deleted"] for one in older] == [not one["why"] for one in older]
    return {one["tags"][-1]: one["why"] for one in older}


def collected(disk: Disk) -> set[str]:
    """What the registry keeps after it collected its garbage."""
    capture([str(disk.folder / "deb/usr/bin/docker-registry"), "garbage-collect", str(disk.folder / "config.yml")])
    return disk.blobs()


def test_all_that_a_deleted_image_refers_to_goes_and_nothing_of_another(  # noqa: PLR0917 - fixtures
    ctx: Context,
    place: Registry,
    disk: Disk,
    images: list[str],
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The oldest is part of an index, the second may go, the third is the newest. Then the index and the oldest go."""
    monkeypatch.setenv("PATH", ctx.env["PATH"])
    tags = [name.rpartition(":")[2] for name in images]
    part, going, newest = (disk.tags()[tag] for tag in tags)
    size = disk.blob(part).stat().st_size
    index = write_index((Descriptor(mediaType=MANIFEST, digest=part, size=size),)).encode()
    asked(place, "PUT", "several-platforms", index)
    before = disk.manifests()
    owned = {digest: disk.belonging(digest) for digest in (part, going, newest)}
    # An image, its documents, their signatures and its own, its lists as they grew, and one of each document.
    assert [len(parts & before.keys()) for parts in owned.values()] == [1 + 3 + 4 + 4 + 3] * 3
    said = retained(place, images[-1], keys, capsys)
    assert (said[tags[0]], said[tags[1]]) == ("part of several-platforms", "")
    several = disk.tags()["several-platforms"]
    assert disk.manifests().keys() == {several, *owned[part], *owned[newest]} & before.keys()
    assert collected(disk) == {several, *owned[part], *owned[newest]}
    assert tags[1] not in disk.tags()
    assert not [tag for tag in disk.tags() if tag.startswith("sha256-") and tag.replace("-", ":") in owned[going]]
    trusted = ["--quiet", "--sbom", "--require-signer", str(keys / "me.signers")]
    assert main(["show", f"{place.host}/{NAME}:{tags[0]}", *trusted]) == 0
    assert main(["show", f"{place.host}/{NAME}:{tags[1]}", *trusted]) != 0
    capsys.readouterr()
    for digest in (several, part):  # as a deletion that broke off after its first step
        asked(place, "DELETE", digest)
    assert retained(place, images[-1], keys, capsys).keys() == {tags[2]}
    assert disk.manifests().keys() == owned[newest] & before.keys()
    assert collected(disk) == owned[newest]
    with pytest.raises(HTTPError, match="404"):
        asked(place, "DELETE", part)
