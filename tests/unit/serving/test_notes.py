"""Where a service was started: notes in the user's own folder, written at once by many, read with care."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gb10.core.printing import printable, visible
from gb10.errors import UsageError
from gb10.serving.run.notes import SCHEMA, forget, is_node, note_nodes, notes_folder, read_notes
from gb10.serving.run.service import read_labels
from gb10.serving.run.service_url import is_own, url_on

NODES = ("me@spark-1", "me@spark-2")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path), "HOME": "/nonexistent"}


def test_a_note_has_the_nodes_until_it_is_forgotten(env: dict[str, str]) -> None:
    path = note_nodes(env, "x", NODES)
    note_nodes(env, "x", ("me@spark-3",))
    note_nodes(env, "y", ("localhost", "unix:///run/x.sock"))
    assert note_nodes(env, "z", ("localhost",)) is None
    found = read_notes(env)
    assert sorted(found.nodes_of("x")) == ["me@spark-1", "me@spark-2", "me@spark-3"]
    assert len(found.nodes_of(None)) == 5
    (note,) = (one for one in found.notes if one.path == path)
    assert path is not None
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    note_nodes(env, "x", NODES)  # another run of it begins
    assert forget(note) == ""
    assert path.exists()
    (note,) = (one for one in read_notes(env).notes if one.path == path)
    assert (forget(note), forget(note), path.exists()) == ("", "", False)


def test_many_runs_at_once_lose_no_note(env: dict[str, str]) -> None:
    def run(number: int) -> None:
        note_nodes(env, f"s{number % 5}", (f"me@spark-{number % 10}", f"me@spark-{number}"))
        read_notes(env)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(64)))
    assert (len(read_notes(env).notes), read_notes(env).unread) == (64, ())
    assert [path for path in notes_folder(env).iterdir() if path.suffix != ".json"] == []


def content(**change: object) -> str:
    return json.dumps({"schema": SCHEMA, "service": "x", "nodes": list(NODES), **change})


HOSTILE = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "deep": "[" * 60_000,
    "long": content(service="x" * 70_000),
    "another schema": content(schema="x"),
    "no nodes": content(nodes=[]),
    "many nodes": content(nodes=["a"] * 65),
    "a number of nodes": content(nodes=2),
    "an option": content(nodes=["-oProxyCommand=x"]),
    "a blank": content(nodes=["a b"]),
    "a comma": content(nodes=["a,b"]),
    "a control character": content(nodes=["a\x1b"]),
    "a number": content(nodes=["2"]),
    "a path as name": content(service="../x"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_note_that_is_none_is_said_and_the_others_count(env: dict[str, str], text: str) -> None:
    note_nodes(env, "x", NODES)
    (notes_folder(env) / "odd.json").write_text(text, encoding="utf-8")
    found = read_notes(env)
    assert [one.nodes for one in found.notes] == [NODES]
    assert found.unread == (f"{notes_folder(env)}/odd.json is not used: it is no note of gb10",)


def _folder(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _open_to_all(path: Path) -> None:
    path.write_text(content(), encoding="utf-8")
    path.chmod(0o666)


@pytest.mark.parametrize("make", [os.mkfifo, _folder, _link, _open_to_all])
def test_what_is_no_plain_file_of_the_user_is_said(env: dict[str, str], make: Callable[[Path], None]) -> None:
    note_nodes(env, "x", NODES)
    make(notes_folder(env) / "odd.json")
    found = read_notes(env)
    assert (len(found.notes), len(found.unread)) == (1, 1)


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"XDG_STATE_HOME": str(tmp_path / "file")}
    assert "cannot be read: Not a directory" in read_notes(env).unread[0]
    with pytest.raises(UsageError, match="cannot write"):
        note_nodes(env, "x", NODES)
    assert read_notes({"XDG_STATE_HOME": str(tmp_path / "none")}).unread == ()
    assert notes_folder({"XDG_STATE_HOME": "here", "HOME": "/h"}) == Path("/h/.local/state/gb10/services")


def test_more_notes_than_are_read_are_said(env: dict[str, str]) -> None:
    note_nodes(env, "x", NODES)
    for number in range(256):
        (notes_folder(env) / f"{number}.json").write_text(content(), encoding="utf-8")
    found = read_notes(env)
    assert (len(found.notes), found.unread[0].endswith("has 257 notes, of which 256 are read")) == (256, True)


@pytest.mark.parametrize(
    ("node", "label", "url"),
    [
        ("localhost", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost", "http://localhost:8000", "http://localhost:8000"),
        ("localhost", "http://evil.example:8000", "http://127.0.0.1:8000"),
        ("localhost", "http://169.254.169.254:80", "http://127.0.0.1:80"),
        ("localhost", "http://[::ffff:169.254.169.254]:80", "http://127.0.0.1:80"),
        ("localhost", "http://0.0.0.0:80", "http://127.0.0.1:80"),
        ("unix:///run/d.sock", "http://evil:1", "http://127.0.0.1:1"),
        ("tcp://10.0.0.5:2375", "http://evil:8000", "http://10.0.0.5:8000"),
        ("localhost", "https://127.0.0.1:8000", None),
        ("localhost", "http://127.0.0.1:8000/x", None),
        ("localhost", "http://a@b:8000", None),
        ("localhost", "http://127.0.0.1:0", None),
        ("localhost", "http://127.0.0.1:65536", None),
        ("localhost", "http://127.0.0.1:٣", None),
        ("localhost", f"http://{'a' * 300}:1", None),
        ("localhost", "", None),
    ],
)
def test_a_service_is_asked_on_its_node_whatever_its_label_names(node: str, label: str, url: str | None) -> None:
    assert url_on(node, label) == url


def test_what_this_machine_is() -> None:
    assert [is_own(one) for one in ("127.0.0.1", "127.9.9.9", "192.0.2.1", "224.0.0.1", "::", "example.org")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("node", ["localhost", "me@spark", "ssh://me@spark:22/run/x.sock", "unix:///x", "tcp://a:1"])
def test_what_can_name_a_node(node: str) -> None:
    assert is_node(node)
    assert not is_node(f"{node}\x1b")


def test_a_label_with_too_many_nodes_names_none() -> None:
    ours = "io.github.gb10.service"
    assert read_labels({f"{ours}.hosts": json.dumps(["a"] * 65)}).hosts == ()
    assert read_labels({f"{ours}.hosts": json.dumps(["a" * 1000])}).hosts == ("a" * 255,)


def test_what_reaches_a_terminal() -> None:
    assert printable("a\x1b[31m\n\u202e\u009b") == r"a\x1b[31m\n\u202e\x9b"
    assert visible("a\x1b[31mb\x1b[0m\tc\nd\re\x1b]0;x\x07") == "ab\tc\nd\\re\\x1b]0;x\\x07"
