"""Pulled weights without a network: which files are taken, the lock, the cache's layout, and what recipes become."""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.models.recipe_pull import nodes_of
from gb10.core.proc import CommandFailedError, capture
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import Gb10Error, PublishError, UsageError
from gb10.image.context import Context
from gb10.models.load.loading import load_model_recipe
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.serving.cluster.node_facts import Reading
from gb10.serving.run.prepare_service import with_weights
from gb10.serving.run.service import ContainerSettings, service_of
from gb10.serving.run.service_nodes import cluster_file
from gb10.serving.run.service_nodes import nodes_of as service_nodes
from gb10.serving.weights import copying, node_cache
from gb10.serving.weights.copying import copy_to_each, fast_address, require_all
from gb10.serving.weights.downloading import RESERVE
from gb10.serving.weights.hub_cache import ModelFolder, cache_folder, content_hash
from gb10.serving.weights.model_lock import LockedFile, LockedModel, NodePlace, WeightsLock, lock_file, read_weights
from gb10.serving.weights.node_cache import NodeCache, look_at_node, node_error, ssh_words
from gb10.serving.weights.weights_pull import chosen_files, models_of
from gb10.sources.hub import HubFile
from tests.cluster_trees import Spark, facts_of, pair
from tests.recipes import SHIPPED

COMMIT, OTHER, SHA = "a" * 40, "b" * 40, "c" * 64
RECIPE = "model: org/m\ncontainer: gb10/vllm:1\ncommand: |\n  vllm serve org/m --gpu-memory-utilization 0.8\n"


@pytest.mark.parametrize(
    ("names", "quant", "left"),
    [
        ("a.safetensors config.json", None, ""),
        ("a.safetensors a.bin b.pth c.gguf x.onnx r.png config.json", None, "a.bin b.pth c.gguf x.onnx r.png"),
        ("a.safetensors original/a.safetensors metal/model.bin", None, "original/a.safetensors metal/model.bin"),
        ("a.safetensors consolidated.safetensors", None, "consolidated.safetensors"),
        ("consolidated-1.safetensors params.json", None, ""),
        ("a.bin config.json picture.JPG", None, "picture.JPG"),
        ("m-Q4_K_M.gguf m-Q8_0.gguf mmproj-f16.gguf README.md", "q4_k_m", "m-Q8_0.gguf"),
        ("m-Q4_K_M-1-of-2.gguf m-Q4_K_M-2-of-2.gguf", "Q4_K_M", ""),
        ("m.gguf config.json", None, ""),
    ],
)
def test_one_form_of_the_weights_is_taken(names: str, quant: str | None, left: str) -> None:
    files = [HubFile(path=name, size=1, blob=COMMIT) for name in names.split()]
    taken, others = chosen_files(files, quant)
    assert " ".join(one.path for one in others) == left
    assert len(taken) + len(others) == len(files)


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/me"}, "/x/huggingface/hub"),
        ({"HOME": "/me"}, "/me/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_the_hubs_own(env: dict[str, str], found: str) -> None:
    assert str(cache_folder(env)) == found
    with pytest.raises(UsageError):
        cache_folder({"HF_HOME": "relative"})


def test_contents_have_names_by_links_in_the_folder(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "org/m")
    assert folder.path.name == "models--org--m"
    folder.blob(SHA).parent.mkdir(parents=True)
    folder.blob(SHA).write_bytes(b"x")
    assert folder.holds(SHA, 1)
    assert not folder.holds(SHA, 2)
    folder.link(COMMIT, "sub/deep/a.bin", SHA)
    folder.link(COMMIT, "sub/deep/a.bin", SHA)
    assert (folder.snapshot(COMMIT) / "sub/deep/a.bin").read_bytes() == b"x"
    assert str((folder.snapshot(COMMIT) / "sub/deep/a.bin").readlink()) == f"../../../../blobs/{SHA}"
    assert folder.name_commit("main", COMMIT) is None
    assert folder.name_commit("main", COMMIT) is None
    assert folder.name_commit("main", OTHER) == COMMIT


def test_a_content_that_models_share_becomes_one_of_the_folder(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "hub", "org/m")
    shared = tmp_path / "hub/blobs/ab/shared"
    for path in (shared, folder.blob(SHA)):
        path.parent.mkdir(parents=True)
    shared.write_bytes(b"x")
    folder.blob(SHA).symlink_to("../../blobs/ab/shared")
    folder.own(SHA)
    assert not folder.blob(SHA).is_symlink()
    assert folder.blob(SHA).read_bytes() == b"x"
    assert folder.blob(SHA).stat().st_ino == shared.stat().st_ino


def test_a_hash_is_of_the_kind_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"hello\n")
    assert content_hash(file, COMMIT) == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    assert content_hash(file, SHA) == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"


def locked(*repos: str, places: dict[str, NodePlace] | None = None) -> WeightsLock:
    files = (LockedFile(path="a.safetensors", size=1, etag=SHA),)
    models = tuple(LockedModel(repo=repo, revision=COMMIT, asked="main", files=files) for repo in repos)
    return WeightsLock(version=1, recipe="x", models=models, places=places or {})


def test_a_place_counts_for_what_it_was_checked_against() -> None:
    one, two = locked("org/m"), locked("org/m", "org/d")
    place = NodePlace(cache="/c", models=one.content)
    assert locked("org/m", places={"n": place}).place("n") == place
    assert locked("org/m", "org/d", places={"n": place}).place("n") is None
    assert one.content != two.content


def test_locks_of_two_recipes_of_one_name_differ(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    names = {lock_file(env, RecipeFile(tmp_path / folder / "x.yaml")).name for folder in ("a", "b")}
    assert len(names) == 2
    assert all(name.startswith("x-") and name.endswith(".lock.json") for name in names)


@pytest.mark.parametrize("text", ["{}", "[", '{"version": 2}', json.dumps({"version": 1, "recipe": "x", "models": []})])
def test_a_broken_lock_is_one_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="this is no lock of weights"):
        read_weights(path)


def test_a_lock_names_no_file_outside() -> None:
    for name in ("../x", "/x", "a/../b", ""):
        with pytest.raises(ValueError, match="path"):
            LockedFile(path=name, size=1, etag=SHA)


def models(text: str, revision: str | None = None) -> list[tuple[str, str | None, str | None]]:
    found = models_of(load_model_recipe(text, "x.yaml"), revision)
    return [(one.repo, one.revision, one.quant) for one in found]


def test_the_models_of_a_recipe_are_the_served_and_the_drafting_ones() -> None:
    assert models(RECIPE) == [("org/m", None, None)]
    assert models(f"{RECIPE}model_revision: v1\n") == [("org/m", "v1", None)]
    assert models(f"{RECIPE}model_revision: v1\n", "v2") == [("org/m", "v2", None)]
    draft = '--speculative-config \'{"model": "org/d", "num_speculative_tokens": 3}\''
    assert models(RECIPE.replace("0.8\n", f"0.8 {draft}\n")) == [("org/m", None, None), ("org/d", None, None)]
    assert models("model: org/m-GGUF:Q4_K_M\nruntime: llama-cpp\ncontainer: x\n") == [("org/m-GGUF", None, "Q4_K_M")]
    with pytest.raises(UsageError, match="serves '/models/m'"):
        models(RECIPE.replace("org/m", "/models/m"))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def pulled(path: Path, places: dict[str, NodePlace]) -> None:
    lock = locked("org/m", places=places)
    target = lock_file({"XDG_DATA_HOME": str(path.parent / "DATA")}, RecipeFile(path))
    target.parent.mkdir(parents=True)
    target.write_text(lock.model_dump_json(by_alias=True), encoding="utf-8")


def test_a_recipe_is_rendered_at_the_commit_that_was_pulled(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "render", str(mine)]) == 0
    assert "--revision" not in capsys.readouterr().out
    pulled(mine, {})
    assert main(["recipe", "render", str(mine)]) == 0
    assert f"--revision {COMMIT}" in capsys.readouterr().out
    for words in (["--peer", "sparkrun"], ["--lenient", "sparkrun"]):
        assert main(["recipe", "render", str(mine), *words]) == 0
        assert "--revision" not in capsys.readouterr().out
    assert main(["recipe", "render", str(mine), "--", "--revision", "mine"]) == 0
    assert COMMIT not in capsys.readouterr().out


def test_version_1_and_sglang_take_the_commit_too(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pulled(mine, {})
    first = f'recipe_version: "1"\nname: x\n{RECIPE}'
    second = RECIPE.replace(
        "vllm serve org/m --gpu-memory-utilization", "sglang serve --model-path org/m --mem-fraction-static"
    )
    for text in (first, second):
        mine.write_text(text, encoding="utf-8")
        assert main(["recipe", "render", str(mine)]) == 0
        script = capsys.readouterr().out
        assert f"--revision {COMMIT}" in script
        assert ("--served-model-name org/m" in script) == (text == first)


def test_a_lock_of_another_model_changes_nothing(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pulled(mine, {})
    mine.write_text(RECIPE.replace("org/m", "org/new"), encoding="utf-8")
    assert main(["recipe", "render", str(mine)]) == 0
    assert "--revision" not in capsys.readouterr().out


def test_a_container_sees_the_files_of_its_node_and_asks_no_hub(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = locked("org/m").content
    places = {name: NodePlace(cache=f"/{name}/hub", models=content) for name in ("localhost", "me@b")}
    pulled(mine, places)
    assert main(["run", str(mine), "--dry-run", "--json"]) == 0
    (rank,) = json.loads(capsys.readouterr().out)["ranks"]
    launch = shlex.join(rank["launch"])
    target = "/var/cache/gb10/huggingface/hub/models--org--m"
    assert f"source=/localhost/hub/models--org--m,target={target},readonly" in launch
    assert "HF_HUB_OFFLINE=1" in launch
    assert f"--revision {COMMIT}" in launch
    mine.write_text(RECIPE.replace("0.8", "0.8 --tokenizer org/other"), encoding="utf-8")
    assert main(["run", str(mine), "--dry-run"]) == 0
    assert "HF_HUB_OFFLINE" not in capsys.readouterr().out
    mine.write_text(RECIPE.replace("org/m", "org/new"), encoding="utf-8")
    assert main(["run", str(mine), "--dry-run"]) == 0
    assert "HF_HUB_OFFLINE" not in capsys.readouterr().out


def test_each_node_sees_its_own_copy_or_downloads(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{RECIPE}min_nodes: 2\ndefaults: {{tensor_parallel: 2}}\nenv: {{HF_HOME: /root/hf}}\n"
    recipe, nodes = load_model_recipe(text, "m.yaml"), service_nodes(["me@b", "me@c"])
    rendered = render_recipe(recipe, RenderRequest(nodes=tuple(node.address for node in nodes)))
    service = service_of(name="m", model="org/m", rendered=rendered, nodes=nodes, mods=(), settings=ContainerSettings())
    places = {"me@b": NodePlace(cache="/b/hub", models=locked("org/m").content)}
    found = with_weights(Reporter({}), service, recipe, locked("org/m", places=places))
    first, second = (rank.container for rank in found.ranks)
    assert first.mounts == {"/b/hub/models--org--m": "/root/hf/hub/models--org--m"}
    assert (first.environment["HF_HUB_OFFLINE"], "HF_HUB_OFFLINE" in second.environment) == ("1", False)
    assert second.mounts == {}
    said = capsys.readouterr().err
    assert "me@c has no copy of the weights, and its server downloads them: recipe pull --host me@c" in said
    assert with_weights(Reporter({}), service, recipe, None) is service


def read(one: Spark, two: Spark) -> dict[str, Reading]:
    here, there = facts_of(one, two).values()
    return {"localhost": Reading(facts=here), "me@b": Reading(facts=there)}


def answer(readings: Mapping[str, object], monkeypatch: pytest.MonkeyPatch, *, reached: bool = True) -> None:
    def on_node(*_: object, **__: object) -> str:
        if reached:
            return ""
        raise PublishError("no")

    monkeypatch.setattr(copying, "read_nodes", lambda _: readings)
    monkeypatch.setattr(copying, "on_node", on_node)


def test_a_copy_takes_the_cable_that_both_machines_see(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = pair()
    readings = read(one, two)
    answer(readings, monkeypatch)
    assert fast_address(Reporter({}), "me@b", None) == two.cables["p0"][0].partition("/")[0]
    assert fast_address(Reporter({}), "me@b", "10.9.9.9") == "10.9.9.9"
    answer(readings, monkeypatch, reached=False)
    assert fast_address(Reporter({}), "me@b", None) is None
    assert "copying by its name" in capsys.readouterr().err
    answer(read(one, replace(two, cables={})), monkeypatch)
    assert fast_address(Reporter({}), "me@b", None) is None
    answer({**readings, "me@b": PublishError("no")}, monkeypatch)
    assert fast_address(Reporter({}), "me@b", None) is None


def test_a_cluster_names_its_nodes_and_their_addresses(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    path = cluster_file(env, "home")
    path.parent.mkdir(parents=True)
    path.write_text('nodes = ["localhost", "me@b"]\n[node."me@b"]\naddress = "10.0.0.2"\n', encoding="utf-8")
    assert nodes_of(env, ["@home", "me@c"]) == {"me@b": "10.0.0.2", "me@c": None}
    for hosts in (["@home", "me@b"], ["localhost"], ["me@c", "me@c"], ["@other"]):
        with pytest.raises(UsageError):
            nodes_of(env, hosts)


def test_a_nodes_answer_is_read_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["cache /c", "free 1000", "has models--org--m 5 aa", "has models--org--m x y", "what", "has z", ""]
    monkeypatch.setattr(node_cache, "capture", lambda *_, **__: "\n".join(lines))
    node = look_at_node("me@n", ["org/m"])
    assert (node.cache, node.free, node.has("org/m", "aa"), node.has("org/m", "bb")) == ("/c", 1_024_000, 5, 0)
    monkeypatch.setattr(node_cache, "capture", lambda *_, **__: "cache relative\nfree -1\n")
    with pytest.raises(PublishError, match="does not say where its cache is"):
        look_at_node("me@n", ["org/m"])
    monkeypatch.setattr(node_cache, "capture", lambda *_, **__: "cache /c\nlacks rsync\nlacks df\n")
    with pytest.raises(PublishError, match="lacks rsync, df"):
        look_at_node("me@n", ["org/m"])


def test_ssh_asks_no_question_and_knows_a_node_by_its_name() -> None:
    words = ssh_words("ssh://me@spark-1:2222")
    assert words[-1] == "me@spark-1"
    assert "-p 2222" in " ".join(words)
    assert "BatchMode=yes" in words
    assert "HostKeyAlias=spark-1" in ssh_words("me@spark-1", "10.0.0.1")
    assert ssh_words("me@spark-1", "10.0.0.1")[-1] == "me@10.0.0.1"
    for odd in ("-oProxyCommand=x", "a b", "unix:///x", "me@-x", ""):
        with pytest.raises(UsageError):
            ssh_words(odd)


@pytest.mark.parametrize(
    ("code", "host", "message", "hint"),
    [
        (127, "me@two", "ssh or rsync is missing on this machine", "sudo apt-get install openssh-client rsync"),
        (255, "me@two", "me@two cannot be reached", "ssh-copy-id me@two"),
        (255, "a node", "a node cannot be reached", "run the command again: it resumes"),
        (1, "me@two", "me@two failed", "run the command again: it resumes"),
    ],
)
def test_a_node_that_fails_is_told_from_one_that_cannot_be_reached(
    code: int, host: str, message: str, hint: str
) -> None:
    found = node_error(host, CommandFailedError(["ssh"], code, f"\n{'x' * 3000}\n"))
    assert found.message == message
    assert hint in (found.hint or "")
    assert len(found.where or "") == (3000 if code == 127 else 2000)


def test_contents_that_differ_on_a_node_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, absent = "a" * 64, "b" * 40, "c" * 64
    said = f"{'1' * 64}  {right}\n{'9' * 64} *{wrong}\nxargs: odd\n"
    monkeypatch.setattr(node_cache, "on_node", lambda *_, **__: said)
    node = NodeCache(host="me@two", cache="/c", free=0)
    assert node.mismatches("o/m", {right: "1" * 64, wrong: "2" * 64, absent: "3" * 64}) == [wrong, absent]


def test_nodes_that_lack_the_weights_are_named_once_with_each_hint() -> None:
    require_all({}, 3)
    failed = {
        "one": PublishError("no room", hint="make room"),
        "two": PublishError("no room", where="/c", hint="make room"),
        "three": PublishError("gone", hint="start it"),
    }
    with pytest.raises(PublishError, match="3 of 4 nodes do not have the weights") as caught:
        require_all(failed, 4)
    assert caught.value.where == "one: no room\ntwo: no room: /c\nthree: gone"
    assert caught.value.hint == "make room\nstart it"


class Node:
    """A machine that is a folder: the shell's scripts run here, with HOME there, and rsync is a copy of files."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.scripts, self.sent, self.harm = home, list[str](), list[list[str]](), 0
        programs = home / "bin"
        programs.mkdir(parents=True)
        (programs / "rsync").write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / "rsync").chmod(0o755)
        self.env = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
        monkeypatch.setattr(node_cache, "capture", self.capture)
        monkeypatch.setattr(copying, "stream", self.stream)
        monkeypatch.setattr(copying, "read_nodes", lambda hosts: {host: PublishError("no cable") for host in hosts})

    @property
    def folder(self) -> ModelFolder:
        return ModelFolder(self.home / ".cache/huggingface/hub", "org/m")

    def capture(self, argv: Sequence[str], *, stdin: str | None = None) -> str:
        if argv[-2] == "me@gone":
            raise CommandFailedError(argv, 255, "no route")
        self.scripts.append(argv[-1])
        return capture(["sh", "-c", argv[-1]], stdin=stdin, env=self.env)

    def stream(self, argv: Sequence[str], *, on_line: Callable[[str], None], **_: object) -> None:
        names = Path(argv[-3].partition("=")[2]).read_text(encoding="utf-8").splitlines()
        self.sent.append(names)
        for name in names:
            target = self.folder.cache / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.stat().st_size < (Path(argv[-2]) / name).stat().st_size:
                target.unlink(missing_ok=True)
                shutil.copy2(Path(argv[-2]) / name, target, follow_symlinks=False)
                if "/blobs/" in name and self.harm:
                    self.harm -= 1
                    target.write_bytes(b"?" * target.stat().st_size)
        on_line("        1,234  56%    1.00MB/s    0:00:01")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path / "node", monkeypatch)


LARGE, SMALL = b"x" * 2000, b"{}"
MODEL = LockedModel(
    repo="org/m",
    revision=COMMIT,
    asked="main",
    files=(
        LockedFile(path="a.safetensors", size=len(LARGE), etag=hashlib.sha256(LARGE).hexdigest()),
        LockedFile(path="sub/config.json", size=2, etag="9e26dfeeb6e641a33dae4961196235bdb965b21b"),  # git hash-object
    ),
)
BLOBS, LINKS = (
    [f"models--org--m/{name}" for name in names]
    for names in (
        [f"blobs/{file.etag}" for file in MODEL.files],
        [f"snapshots/{COMMIT}/{file.path}" for file in MODEL.files],
    )
)


class Copies:
    """This machine, whose cache has MODEL; ``to`` copies it to others."""

    def __init__(self, root: Path) -> None:
        self.cache, self.places = root / "hub", dict[str, NodePlace]()
        self.ctx = Context(env={}, store=Store(root / "store"), reporter=Reporter({}), catalog=SHIPPED)
        folder = ModelFolder(self.cache, "org/m")
        folder.blob("x").parent.mkdir(parents=True)
        for file, content in zip(MODEL.files, (LARGE, SMALL), strict=True):
            folder.blob(file.etag).write_bytes(content)
            folder.link(COMMIT, file.path, file.etag)
        folder.name_commit("main", COMMIT)

    def to(self, *hosts: str, verify: bool = False) -> tuple[dict[str, int], dict[str, Gb10Error]]:
        lock = WeightsLock(version=1, recipe="x", models=(MODEL,), places=self.places)
        done, failed = copy_to_each(self.ctx, dict.fromkeys(hosts), lock, self.cache, verify=verify)
        self.places |= {one.host: NodePlace(cache=one.cache, models=lock.content) for one in done}
        return {one.host: one.bytes for one in done}, failed


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def test_a_node_gets_what_it_lacks_contents_first_and_is_hashed_once(node: Node, copies: Copies) -> None:
    ref = "models--org--m/refs/main"
    assert copies.to("me@b") == ({"me@b": 2002}, {})
    assert node.sent == [BLOBS, [*LINKS, ref]]
    assert (node.folder.snapshot(COMMIT) / "sub/config.json").read_bytes() == SMALL
    assert sum("sha256sum --" in script for script in node.scripts) == 1
    assert copies.to("me@b") == ({"me@b": 0}, {})
    assert node.sent[2:] == [[*LINKS, ref]]
    assert sum("sha256sum --" in script for script in node.scripts) == 1
    (copies.cache / ref).unlink()
    copies.to("me@b", verify=True)
    assert node.sent[3:] == [LINKS]
    assert sum("sha256sum --" in script for script in node.scripts) == 2


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize(
    ("content", "sent"), [(b"x" * 500, 1500), (b"x" * 3000, 0), (b"y" * 2000, 0), (None, 2000), (LARGE, 0)]
)
def test_a_content_that_is_another_is_sent_again(
    content: bytes | None,
    sent: int,
    verify: bool,
    node: Node,
    copies: Copies,
) -> None:
    copies.to("me@b")
    blob = node.folder.blob(MODEL.files[0].etag)
    blob.write_bytes(content) if content is not None else blob.unlink()
    if not verify:
        copies.places.clear()  # a node of another lock: its hashes are not known
    assert copies.to("me@b", verify=verify) == ({"me@b": sent}, {})
    assert blob.read_bytes() == LARGE


@pytest.mark.parametrize(("harm", "right"), [(1, True), (2, True), (3, False)])
def test_what_comes_damaged_is_copied_once_more(
    harm: int,
    right: bool,
    node: Node,
    copies: Copies,
    capsys: pytest.CaptureFixture[str],
) -> None:
    node.harm = harm
    done, failed = copies.to("me@b")
    assert f"me@b: {min(harm, 2)} files are damaged: copying them again" in capsys.readouterr().err
    assert (list(done), list(failed)) == ((["me@b"], []) if right else ([], ["me@b"]))
    if not right:
        assert "1 files of org/m differ from those here, after a second copy, too" in failed["me@b"].message
        assert failed["me@b"].where == MODEL.files[0].etag


def test_a_full_disk_or_an_unreached_node_is_the_error_of_that_node_alone(
    node: Node, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, failed = copies.to("me@gone", "me@b")
    assert (done, list(failed), failed["me@gone"].message) == ({"me@b": 2002}, ["me@gone"], "me@gone cannot be reached")
    look = look_at_node
    for free, fits in ((RESERVE + 2000, True), (RESERVE + 1999, False)):
        node.folder.blob(MODEL.files[0].etag).unlink()
        monkeypatch.setattr(copying, "look_at_node", lambda *words, free=free: replace(look(*words), free=free))
        done, failed = copies.to("me@b")
        assert (done, "are missing on me@b" in str(failed.get("me@b"))) == (
            ({"me@b": 2000}, False) if fits else ({}, True)
        )
    monkeypatch.setattr(copying, "look_at_node", lambda *words: replace(look(*words), free=0))
    copies.to("me@b")
    (node.folder.blob(MODEL.files[0].etag)).write_bytes(LARGE)
    assert copies.to("me@b") == ({"me@b": 0}, {}), "nothing is missing"
