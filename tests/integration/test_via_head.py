"""Pulling through the head: Debian's registry and sshd, three engines as nodes, one of them with containerd's store."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from docker.errors import NotFound

from gb10.cli import main
from gb10.containers.connection import Engine, client
from gb10.containers.head.session import SCRIPT, registry_program
from gb10.containers.images import find_image, require_image, tag_image
from gb10.containers.packages import fetch_packages
from gb10.containers.reach import connect_or_start
from gb10.containers.registry.holding import REPOSITORY
from gb10.containers.registry.transfer import Moves, push
from gb10.core.proc import background, capture
from gb10.core.ssh import HERE
from gb10.core.store import lock_now
from gb10.errors import EngineError, Gb10Error, PublishError, UsageError, VerifyError
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.publish.pulling import Pull
from gb10.image.publish.via_head import PASSING, HeadPull, pull_via_head
from tests.bad_days.left import RUN, processes_left
from tests.bad_days.world import BUILD_PY
from tests.hang import until
from tests.integration.hub_server import make_signer
from tests.integration.nodes import (
    another_engine,
    debs,
    random_image,
    receiving,
    registry,
    small_disk,
    ssh_keygen,
    ssh_server,
    strike,
    wake,
)
from tests.integration.test_base import emulator

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ARM = "linux/arm64"
LAYERS = (3_000_000,) * 3
LARGE = (25_000_000,) * 4
SEEDS = count(100, 10)
Resize = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def _own_tmp() -> Iterator[None]:
    """A folder for sockets that is ours alone; their paths must be short."""
    with tempfile.TemporaryDirectory(prefix="vh-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Resize]]:
    folder = tmp_path_factory.mktemp("one") / "engine/data"
    with small_disk(folder) as resize:
        yield folder, resize


@pytest.fixture(scope="module")
def nodes(disk: tuple[Path, Resize], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, ...]]:
    """Two with the classic store, the first on a small disk; the third has containerd's."""
    store, more = open_context(os.environ, verbosity=0).store, tmp_path_factory.mktemp
    with (
        another_engine(store, disk[0].parents[1]) as first,
        another_engine(store, more("two")) as second,
        another_engine(store, more("three"), containerd=True) as third,
    ):
        yield first, second, third


@pytest.fixture(scope="module")
def ssh_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the machine that every ssh leads to."""
    return tmp_path_factory.mktemp("ssh") / "root"


@pytest.fixture(scope="module")
def port(ssh_root: Path) -> Iterator[int]:
    """The sshd through which every node, and a head, is reached."""
    store = open_context(os.environ, verbosity=0).store
    with (
        ssh_server(store, ssh_root.parent) as (found, clients),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PATH", f"{clients}:{os.environ['PATH']}")
        yield found


@pytest.fixture(scope="module")
def hosts(nodes: tuple[Engine, ...], port: int) -> list[str]:
    return [reached_by(port, node) for node in nodes]


def reached_by(port: int, engine: Engine) -> str:
    return f"ssh://root@127.0.0.1:{port}{engine.endpoint.host.removeprefix('unix://')}"


@pytest.fixture
def ctx(port: int) -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture
def head(ctx: Context) -> Engine:
    return connect_or_start(ctx.env, ctx.store)


def taken(ctx: Context, reference: str, hosts: list[str], head: str = HERE) -> Pull:
    return pull_via_head(ctx, HeadPull(reference=reference, head=head, hosts=hosts, platform=ARM))


def names(engine: Engine) -> set[str]:
    """Every tag and digest name of an engine."""
    with closing(client(engine)) as sdk:
        images = sdk.api.images(all=True)
        return {name for image in images for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ()))}


def passing(*engines: Engine) -> list[str]:
    return [name for engine in engines for name in names(engine) if PASSING in name or REPOSITORY in name]


def sessions() -> list[Path]:
    """The folders of sessions on a head."""
    return list(Path(tempfile.gettempdir()).glob("gb10-*"))


def blobs(ctx: Context) -> dict[str, int]:
    """What the head's registry keeps: the inode of each blob."""
    found = (ctx.store.root / "registry/docker/registry/v2/blobs").glob("sha256/*/*/data")
    return {path.parent.name: path.stat().st_ino for path in found}


def test_three_nodes_get_the_missing_layers_under_the_images_own_name(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str]
) -> None:
    reference, seed = "gb10/via:three", next(SEEDS)
    random_image(head, reference, *LAYERS, seed=seed)
    image = require_image(head, reference)
    done = taken(ctx, reference, hosts)
    done.require_all()
    assert [node.moved for node in done.nodes] == [3, 3, 3]
    assert [node.id for node in done.nodes[:2]] == [image.id] * 2
    assert done.nodes[2].id != image.id  # containerd's store names it otherwise; its layers are the same
    assert {require_image(node, reference).diff_ids for node in nodes} == {image.diff_ids}
    assert not passing(head, *nodes)
    assert not sessions()
    first = blobs(ctx)
    assert len(first) == 3 + 2  # layers, config, manifest
    random_image(head, reference, *LAYERS, 1_000, seed=seed)
    again = taken(ctx, reference, hosts)
    again.require_all()
    assert [node.moved for node in again.nodes] == [1, 1, 1]
    assert [node.there for node in again.nodes[:2]] == [3, 3]  # containerd's store does not tell what it had
    assert all(node.bytes is not None and node.bytes < 10_000 for node in again.nodes)
    second = blobs(ctx)
    assert len(second) == 4 + 2
    assert len(first.items() & second.items()) == 3  # not compressed again; the old config and manifest went


def test_the_head_may_be_another_machine_that_pulls_from_a_registry(  # noqa: PLR0917 - fixtures
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], port: int, tmp_path: Path
) -> None:
    """The second node is the head: only it reaches the registry, and the others reach only it."""
    with registry(ctx.store, tmp_path) as place:
        reference = f"{place.host}/via/remote:1"
        random_image(head, reference, *LAYERS, seed=next(SEEDS))
        push(head, reference, Moves())
        image = require_image(head, reference)
        done = taken(ctx, reference, [hosts[0], hosts[1]], hosts[1])
        done.require_all()
        assert [(node.host, node.id, node.moved) for node in done.nodes] == [(hosts[0], image.id, 3)]
        assert len(place.received("GET", "/blobs/sha256:")) >= 3
    assert require_image(nodes[1], reference).id == image.id
    assert not passing(*nodes)
    assert not sessions()
    again = taken(ctx, reference, [hosts[2]], hosts[1])  # the registry is gone: the head has it
    again.require_all()


def test_a_node_that_dies_halfway_is_named_and_goes_on_where_it_was(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str]
) -> None:
    reference = "gb10/via:dies"
    struck = False
    with ThreadPoolExecutor(1) as pool:
        for _ in range(5):  # on a busy machine a pull may end between two looks: the next one has other layers
            random_image(head, reference, *LARGE, seed=next(SEEDS))
            running = pool.submit(taken, ctx, reference, hosts)
            while not struck and not running.done():
                struck = receiving(nodes[1]) and arrived(nodes[1]) >= 1 and strike(nodes[1])
            done = running.result()
            if struck:
                break
    assert struck
    assert list(done.failed) == [hosts[1]]
    with pytest.raises(PublishError, match="1 of 3 nodes"):
        done.require_all()
    assert {node.host for node in done.nodes} == {hosts[0], hosts[2]}
    wake(nodes[1])
    again = taken(ctx, reference, hosts)
    again.require_all()
    by_host = {node.host: node for node in again.nodes}
    there, moved = by_host[hosts[1]].there, by_host[hosts[1]].moved
    assert there
    assert moved is not None
    assert there + moved == len(LARGE)
    assert not passing(head, *nodes)


def arrived(engine: Engine) -> int:
    """The layers that an engine holds of a pull that is not whole."""
    try:
        with closing(client(engine)) as sdk:
            return max((len(image.attrs["RootFS"]["Layers"]) for image in sdk.images.list(REPOSITORY)), default=0)
    except NotFound:  # an image that was removed between two questions
        return 0


def test_a_node_with_a_full_disk_is_named_and_has_it_with_more_room(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], disk: tuple[Path, Resize]
) -> None:
    reference, (folder, resize) = "gb10/via:full", disk
    random_image(head, reference, *LAYERS, seed=next(SEEDS))
    resize(str(shutil.disk_usage(folder).used + 4_000_000))
    done = taken(ctx, reference, hosts)
    resize("4g")
    assert list(done.failed) == [hosts[0]]
    assert f"the disk of {hosts[0]} is full" in done.failed[hosts[0]].message
    assert find_image(nodes[0], reference) is None
    assert len(done.nodes) == 2
    taken(ctx, reference, hosts).require_all()
    assert not passing(head, *nodes)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_ctrl_c_and_kill_end_everything_on_the_head(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], number: signal.Signals
) -> None:

    reference, run = f"gb10/via:ends-{number}", uuid.uuid4().hex
    random_image(head, reference, *LARGE, seed=next(SEEDS))
    words = [word for host in hosts for word in ("--host", host)]
    argv = [sys.executable, str(BUILD_PY), "pull", reference, "--via-head", HERE, *words, "--platform", ARM]
    with subprocess.Popen(argv, env={**os.environ, RUN: run}, stderr=subprocess.PIPE, text=True) as child:
        until(lambda: any(map(receiving, nodes[:2])), "a pull")
        child.send_signal(number)
        err = child.communicate(timeout=60)[1]
    assert child.returncode == (-9 if number == signal.SIGKILL else 130), err
    assert "Traceback" not in err
    assert not processes_left(run, (head, *nodes), grace=20)
    assert not sessions()
    with (ctx.store.root / "registry/lock").open() as handle:
        assert lock_now(handle)
    taken(ctx, reference, hosts).require_all()
    assert not passing(head, *nodes)


def test_what_must_be_signed_comes_from_a_registry_and_is_checked_first(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], tmp_path: Path
) -> None:
    mine = replace(ctx, env={**ctx.env, "PATH": ssh_keygen(ctx.store, tmp_path / "ssh")})
    make_signer(tmp_path, "me", mine.env)
    random_image(head, "gb10/via:signed", *LAYERS, seed=next(SEEDS))
    with pytest.raises(UsageError, match="cannot be taken from a registry"):
        pull_via_head(mine, signed("gb10/via:signed", hosts[:1], tmp_path))
    with registry(ctx.store, tmp_path) as place:
        reference = f"{place.host}/via/signed:1"
        tag_image(head, "gb10/via:signed", (reference,))
        push(head, reference, Moves())
        with pytest.raises(VerifyError, match="is not signed"):
            pull_via_head(mine, signed(reference, hosts[:1], tmp_path))
    assert find_image(nodes[0], reference) is None


def signed(reference: str, hosts: list[str], keys: Path) -> HeadPull:
    return HeadPull(reference=reference, head=HERE, hosts=hosts, platform=ARM, signers=keys / "me.signers")


def test_a_node_with_a_newer_image_is_told(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    reference, keyed = "gb10/via:moves", f"gb10/via:moves-{'b' * 12}"
    random_image(nodes[0], reference, *LAYERS, seed=next(SEEDS), created="2026-11-20T00:00:00Z")
    tag_image(nodes[0], reference, (keyed,))
    newer = require_image(nodes[0], reference).id
    random_image(head, reference, *LAYERS, seed=next(SEEDS), created="2026-11-02T00:00:00Z")
    taken(ctx, reference, hosts[:2]).require_all()
    said = [line for line in capfd.readouterr().err.splitlines() if "had a newer image" in line]
    assert said == [
        f"{hosts[0]}: had a newer image under this name, of 2026-11-20; this one is of 2026-11-02. "
        f"The newer one stays as {keyed}"
    ]
    assert require_image(nodes[0], keyed).id == newer
    assert require_image(nodes[0], reference).id == require_image(head, reference).id


def test_what_cannot_work_is_one_error_before_anything_moves(
    ctx: Context, head: Engine, nodes: tuple[Engine, ...], hosts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    random_image(head, "gb10/via:small", 1_000, seed=next(SEEDS))

    def refused(reference: str, by: str, *to: str) -> Gb10Error:
        with pytest.raises(Gb10Error) as caught:
            taken(ctx, reference, list(to), by)
        return caught.value

    assert "needs a tag" in refused(f"gb10/via@sha256:{'0' * 64}", HERE, hosts[0]).message
    assert "cannot be taken from a registry" in refused("gb10/via:none", HERE, hosts[0]).message
    assert "needs a node" in refused("gb10/via:small", HERE).message
    assert "a socket is of this machine" in refused("gb10/via:small", hosts[0], nodes[1].endpoint.host).message
    nobody = hosts[0].replace("root@", "nobody@")
    assert "cannot be reached" in refused("gb10/via:small", nobody, hosts[1]).message
    done = taken(ctx, "gb10/via:small", [nobody, hosts[1]])
    assert isinstance(done.failed[nobody], EngineError)
    assert "ssh-copy-id" in (done.failed[nobody].hint or "")
    assert [node.host for node in done.nodes] == [hosts[1]]
    with (ctx.store.root / "registry/lock").open("a") as handle:
        assert lock_now(handle)
        assert "another pull goes through this head" in (refused("gb10/via:small", HERE, hosts[1]).where or "")
    arguments = ["pull", "gb10/via:small", "--via-head", HERE, "--host", hosts[1], "--json"]
    assert main(arguments) == 10
    assert f"--platform {ARM}" in json.loads(capfd.readouterr().out)["failed"][0]["hint"]
    assert not sessions()


@pytest.fixture(scope="module")
def ctr(port: int, ssh_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Debian's containerd in place of the one in K3s, and `k3s ctr` before it on the node: what ctr prints."""
    folder, store = tmp_path_factory.mktemp("k3s"), open_context(os.environ, verbosity=0).store
    socket = f"/run/gb10-k3s-{os.getpid()}.sock"
    for deb in debs(store, "containerd"):
        if deb.name.startswith("containerd_"):
            capture(["dpkg-deb", "--extract", str(deb), str(folder / "deb")])
    programs = folder / "deb/usr/bin"
    shutil.copy(programs / "ctr", ssh_root / "usr/bin/ctr")
    call = ["ctr", "--address", socket, "--namespace", "k8s.io"]
    (ssh_root / "usr/bin/k3s").write_text(f'#!/bin/sh\nshift\nexec {" ".join(call)} "$@"\n', encoding="utf-8")
    (ssh_root / "usr/bin/k3s").chmod(0o755)
    config = f'root = "{folder}/root"\nstate = "{folder}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
    (folder / "config.toml").write_text(f"version = 2\n{config}", encoding="utf-8")
    argv = [str(programs / "containerd"), "--config", str(folder / "config.toml"), "--address", socket]
    with background(argv, log=folder / "log"):
        until(lambda: Path(socket).exists(), "containerd")
        yield lambda *words: capture([str(programs / "ctr"), *call[1:], *words])
    Path(socket).unlink(missing_ok=True)
    Path(f"{socket}.ttrpc").unlink(missing_ok=True)


def test_containerd_under_k3s_takes_only_what_it_lacks(
    ctx: Context, head: Engine, ctr: Callable[..., str], port: int
) -> None:
    seed, name = next(SEEDS), "docker.io/gb10/via:k3s"
    host = f"root@127.0.0.1:{port}"
    wanted = HeadPull(reference="gb10/via:k3s", head=HERE, hosts=[host], platform=ARM, k3s=True)
    random_image(head, wanted.reference, *LAYERS, seed=seed)
    done = pull_via_head(ctx, wanted)
    done.require_all()
    assert name in ctr("images", "ls", "-q").split()
    assert done.remote.digest in ctr("images", "ls")
    before = set(ctr("content", "ls", "-q").split())
    random_image(head, wanted.reference, *LAYERS, 1_000, seed=seed)
    again = pull_via_head(ctx, wanted)
    again.require_all()
    new = set(ctr("content", "ls", "-q").split()) - before
    assert len(new) == 1 + 2  # a layer, the config and the manifest
    assert ctr("images", "ls", "-q").split() == [name]
    assert not sessions()
    for digest in before | new:
        ctr("content", "rm", digest)
    with pytest.raises(PublishError, match="1 of 1 nodes") as caught:
        pull_via_head(ctx, replace(wanted, hosts=[f"nobody@127.0.0.1:{port}"])).require_all()
    assert "ssh-copy-id" in str(caught.value)
    with pytest.raises(UsageError, match="a socket is of this machine"):
        pull_via_head(ctx, replace(wanted, hosts=[head.endpoint.host]))


def test_a_node_with_k3s_of_another_machine_is_one_error(
    ctx: Context, head: Engine, ctr: Callable[..., str], ssh_root: Path, port: int
) -> None:
    host, uname = f"root@127.0.0.1:{port}", ssh_root / "usr/local/bin/uname"
    wanted = HeadPull(reference="gb10/via:machine", head=HERE, hosts=[host], k3s=True)
    random_image(head, wanted.reference, 1_000, seed=next(SEEDS))
    uname.write_text("#!/bin/sh\necho riscv64\n", encoding="utf-8")
    uname.chmod(0o755)
    try:
        done = pull_via_head(ctx, wanted)
        assert done.failed[host].message == f"gb10/via:machine is for {ARM}, {host} is linux/riscv64"
        assert done.failed[host].hint == f"--platform {ARM} takes it all the same"
        assert "via:machine" not in ctr("images", "ls", "-q")
        pull_via_head(ctx, replace(wanted, platform=ARM)).require_all()
        uname.write_text("#!/bin/sh\necho aarch64\n", encoding="utf-8")
        pull_via_head(ctx, wanted).require_all()
    finally:
        uname.unlink()
    assert not sessions()


def test_old_layers_that_stay_on_the_head_are_told(
    ctx: Context, head: Engine, hosts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A link of the registry that a power cut left empty: it collects nothing from then on."""
    random_image(head, "gb10/via:stays", 1_000, seed=next(SEEDS))
    taken(ctx, "gb10/via:stays", hosts[1:2]).require_all()
    assert "cache grows" not in capfd.readouterr().err
    repository = ctx.store.root / "registry/docker/registry/v2/repositories" / PASSING
    broken = repository / f"_manifests/revisions/sha256/{'0' * 64}/link"
    broken.parent.mkdir(parents=True)
    broken.touch()
    taken(ctx, "gb10/via:stays", hosts[1:2]).require_all()
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "cache grows" in line]
    print(said)
    assert f"old layers stay in {ctx.store.root}/registry: " in said
    shutil.rmtree(broken.parent)
    taken(ctx, "gb10/via:stays", hosts[1:2]).require_all()
    assert "cache grows" not in capfd.readouterr().err


@pytest.mark.long
def test_the_registry_for_a_spark_runs_with_the_glibc_that_it_names(ctx: Context, tmp_path: Path) -> None:
    """The program for the other architecture, run by qemu with Debian's own C library; DGX OS has glibc 2.39."""
    foreign, machine = {"amd64": ("arm64", "aarch64"), "arm64": ("amd64", "x86_64")}[build_architecture()]
    program = registry_program(ctx.store, ctx.env, machine)
    needed = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)", program.read_bytes())}
    assert max(needed) == (2, 34)
    with fetch_packages(ctx.store, ctx.env, ("libc6",), foreign) as (libc,):
        capture(["dpkg-deb", "--extract", str(libc), str(tmp_path / "root")])
    (tmp_path / "root/lib").symlink_to("usr/lib")  # of another package
    argv = [str(emulator(ctx.store)), "-L", str(tmp_path / "root"), str(program), "--version"]
    assert " 2.8" in capture(argv)
    with pytest.raises(EngineError, match="no registry is known for a head of riscv64"):
        registry_program(ctx.store, ctx.env, "riscv64")


def test_a_head_whose_reader_is_gone_at_once_leaves_nothing(ctx: Context, tmp_path: Path) -> None:
    """A pull that is killed while the registry starts: the script's first word meets a broken pipe."""
    program, run = registry_program(ctx.store, ctx.env, os.uname().machine), uuid.uuid4().hex
    argv = ["sh", str(SCRIPT), str(program), str(tmp_path / "storage"), str(tmp_path / "work")]
    env = {**os.environ, RUN: run}
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.close()
        assert child.wait(60) != 0  # its stdin is still held
    assert not processes_left(run, (), grace=10)
    assert not (tmp_path / "work").exists()
