"""``recipe pull --host``: weights go to nodes by real rsync over real ssh; broken copies resume."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from gb10.cli import main
from gb10.core.installation import ROOT
from gb10.core.store import open_store
from gb10.serving.run.service_nodes import cluster_file
from gb10.serving.weights import copying
from gb10.serving.weights.hub_cache import folder_name
from tests.hang import PATIENCE, until
from tests.integration.hub_server import FakeHub, Repository, fake_hub
from tests.integration.nodes import ssh_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REPO = "org/model"
LARGE = {name: Random(name).randbytes(8 << 20) for name in ("model-1.safetensors", "model-2.safetensors")}  # noqa: S311
SMALL = {"config.json": b"{}", "sub/tokenizer.json": b"[]" * 100}
FILES = {**LARGE, **SMALL}
RECIPE = f"model: {REPO}\ncontainer: gb10/vllm:1\ncommand: vllm serve {REPO} --gpu-memory-utilization 0.8\n"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two users of one ssh server stand for two nodes; ``root`` is its file system, ``path`` has the clients."""

    root: Path
    port: int
    path: str

    @property
    def hosts(self) -> tuple[str, str]:
        return f"root@127.0.0.1:{self.port}", f"other@127.0.0.1:{self.port}"

    def cache(self, number: int) -> Path:
        home = ("root", "home/other")[number]
        return self.root / home / ".cache/huggingface/hub" / folder_name(REPO)

    def forget(self) -> None:
        for number in (0, 1):
            subprocess.run(["rm", "-rf", str(self.cache(number).parent)], check=True)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    store, folder = open_store(os.environ), tmp_path_factory.mktemp("nodes")
    with ssh_server(store, folder, "coreutils", "findutils", "rsync") as (port, clients):
        yield Cluster(root=folder / "root", port=port, path=f"{clients}:{os.environ['PATH']}")


@pytest.fixture
def cluster(machines: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    machines.forget()
    monkeypatch.setenv("PATH", machines.path)
    yield machines
    machines.forget()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with fake_hub() as found:
        found.repositories[REPO] = Repository(private=False)
        found.put(REPO, {**FILES})
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        places = {"HF_HOME": "hf", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config", "GB10_CACHE_DIR": "store"}
        for name, folder in places.items():
            monkeypatch.setenv(name, str(tmp_path / folder))
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        (tmp_path / "mine.yaml").write_text(RECIPE, encoding="utf-8")
        yield found


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    return str(tmp_path / "mine.yaml")


def to(*hosts: str) -> list[str]:
    return [word for host in hosts for word in ("--host", host)]


def copied(capsys: pytest.CaptureFixture[str], recipe: str, *hosts: str) -> list[int]:
    assert main(["recipe", "pull", recipe, "--json", *to(*hosts)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [node["host"] for node in found["nodes"]] == list(hosts)
    return [node["copied"] for node in found["nodes"]]


def has_all(cluster: Cluster, number: int, hub: FakeHub) -> bool:
    snapshot = cluster.cache(number) / "snapshots" / hub.repositories[REPO].sha()
    return all((snapshot / name).read_bytes() == content for name, content in FILES.items())


def large_blob(cluster: Cluster, number: int) -> Path:
    name = hashlib.sha256(LARGE["model-1.safetensors"]).hexdigest()
    return cluster.cache(number) / "blobs" / name


def test_two_nodes_get_the_same_bytes_and_the_hub_is_asked_once(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    total = sum(map(len, FILES.values()))
    assert copied(capsys, recipe, *cluster.hosts) == [total, total]
    assert has_all(cluster, 0, hub)
    assert has_all(cluster, 1, hub)
    assert (cluster.cache(1) / "refs/main").read_text(encoding="ascii") == hub.repositories[REPO].sha()
    assert large_blob(cluster, 1).stat().st_uid == 1000
    assert large_blob(cluster, 1).stat().st_mode & 0o777 == 0o644
    assert len(hub.asked("GET", "/storage/")) == 2
    hub.log.clear()
    assert copied(capsys, recipe, *cluster.hosts) == [0, 0]
    assert hub.log == []


def test_a_copy_that_was_killed_is_continued(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = cluster.hosts[0]
    assert main(["recipe", "pull", recipe]) == 0
    slow = (*copying.RSYNC, "--bwlimit=2000")
    script = (
        f"import sys; from gb10.serving.weights import copying as c; c.RSYNC = {slow!r}; from gb10.cli import main;"
    )
    argv = [sys.executable, "-c", f"{script} sys.exit(main(['recipe', 'pull', {recipe!r}, '--host', {host!r}]))"]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        blobs = cluster.cache(0) / "blobs"
        until(lambda: blobs.is_dir() and sum(one.stat().st_size for one in blobs.iterdir()) > 2 << 20, "the copy")
        os.killpg(child.pid, signal.SIGKILL)
    time.sleep(0.5)  # the server's side ends, too
    had = sum(one.stat().st_size for one in blobs.iterdir())
    assert not (cluster.cache(0) / "snapshots").exists()
    assert 2 << 20 < had < 16 << 20
    capsys.readouterr()
    (sent,) = copied(capsys, recipe, host)
    assert sent <= sum(map(len, FILES.values())) - (2 << 20)
    assert has_all(cluster, 0, hub)


@pytest.mark.parametrize("damage", ["another byte", "longer", "shorter"])
def test_a_damaged_copy_is_found_by_its_hash_and_made_again(
    damage: str, hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = cluster.hosts[1]
    copied(capsys, recipe, host)
    blob = large_blob(cluster, 1)
    content = blob.read_bytes()
    wrong = {"another byte": b"?" + content[1:], "longer": content + b"?", "shorter": b"?" + content[1:1000]}
    blob.write_bytes(wrong[damage])
    assert main(["recipe", "pull", recipe, "--verify", *to(host)]) == 0
    assert blob.read_bytes() == content


def test_a_node_that_fails_is_named_and_the_others_are_done(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = cluster.hosts[0], "nobody@127.0.0.1:1"
    assert main(["recipe", "pull", recipe, *to(bad, good)]) == 10
    said = capsys.readouterr().err
    assert "1 of 2 nodes do not have the weights" in said
    assert f"{bad}: {bad} cannot be reached" in said
    assert "ssh-copy-id -p 1 nobody@127.0.0.1" in said
    assert has_all(cluster, 0, hub)
    assert copied(capsys, recipe, good) == [0]


def test_a_node_without_room_or_rsync_is_one_sentence(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = cluster.hosts[0]
    with monkeypatch.context() as small:
        small.setattr(copying, "RESERVE", 1 << 60)
        assert main(["recipe", "pull", recipe, *to(host)]) == 10
        assert f"are missing on {host}, and the disk of /root/.cache/huggingface/hub has" in capsys.readouterr().err
    rsync = cluster.root / "usr/bin/rsync"
    rsync.rename(rsync.with_name("gone"))
    try:
        assert main(["recipe", "pull", recipe, *to(host)]) == 10
        said = capsys.readouterr().err
        assert f"{host} lacks rsync" in said
        assert "sudo apt-get install rsync" in said
    finally:
        rsync.with_name("gone").rename(rsync)


def test_odd_hosts_are_no_options_of_ssh(hub: FakeHub, recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("-oProxyCommand=touch /tmp/evil", "a b", "unix:///x"):
        assert main(["recipe", "pull", recipe, f"--host={host}"]) == 10
        assert "is no node" in capsys.readouterr().err


def test_a_copy_takes_the_address_that_the_cluster_names(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host, total = cluster.hosts[0], sum(map(len, FILES.values()))
    path = cluster_file(os.environ, "home")
    path.parent.mkdir(parents=True)
    for address, said in (("127.0.0.2", "copying over its fast link, 127.0.0.2"), ("192.0.2.1", "copying by its name")):
        path.write_text(f'nodes = ["{host}"]\n[node."{host}"]\naddress = "{address}"\n', encoding="utf-8")
        cluster.forget()
        assert main(["recipe", "pull", recipe, "--json", "--host", "@home"]) == 0
        out, err = capsys.readouterr()
        assert (json.loads(out)["nodes"][0]["copied"], said in err) == (total, True)
        assert has_all(cluster, 0, hub)


def test_ctrl_c_ends_a_copy_at_once(
    hub: FakeHub, cluster: Cluster, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recipe", "pull", recipe]) == 0
    slow = (*copying.RSYNC, "--bwlimit=500")
    script = (
        f"import sys; from gb10.serving.weights import copying as c; c.RSYNC = {slow!r}; from gb10.cli import main;"
    )
    argv = [sys.executable, "-c", f"{script} sys.exit(main(['recipe', 'pull', {recipe!r}, *{to(cluster.hosts[0])!r}]))"]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
        until(large_blob(cluster, 0).parent.is_dir, "the copy")
        threading.Timer(0.5, lambda: child.send_signal(signal.SIGINT)).start()
        _, said = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert "interrupted" in said
