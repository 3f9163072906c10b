"""Which buildx runs a build, and what it is handed; two threads may prepare it at once."""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from gb10.containers import packages
from gb10.containers.buildx.commands import open_buildx
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.packages import PROGRAMS, Programs, damaged, unpack_sound, unpacked
from gb10.core.store import Store
from gb10.errors import EngineError


def engine(kind: Literal["user", "embedded"]) -> Engine:
    endpoint = Endpoint(host="unix:///nowhere", origin="test")
    return Engine(kind=kind, endpoint=endpoint, version="1", api="1.41", containerd=False)


def program(path: Path, words: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{words}'\n", encoding="ascii")
    path.chmod(0o755)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that holds an embedded buildx."""
    store = Store(tmp_path / "store")
    program(store.entry("engine", "k") / "bin" / "docker-buildx", "github.com/docker/buildx v0.13.1 x")
    store.write_text(store.entry("engine", "packages.json"), json.dumps({"key": "k", "versions": {}}))
    return store


def test_threads_that_prepare_one_client_do_not_disturb_each_other(store: Store) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: open_buildx(engine("embedded"), {}, store).version, range(64)))
    assert set(found) == {(0, 13)}


def test_an_old_plugin_gives_way_to_our_own(store: Store, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "docker", "github.com/docker/buildx v0.11.2 x")
    assert open_buildx(engine("user"), {"PATH": str(tmp_path / "bin")}, store).version == (0, 13)
    program(tmp_path / "bin" / "docker", "github.com/docker/buildx v0.14.0 x")
    assert open_buildx(engine("user"), {"PATH": str(tmp_path / "bin")}, store).command == ("docker", "buildx")


def test_our_own_engine_is_reached_without_the_users_docker(store: Store) -> None:
    own = {"DOCKER_CONTEXT": "far", "DOCKER_CONFIG": "/home/me/.docker", "BUILDX_BUILDER": "mine", "HTTPS_PROXY": "p"}
    found = open_buildx(engine("embedded"), own, store).env
    assert (found["DOCKER_HOST"], found["HTTPS_PROXY"]) == ("unix:///nowhere", "p")
    assert found["DOCKER_CONFIG"].startswith(str(store.root))
    assert not {"DOCKER_CONTEXT", "BUILDX_BUILDER"} & found.keys()


def test_an_old_plugin_alone_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "docker", "github.com/docker/buildx v0.11.2 x")
    with pytest.raises(EngineError, match=r"0\.11 is too old: gb10 needs 0\.13") as caught:
        open_buildx(engine("user"), {"PATH": str(tmp_path / "bin")}, Store(tmp_path / "empty"))
    assert caught.value.hint == "install docker-buildx 0.13 or newer"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": "k"}', '{"key": 1, "versions": {}}'])
def test_an_emptied_record_of_the_programs_counts_as_absent(store: Store, text: str) -> None:
    assert unpacked(store)
    store.write_text(store.entry("engine", "packages.json"), text)
    assert unpacked(store) is None


def test_a_builder_of_the_user_is_found_in_the_users_own_list(store: Store, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "docker", "github.com/docker/buildx v0.14.0 x")
    own = {"PATH": str(tmp_path / "bin"), "DOCKER_CONTEXT": "far", "BUILDX_CONFIG": "/home/me/buildx"}
    mine = open_buildx(replace(engine("user"), builder="mine"), own, store).env
    assert (mine.get("DOCKER_CONTEXT"), mine["BUILDX_CONFIG"]) == ("far", "/home/me/buildx")
    beside = open_buildx(replace(engine("embedded"), builder="mine"), own, store).env
    assert (beside.get("DOCKER_CONTEXT"), beside["DOCKER_HOST"]) == (None, "unix:///nowhere")


@pytest.mark.parametrize(
    ("libc", "suite"),
    [("glibc 2.41", "trixie"), ("glibc 2.38", "trixie"), ("glibc 2.37", "bookworm"), ("glibc 2.34.1", "bookworm")],
)
def test_runc_is_of_the_suite_whose_libc_this_machine_has(
    libc: str, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "confstr", lambda _: libc)
    assert packages._runc_suite() == suite


@pytest.mark.parametrize(("libc", "here"), [("glibc 2.33", "glibc 2.33"), (None, "another libc 0")])
def test_an_older_libc_is_named(libc: str | None, here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda _: libc)
    with pytest.raises(EngineError, match=f"needs glibc 2.34 or newer, here is {here}"):
        packages._runc_suite()


def test_programs_that_changed_are_fetched_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store.entry("engine", "key") / "bin"
    folder.mkdir(parents=True)
    names = [Path(path).name for paths in PROGRAMS.values() for path in paths]
    for name in names:
        (folder / name).write_text(name, encoding="ascii")
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
    programs = Programs(folder, {}, sums)
    fetched = Programs(folder, {"new": "1"}, {})
    monkeypatch.setattr(packages, "unpacked", lambda _: programs)
    monkeypatch.setattr(packages, "_fetch", lambda *_: fetched)
    assert unpack_sound(store, {}) == (programs, ())
    (folder / names[1]).write_text("changed", encoding="ascii")
    (folder / names[2]).unlink()
    assert damaged(programs) == (names[1], names[2])
    assert damaged(Programs(folder, {}, {**sums, names[0]: "none"})) == tuple(names[:3])
    assert unpack_sound(store, {}) == (fetched, (names[1], names[2]))
    monkeypatch.setattr(packages, "unpacked", lambda _: None)
    assert unpack_sound(store, {}) == (fetched, ())
