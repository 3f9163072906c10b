"""Publishing and pulling for real: a registry, two engines as two nodes, one of them behind sshd."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gb10.cli import main
from gb10.cli.build import image as verb
from gb10.containers.connection import Engine, client
from gb10.containers.images import added_tags, find_image, require_image, tag_image, untag
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.holding import holder
from gb10.containers.registry.referrers import Artifact, Content, open_referrers, tag_of
from gb10.containers.registry.transfer import Moves, push
from gb10.errors import EngineError, PublishError, UsageError
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.proof.scans import Record
from gb10.image.publish import publishing, retries
from gb10.image.publish.publishing import Published, publish
from gb10.image.publish.pulling import pull_everywhere
from gb10.image.publish.signing import KIND
from gb10.image.sbom.statements import SPDX_MEDIA_TYPE as SPDX
from tests.hang import until
from tests.integration.hub_server import make_signer
from tests.integration.nodes import (
    Registry,
    another_engine,
    build_py,
    kill,
    kill_ssh,
    random_image,
    receiving,
    small_disk,
    ssh_keygen,
    ssh_server,
    wake,
)
from tests.integration.proxy import Fault, Line, bad_line
from tests.integration.test_pipeline import ctx as ctx  # noqa: PLC0414 - a fixture
from tests.integration.test_pipeline import small_plan

pytestmark = pytest.mark.integration

ARM = "linux/arm64"
LAYERS = (4_000_000,) * 4  # bytes
SEEDS = count(0, 10)
Disk = tuple[Path, Callable[[str], None]]


@pytest.fixture(scope="module")
def image(ctx: Context) -> Verified:
    return ImageBuild(ctx, small_plan(ctx)).image()


@pytest.fixture(scope="module")
def published(ctx: Context, place: Registry, image: Verified) -> tuple[Published, ...]:
    return publish(ctx, image.tags[-1], [f"{place.host}/gb10/test"])


@pytest.fixture(scope="module")
def line(place: Registry) -> Iterator[Line]:
    with bad_line(place.host) as found:
        yield found


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """What the first node has for its images."""
    folder = tmp_path_factory.mktemp("one") / "engine/data"
    with small_disk(folder) as resize:
        yield folder, resize


@pytest.fixture(scope="module")
def nodes(ctx: Context, disk: Disk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    one, two = disk[0].parents[1], tmp_path_factory.mktemp("two")
    with another_engine(ctx.store, one) as first, another_engine(ctx.store, two) as second:
        yield first, second


@pytest.fixture(scope="module")
def hosts(ctx: Context, nodes: tuple[Engine, Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The first node by its socket, the second through sshd."""
    socket = nodes[1].endpoint.host.removeprefix("unix://")
    with (
        ssh_server(ctx.store, tmp_path_factory.mktemp("ssh")) as (port, clients),
        pytest.MonkeyPatch.context() as path,
    ):
        path.setenv("PATH", f"{clients}:{os.environ['PATH']}")
        yield [nodes[0].endpoint.host, f"ssh://root@127.0.0.1:{port}{socket}"]


def pushed(place: Registry, engine: Engine, name: str, *sizes: int, seed: int) -> tuple[str, str]:
    """The manifest's and the config's digest of a random image that is now in the registry alone."""
    reference, moves = f"{place.host}/{name}", Moves()
    random_image(engine, reference, *sizes, seed=seed)
    push(engine, reference, moves)
    image = require_image(engine, reference)
    with closing(client(engine)) as sdk:
        sdk.images.remove(reference)
    return moves.digest, image.id


def test_the_tag_that_never_moves_goes_first(
    place: Registry, published: tuple[Published, ...], image: Verified
) -> None:
    tags = [one.reference.rpartition(":")[2] for one in published]
    assert tags == [tag.rpartition(":")[2] for tag in (image.tags[-1], image.tags[0])]
    first, second = published
    assert (first.digest, first.config) == (second.digest, image.digest)
    assert first.moved + first.there == image.layers
    assert place.manifest("gb10/test", tags[0])["config"]["digest"] == image.digest
    assert (second.moved, second.bytes) == (0, 0)


def beside(place: Registry, name: str, digest: str) -> list[dict[str, Any]]:
    """What the registry lists beside a manifest: Debian's has no API for that, so a tag has the index."""
    found: list[dict[str, Any]] = place.manifest(name, digest.replace(":", "-"))["manifests"]
    return found


def test_sbom_provenance_and_verification_are_attached_once(
    ctx: Context, place: Registry, published: tuple[Published, ...], image: Verified
) -> None:
    first, second = published
    kinds = ["application/spdx+json", "application/vnd.in-toto+json", "application/vnd.in-toto+json"]
    assert [one["artifactType"] for one in beside(place, "gb10/test", first.digest)] == kinds
    assert [one["type"] for one in first.attached] == kinds
    assert first.attached == second.attached
    asked = [line for line in place.log.read_text().splitlines() if '"PUT /v2/gb10/test/manifests/' in line]
    tags = [line.split("/manifests/")[1].split()[0] for line in asked]
    moving = tags.index(image.tags[0].rpartition(":")[2])
    assert tags[0] == image.tags[-1].rpartition(":")[2]
    assert max(number for number, tag in enumerate(tags) if tag.startswith("sha256-")) < moving
    listed = beside(place, "gb10/test", first.digest)
    place.forget()
    assert publish(ctx, image.tags[-1], [f"{place.host}/gb10/test"])[0].attached == first.attached
    assert not place.received("PATCH", "")
    assert beside(place, "gb10/test", first.digest) == listed


@pytest.fixture
def away(ctx: Context, published: tuple[Published, ...]) -> str:
    """The name of the published image, which the registry has and the engine has not."""
    untag(connect_or_start(ctx.env, ctx.store), [published[-1].reference])
    return published[-1].reference


def test_an_image_in_a_registry_is_shown_without_a_pull(
    place: Registry, away: str, image: Verified, capsys: pytest.CaptureFixture[str]
) -> None:
    place.forget()
    assert main(["show", away, "--json", "--quiet"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["digest"], shown["ours"], shown["packed"]) == (image.digest, True, True)
    assert len(shown["layers"]) == image.layers
    assert shown["packages"]["jinja2"]
    assert shown["debs"]["libc6"]
    assert shown["gpu_code"]["native"] == 1
    assert not place.received("GET", "/blobs/sha256:" + shown["layers"][1]["digest"])
    assert main(["show", image.tags[-1], "--json", "--quiet"]) == 0
    here = json.loads(capsys.readouterr().out)
    for name in ("key", "packages", "debs", "gpu_code", "codes", "patches", "mods", "slim"):
        assert here[name] == shown[name]
    assert [layer["name"] for layer in here["layers"]] == [layer["name"] for layer in shown["layers"]]


def test_the_sbom_of_an_image_is_the_one_that_is_attached_to_it(
    away: str, image: Verified, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for reference in (image.tags[-1], away):
        assert main(["show", reference, "--sbom", "--quiet"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["spdxVersion"] == "SPDX-2.3"


@pytest.mark.slow
def test_documents_are_signed_with_the_image_and_others_are_left_out(  # noqa: PLR0917 - fixtures
    ctx: Context,
    place: Registry,
    image: Verified,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", ssh_keygen(ctx.store, tmp_path / "ssh"))
    own = replace(ctx, env={**ctx.env, "PATH": os.environ["PATH"]})
    for name in ("me", "other"):
        make_signer(tmp_path, name, own.env)
    reference = f"{place.host}/signed/test:1"

    def shown(name: str, *words: str) -> tuple[int, str, str]:
        code = main(["show", reference, "--quiet", "--require-signer", str(tmp_path / f"{name}.signers"), *words])
        return code, *capsys.readouterr()

    assert main(["show", image.tags[-1], "--quiet", "--sbom"]) == 0
    ours = capsys.readouterr().out
    publish(own, image.tags[-1], [reference])
    code, out, error = shown("me", "--sbom")
    assert (code, out) == (9, "")
    assert "is not signed" in error
    (sent,) = publish(own, image.tags[-1], [reference], None, tmp_path / "me")
    assert len(sent.attached) == 3
    for document in sent.attached:
        (signature,) = beside(place, "signed/test", document["digest"])
        assert signature["artifactType"] == KIND
    foreign = Artifact(kind=SPDX, annotations={"a": "b"}, contents=(Content(kind=SPDX, content=b"{}"),))
    with open_referrers(ctx.store, own.env, connect_or_start(ctx.env, ctx.store), reference) as referrers:
        first = {one.digest for one in referrers.of(sent.digest)}
        referrers.attach(sent.digest, foreign)
    assert len(first) == 4
    place.forget()
    assert shown("me", "--sbom")[:2] == (0, ours)
    lists = [place.received("GET", tag_of(one)) for one in (sent.digest, *(row["digest"] for row in sent.attached))]
    assert [len(lines) for lines in lists] == [1, 1, 1, 1]  # no list is asked for twice
    assert "1 document beside it has no trusted signature" in shown("me")[1]
    assert shown("other", "--sbom")[:2] == (9, "")


def test_without_attestations_nothing_lies_beside_an_image(ctx: Context, place: Registry, image: Verified) -> None:
    (sent,) = publish(ctx, image.tags[-1], [f"{place.host}/bare/test:1"], attest=False)
    assert sent.attached == ()
    with pytest.raises(HTTPError, match="404"):
        beside(place, "bare/test", sent.digest)


def test_what_was_not_proven_is_not_published(ctx: Context, place: Registry, image: Verified) -> None:
    engine = connect_or_start(ctx.env, ctx.store)
    with closing(client(engine)) as sdk:
        container = sdk.containers.create(image.tags[-1], command="-", platform=ARM)
        try:
            container.commit("gb10/test", "changed")
        finally:
            container.remove()
    place.forget()
    with pytest.raises(PublishError, match="was not proven here"):
        publish(ctx, "gb10/test:changed", [f"{place.host}/gb10/test:changed"])
    assert not place.received("PUT", "")
    with pytest.raises(UsageError, match="has no image"):
        publish(ctx, "gb10/test:none", [f"{place.host}/gb10/test"])


@pytest.mark.slow
def test_two_nodes_have_the_image_and_one_changed_file_moves_kilobytes(
    ctx: Context, place: Registry, nodes: tuple[Engine, Engine], hosts: list[str]
) -> None:
    seed, reference = next(SEEDS), f"{place.host}/pull/test:1"
    digest, image = pushed(place, nodes[1], "pull/test:1", *LAYERS, seed=seed)
    remote, done = pull_everywhere(ctx, reference, hosts, ARM)
    assert remote.digest == digest
    assert [(node.id, node.moved) for node in done] == [(image, len(LAYERS))] * 2
    assert all(require_image(node, reference).id == image for node in nodes)
    _, again = pull_everywhere(ctx, reference, hosts, ARM)
    assert [(node.moved, node.bytes) for node in again] == [(0, 0)] * 2
    digest, image = pushed(place, nodes[1], "pull/test:1", *LAYERS, 1_000, seed=seed)
    place.forget()
    _, done = pull_everywhere(ctx, reference, hosts, ARM)
    assert [(node.id, node.moved, node.there) for node in done] == [(image, 1, len(LAYERS))] * 2
    blobs = [int(line.split('" 200 ')[1].split()[0]) for line in place.received("GET", "/blobs/") if '" 200 ' in line]
    assert blobs
    assert sum(blobs) < 20_000  # by the registry's own count, for both nodes
    name = f"{place.host}/pull/test@{digest}"
    arguments = ("pull", name, "--host", hosts[0], "--host", hosts[1], "--platform", ARM, "--json", "--quiet")
    document = json.loads(build_py(*arguments, env=dict(os.environ)))
    assert (document["schema"], document["digest"]) == ("gb10/pull/v1", digest)
    assert [node["host"] for node in document["nodes"]] == hosts


@pytest.mark.slow
def test_one_changed_file_is_all_that_is_sent(
    ctx: Context, place: Registry, published: tuple[Published, ...], tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/motd.gb10").write_text("changed\n", encoding="utf-8")
    changed = ImageBuild(ctx, small_plan(ctx, overlay=tmp_path)).image()
    (sent,) = publish(ctx, changed.tags[-1], [f"{place.host}/gb10/test:one-file"])
    assert sent.there >= changed.layers - 3
    assert sent.bytes < 500_000  # the file, the plan and the scans, before compression
    assert place.manifest("gb10/test", "one-file")["config"]["digest"] == changed.digest


def test_a_node_of_another_machine_is_told_before_anything_travels(
    ctx: Context, hosts: list[str], published: tuple[Published, ...]
) -> None:
    with pytest.raises(PublishError) as caught:
        pull_everywhere(ctx, published[0].reference, hosts[:1], None)
    assert f"is for {ARM}" in str(caught.value)
    assert f"--platform {ARM}" in str(caught.value)


def test_a_node_that_is_not_there_is_named_and_the_other_has_the_image(
    ctx: Context, place: Registry, nodes: tuple[Engine, Engine], hosts: list[str], tmp_path: Path
) -> None:
    _, image = pushed(place, nodes[1], "not/there:1", *LAYERS, seed=next(SEEDS))
    reference = f"{place.host}/not/there:1"
    with pytest.raises(PublishError) as caught:
        pull_everywhere(ctx, reference, [hosts[0], f"unix://{tmp_path}/none.sock"], ARM)
    assert "1 of 2 nodes do not have the image" in str(caught.value)
    assert f"{tmp_path}/none.sock" in str(caught.value)
    assert require_image(nodes[0], reference).id == image


def test_ssh_that_asks_a_question_is_an_error_with_the_way_out(ctx: Context, hosts: list[str]) -> None:
    nobody = hosts[1].replace("root@", "nobody@")
    with pytest.raises(EngineError, match="cannot be reached") as caught:
        pull_everywhere(ctx, "127.0.0.1:1/gb10/test:none", [nobody], ARM)
    assert "Permission denied" in (caught.value.where or "")
    assert re.search(r"ssh-copy-id -p \d+ nobody@127\.0\.0\.1", caught.value.hint or "")


def test_a_reference_that_the_registry_has_not_is_told(ctx: Context, place: Registry, hosts: list[str]) -> None:
    with pytest.raises(PublishError, match="the registry refused"):
        pull_everywhere(ctx, f"{place.host}/gb10/test:none", hosts[:1], ARM)


def test_under_a_second_name_the_registry_mounts_what_it_has(
    ctx: Context, place: Registry, published: tuple[Published, ...], image: Verified
) -> None:
    tag_image(connect_or_start(ctx.env, ctx.store), image.tags[-1], ("gb10/test:mine",))
    place.forget()
    (sent,) = publish(ctx, "gb10/test:mine", [f"{place.host}/other/name:mine"], attest=False)
    assert (sent.reference, sent.config) == (f"{place.host}/other/name:mine", image.digest)
    assert (sent.there, sent.moved, sent.bytes) == (image.layers, 0, 0)
    mounted = {line.partition("mount=")[2].split()[0] for line in place.received("POST", "mount=")}
    assert len(mounted) == image.layers  # from any repository that has them
    assert len(place.received("PATCH", "/other/name/")) == 1  # the config, of some kB


def test_image_publishes_what_it_built_or_found(
    ctx: Context,
    place: Registry,
    image: Verified,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(verb, "planned", lambda ctx, request, *, shown: small_plan(ctx))
    arguments = ["image", "--push", f"{place.host}/by/image", "--push", f"{place.host}/by/image:mine", "--json"]
    names = [f"{place.host}/by/image:{tag.rpartition(':')[2]}" for tag in (image.tags[1], image.tags[0], ":mine")]
    place.forget()
    assert main([*arguments, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["push"] == names
    assert not place.received("PUT", "")
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hit"]
    assert [one["reference"] for one in document["published"]] == names
    assert {one["config"] for one in document["published"]} == {image.digest}
    for words in ([], ["--json"]):  # a push that fails: the image is shown all the same
        assert main(["image", "--push", "127.0.0.1:9/by/image", *words]) == PublishError.code
        shown = capsys.readouterr()
        assert image.digest in (shown.err if words else shown.out)
        assert all(tag in shown.err for tag in image.tags)


@pytest.fixture
def fresh(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An image of layers that no registry has, taken as proven."""
    engine = connect_or_start(ctx.env, ctx.store)
    random_image(engine, "gb10/test:fresh", *LAYERS, seed=next(SEEDS))
    monkeypatch.setattr(publishing, "proven", lambda ctx, image_id: Record(id=image_id, config=image_id, layers=()))
    yield "gb10/test:fresh"
    with closing(client(engine)) as sdk:
        sdk.images.remove(require_image(engine, "gb10/test:fresh").id, force=True)


@pytest.mark.slow
def test_a_push_over_a_bad_line_is_tried_again_by_whoever_can(
    ctx: Context, line: Line, fresh: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Docker tries a layer again, and nothing else: a manifest that was refused is sent again by us."""
    dropped = Fault(request="PATCH .*/bad/line/blobs/", does="drop", after=1_000_000)
    refused = Fault(request="PUT .*/bad/line/manifests/", does="refuse")
    with line.bad(dropped), line.bad(refused):
        (sent,) = publish(ctx, fresh, [f"{line.host}/bad/line:1"], attest=False)
    assert (dropped.met, refused.met) == (1, 1)
    assert sent.there + sent.moved == 4
    said = capfd.readouterr().err
    assert said.count("broke off: Docker tries it again in 5 s") == 1
    assert said.count("503 Service Unavailable; trying again in 2 s") == 1


def test_a_registry_that_stays_broken_is_told_and_the_next_push_sends_what_is_missing(
    ctx: Context, place: Registry, line: Line, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "PAUSES", (0.1, 0.1))
    target = f"{line.host}/stays/broken:1"
    with line.bad(Fault(request="PUT .*/manifests/", does="refuse", times=3)), pytest.raises(PublishError) as caught:
        publish(ctx, fresh, [target], attest=False)
    assert f"{target} is not published" in str(caught.value)
    assert target not in require_image(ready_engine(ctx), fresh).tags
    assert "503 Service Unavailable" in str(caught.value)
    assert len(place.received("PATCH", "/stays/broken/blobs/")) == 4 + 1  # the layers, and the config
    place.forget()
    (sent,) = publish(ctx, fresh, [target], attest=False)
    assert (sent.there, sent.moved, sent.bytes) == (4, 0, 0)
    assert not place.received("PATCH", "")


def test_tags_of_a_failed_push_name_what_they_named_before(ctx: Context, fresh: str, image: Verified) -> None:
    engine = ready_engine(ctx)
    pushed, other = require_image(engine, fresh), require_image(engine, image.id)
    tag_image(engine, other.id, ("gb10/test:taken",))
    names = (f"docker.io/{fresh}", "gb10/test:taken", "gb10/test:new")
    with pytest.raises(PublishError, match="refused"), added_tags(engine, pushed, names):
        assert {require_image(engine, name).id for name in names} == {pushed.id}
        raise PublishError("refused")
    assert require_image(engine, fresh).id == pushed.id
    assert require_image(engine, "gb10/test:taken").id == other.id
    assert find_image(engine, "gb10/test:new") is None


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["engine", "ssh"])
def test_a_pull_that_broke_off_is_resumed_by_the_same_command(  # noqa: PLR0917 - fixtures
    ctx: Context, place: Registry, line: Line, nodes: tuple[Engine, Engine], hosts: list[str], dies: str
) -> None:
    reference = f"{line.host}/broken/{dies}:1"
    digest, _ = pushed(place, nodes[1], f"broken/{dies}:1", *LAYERS, seed=next(SEEDS))
    *lower, last = (layer["digest"] for layer in place.manifest(f"broken/{dies}", "1")["layers"])
    arriving = holder(nodes[1], digest, ARM, ()).tag
    with (
        line.bad(Fault(request=f"GET .*{last}", does="stall", after=100_000, times=2)) as stalled,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(pull_everywhere, ctx, reference, hosts, ARM)
        until(lambda: stalled.met == 2 and held(nodes[1], arriving) == len(lower), "the last layer on both nodes")
        kill(nodes[1]) if dies == "engine" else kill_ssh()
        until(lambda: not receiving(nodes[1]), "the end of the second node's pull")
        stalled.mended.set()
        with pytest.raises(PublishError, match="1 of 2 nodes") as caught:
            running.result()
    assert f"{hosts[1]}: its engine, or the way to it, broke off" in str(caught.value)
    assert hosts[0] not in str(caught.value)
    assert len(require_image(nodes[0], reference).diff_ids) == len(lower) + 1
    wake(nodes[1])
    place.forget()
    _, done = pull_everywhere(ctx, reference, hosts, ARM)
    assert [(node.there, node.moved) for node in done] == [(0, 0), (len(lower), 1)]
    assert len(place.received("GET", last)) == 1
    assert not any(place.received("GET", layer) for layer in lower)
    assert find_image(nodes[1], arriving) is None


def held(engine: Engine, arriving: str) -> int:
    found = find_image(engine, arriving)
    return len(found.diff_ids) if found else 0


@pytest.mark.slow
def test_a_full_disk_is_told_leaves_nothing_and_a_pull_with_more_room_succeeds(
    ctx: Context, place: Registry, nodes: tuple[Engine, Engine], hosts: list[str], disk: Disk
) -> None:
    folder, resize = disk
    digest, _ = pushed(place, nodes[1], "full/disk:1", *LAYERS, seed=next(SEEDS))
    reference = f"{place.host}/full/disk:1"
    before = layers_on(folder)
    resize(str(shutil.disk_usage(folder).used + 10_000_000))
    with pytest.raises(PublishError, match="1 of 2 nodes") as caught:
        pull_everywhere(ctx, reference, hosts, ARM)
    assert f"the disk of {hosts[0]} is full (" in str(caught.value)
    assert "no space left on device" in str(caught.value)
    assert "make room there" in (caught.value.hint or "")
    assert layers_on(folder) == before
    assert find_image(nodes[0], holder(nodes[0], digest, ARM, ()).tag) is None
    resize("4g")
    _, done = pull_everywhere(ctx, reference, hosts, ARM)
    assert [(node.there, node.moved) for node in done] == [(0, 4), (0, 0)]
    assert layers_on(folder) == before + 4


def layers_on(data: Path) -> int:
    """What the classic store has on its disk, half-written ones too."""
    folders = [folder for folder in (data / "overlay2").iterdir() if folder.name != "l"]
    assert not list((data / "tmp").glob("GetImageBlob*"))
    return len(folders)
