"""The head's answers as values, and the names of nodes, without a head."""

import contextlib
import io
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from gb10.containers.head.session import SCRIPT, Node, Session, Way, node_of, on_host
from gb10.core.child_sessions import Dialogue, members
from gb10.core.ssh import SshHost
from gb10.core.store import Store, seal
from gb10.errors import EngineError, UsageError
from gb10.image.publish.via_head import HeadPull
from tests.hang import PATIENCE, until

NAMES = ("spark-2", "spark-3", "spark-4")


@contextlib.contextmanager
def session(text: str) -> Iterator[Session]:
    """A session whose head printed a text, then ended."""
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    with os.fdopen(read, "rb") as out:
        nodes = tuple(Node(host=name, ssh=SshHost(name=name, port=None, socket=None), socket="/s") for name in NAMES)
        pipe = Dialogue(io.BytesIO(), out, io.BytesIO(b"its last words"))
        yield Session(port=1, sockets="/w", nodes=nodes, pipe=pipe)


def test_each_thread_gets_the_answer_for_its_node_whoever_reads_it() -> None:
    odd = "banner of a shell\nbanner 2 7\nnode x y\nnode x 7\nnode 2 y\nlost 9 nobody\nlost 0 nobody\n"
    text = f"node 3 303\n{odd}lost 2 Permission denied\nnode 1 101\n"
    with session(text) as found, ThreadPoolExecutor(3) as pool:
        ways = [pool.submit(found.way, node) for node in found.nodes]
        assert ways[0].result() == Way(engine="unix:///w/1.sock", port=101)
        assert ways[2].result() == Way(engine="unix:///w/3.sock", port=303)
        error = ways[1].exception()
    assert isinstance(error, EngineError)
    assert (error.message, error.where) == ("spark-3 cannot be reached from the head", "Permission denied")
    assert "ssh-copy-id spark-3" in (error.hint or "")


def test_a_head_that_ended_is_told_with_its_last_words() -> None:
    with session("node 1 101\n") as found, pytest.raises(EngineError, match="spark-3 cannot be reached") as caught:
        found.way(found.nodes[1])
    assert caught.value.where == "the head: its last words"


@pytest.mark.parametrize(("text", "reason"), [("took 1\n", ""), ("left 1 no such image\n", "no such image")])
def test_what_containerd_answers(text: str, reason: str) -> None:
    with session(text) as found:
        if not reason:
            found.take(found.nodes[0], "linux/arm64", "127.0.0.1:1/a@sha256:b", "docker.io/a/b:1")
            return
        with pytest.raises(EngineError, match="the containerd of spark-2 does not take it") as caught:
            found.take(found.nodes[0], "linux/arm64", "127.0.0.1:1/a@sha256:b", "docker.io/a/b:1")
        assert caught.value.where == reason


def test_a_node_with_k3s_tells_its_machine() -> None:
    with session("node 1 101 aarch64\n") as found:
        assert found.way(found.nodes[0]) == Way(engine="unix:///w/1.sock", port=101, machine="aarch64")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node 1 101\ncollected\n", ""),
        ("error old layers stay in /r: blob unknown\n", "old layers stay in /r: blob unknown"),
        ("node 1 101\n", "the head did not tell whether old layers went: its last words"),
    ],
)
def test_why_old_layers_stay_on_the_head(text: str, why: str) -> None:
    with session(text) as found:
        assert found.done() == why


def test_nodes_by_what_a_user_writes() -> None:
    assert node_of("ssh://me@spark-2:2222/run/d.sock") == Node(
        host="ssh://me@spark-2:2222/run/d.sock",
        ssh=SshHost(name="me@spark-2", port="2222", socket="/run/d.sock"),
        socket="/run/d.sock",
    )
    assert node_of("spark-2", k3s=True).socket == ""
    for host in ("unix:///run/d.sock", "tcp://spark-2:2375", "-oProxyCommand=x", "a b"):
        with pytest.raises(UsageError, match="is no node that the head can reach"):
            node_of(host)


def test_the_head_itself_gets_nothing_and_sockets_are_of_this_machine() -> None:
    wanted = HeadPull(reference="a:1", head="me@spark-1", hosts=("me@spark-1", "me@spark-2"))
    assert (wanted.others, [node.ssh.name for node in wanted.nodes]) == (("me@spark-2",), ["me@spark-2"])
    for head, k3s in (("me@spark-1", False), ("localhost", True)):
        with pytest.raises(UsageError, match="a socket is of this machine"):
            print(HeadPull(reference="a:1", head=head, hosts=("unix:///d.sock",), k3s=k3s).nodes)


def test_a_head_that_is_ended_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    """A process that a shell has begun and that is not yet its program loses a signal."""
    program = tmp_path / "registry"
    program.write_text("#!/bin/sh\necho listening on 127.0.0.1:9\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    for at in range(12):
        argv = ["sh", "-c", SCRIPT.read_text(encoding="utf-8"), "sh", str(program), str(tmp_path), str(tmp_path / "w")]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as child:
            time.sleep(0.003 * at)
            child.terminate()
            child.wait(PATIENCE)
        until(partial(have_ended, child.pid), "the end of all that it started")


def have_ended(session: int) -> bool:
    return not list(members(session))


SSH = """#!/bin/sh
for last; do :; done
case "$last" in */tmp/gb10-head-*) what=start ;; *"uname -m"*) what=look ;; *) what=send ;; esac
echo "$what" >>"$CALLS"
[ "$what" = start ] && { echo "error no room on the head"; exit 1; }
HOME="$HEAD_HOME" exec sh -c "$last"
"""
"""An ssh whose head is another home folder of this machine."""


def test_a_head_gets_the_registry_once_and_again_when_its_bytes_differ(tmp_path: Path) -> None:
    store, machine = Store(tmp_path / "store"), os.uname().machine
    own = store.entry("engine", f"docker-registry-{machine}") / "docker-registry"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"program")
    seal(own)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH, encoding="ascii")
    (tmp_path / "bin/ssh").chmod(0o755)
    calls, head = tmp_path / "calls", tmp_path / "head"
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CALLS": str(calls), "HEAD_HOME": str(head)}
    sent = head / ".cache/gb10/docker-registry"

    def asked() -> list[str]:
        calls.unlink(missing_ok=True)
        with pytest.raises(EngineError, match="no registry starts on the head") as caught, on_host(store, env, "h", ()):
            pass
        assert caught.value.where == "no room on the head"
        assert (sent.read_bytes(), sent.stat().st_mode & 0o777) == (b"program", 0o755)
        return calls.read_text(encoding="ascii").split()

    assert asked() == ["look", "send", "start"]
    assert asked() == ["look", "start"]
    sent.write_bytes(b"Program")
    assert asked() == ["look", "send", "start"]
