"""Receipts: found again only by the same command line, settings and files."""

import http.client
import io
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import typer

from gb10.cli import receipt
from gb10.cli.build import image
from gb10.cli.receipt import read_receipt, receipt_path, write_receipt
from gb10.core import inputs_digest
from gb10.image.plan.catalog import ROOT

BASE = ("image", "--engine", "vllm")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("plan",),
        ("image", "--dry-run"),
        ("image", "--overlay", "x"),
        ("image", "--overlay=x"),
        ("image", "--rebuild-flashinfer"),
        ("image", "--rebuild-kernels"),
        ("image", "--rebuild-vllm"),
        ("image", "--push=h/a"),
        ("image", "--engine", "mine.yaml"),
        ("image", "--engine=mine.yml"),
        ("image", "-h"),
        ("image", "--option-of-tomorrow"),
        ("image", "--builder", "big"),
        ("image", "--cache-from", "type=gha"),
        ("image", "--engine"),
        ("image", "--tag", "a b"),
        ("image", "vllm"),
    ],
)
def test_other_work_has_no_receipt(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert receipt_path(tmp_path, arguments, {}, ()) is None


@pytest.mark.parametrize(
    "more", [("-q",), ("--json",), ("--arch", "12.1f", "-v"), ("--arch=12.1f",), ("--tag", "my/sglang:test")]
)
def test_options_that_only_choose_have_a_receipt(more: tuple[str, ...], tmp_path: Path) -> None:
    assert receipt_path(tmp_path, (*BASE, *more), {}, ())


def test_a_receipt_is_of_the_arguments_that_main_was_given() -> None:
    """Nothing of the command line reads the arguments of the process, which may be another program's."""
    readers = [
        path.name for path in (ROOT / "gb10/cli").rglob("*.py") if "sys.argv" in path.read_text(encoding="utf-8")
    ]
    assert readers == []
    seen = []
    app = typer.Typer()
    app.command()(lambda ctx: seen.append(ctx.obj)).__annotations__["ctx"] = typer.Context
    app(args=[], standalone_mode=False, obj=("image", "--engine", "vllm"))
    assert seen == [("image", "--engine", "vllm")]


def test_options_that_choose_are_options_of_the_verb() -> None:
    known = {word for one in typer.main.get_command(image.app).params for word in one.opts}
    assert known >= receipt.FLAGS | receipt.VALUED


def test_every_folder_of_the_plan_is_in_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_digest, "ROOT", tmp_path)
    paths = {receipt_path(tmp_path, BASE, {}, ())}
    for name in ("gb10/a.py", "templates/a.j2", "recipes/images/a.yaml", "patches/vllm/0001-a.patch"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        paths.add(receipt_path(tmp_path, BASE, {}, ()))
    assert len(paths) == 5


@pytest.mark.parametrize("odd", ["a folder of links", "a folder that is a link", "a link to itself"])
def test_a_folder_that_cannot_be_read_whole_has_no_receipt(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs_digest, "ROOT", tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "elsewhere").mkdir()
    assert receipt_path(tmp_path, BASE, {}, ())
    match odd:
        case "a folder of links":
            (tmp_path / "recipes/images").symlink_to(tmp_path / "elsewhere")
        case "a folder that is a link":
            (tmp_path / "patches").symlink_to(tmp_path / "elsewhere")
        case _:
            (tmp_path / "recipes/a.yaml").symlink_to("a.yaml")
    found = receipt_path(tmp_path, BASE, {}, ())
    assert (found is None) is (odd != "a folder that is a link")  # os.walk enters that one


def test_a_name_of_any_bytes_is_in_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_digest, "ROOT", tmp_path)
    (tmp_path / "recipes").mkdir()
    before = receipt_path(tmp_path, BASE, {}, ())
    (tmp_path / "recipes" / os.fsdecode(b"caf\xe9.yaml")).touch()
    after = receipt_path(tmp_path, BASE, {}, ())
    assert before
    assert after
    assert before != after


def test_a_receipt_that_others_may_write_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "receipts/one"
    kept = receipt.Receipt(host="unix:///x", id="", tags=(), proof="", digest="", summary=(), document={})
    write_receipt(place, kept)
    monkeypatch.setattr(receipt, "_holds", lambda _: True)
    assert read_receipt(place)
    place.chmod(0o666)
    assert read_receipt(place) is None


def test_every_choice_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    paths = [
        receipt_path(tmp_path, BASE, {}, (config,)),
        receipt_path(tmp_path, (*BASE, "--json"), {}, (config,)),
        receipt_path(tmp_path, BASE, {"DOCKER_HOST": "unix:///x"}, (config,)),
        receipt_path(tmp_path, BASE, {"GB10_BUILDER": "big"}, (config,)),
    ]
    config.write_text("{}", encoding="utf-8")
    paths.append(receipt_path(tmp_path, BASE, {}, (config,)))
    assert len(set(paths)) == 5
    assert paths[-1] == receipt_path(tmp_path, BASE, {"UNRELATED": "1"}, (config,))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"tags": []}'])
def test_a_damaged_receipt_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "receipt").write_text(text, encoding="utf-8")
    assert read_receipt(tmp_path / "receipt") is None


def test_a_kept_answer_needs_no_verb_loaded() -> None:
    """Typer alone takes longer than the answer."""
    code = "import sys, gb10.cli; sys.exit(bool({'typer', 'pydantic', 'requests'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


class Docker:
    """An engine at a socket, by http.client: images by tag; ``odd`` is answered in place of all."""

    def __init__(self) -> None:
        self.images, self.places, self.odd = {"a:1": "sha256:1", "b/c:2": "sha256:1"}, list[str](), ""

    def connection(self, *_: object, **__: object) -> object:
        asked: list[str] = []

        def reply() -> object:
            if self.odd == "no HTTP":
                raise http.client.BadStatusLine("x")
            found = self.images.get(unquote(asked[-1]).removeprefix("/images/").removesuffix("/json"))
            text = self.odd or json.dumps({"Id": found})
            return SimpleNamespace(status=200 if found else 404, read=io.BytesIO(text.encode()).read)

        return SimpleNamespace(request=lambda _, path: asked.append(path), getresponse=reply)


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Docker:
    found = Docker()

    class Socket:
        def __enter__(self) -> object:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def settimeout(self, _: float) -> None:
            pass

        def connect(self, place: str) -> None:
            found.places.append(place)

    monkeypatch.setattr(socket, "socket", lambda _: Socket())
    monkeypatch.setattr(http.client, "HTTPConnection", found.connection)
    monkeypatch.setattr(receipt, "DEFAULT_SOCKET", tmp_path / "default.sock")
    return found


def test_a_kept_answer_holds_while_the_engine_has_the_image_under_every_tag(docker: Docker, tmp_path: Path) -> None:
    (tmp_path / "proof").touch()
    kept = receipt.Receipt(
        host="unix:///run/own.sock",
        id="sha256:1",
        tags=("a:1", "b/c:2"),
        proof=str(tmp_path / "proof"),
        digest="sha256:2",
        summary=(),
        document={},
    )

    def held(one: receipt.Receipt) -> bool:
        write_receipt(tmp_path / "receipts/one", one)
        found = read_receipt(tmp_path / "receipts/one")
        assert found in (None, one)
        return found is not None

    assert held(kept)
    assert docker.places == ["/run/own.sock"]
    assert not held(replace(kept, id="sha256:2"))
    assert not held(replace(kept, tags=("a:1", "gone:1")))
    assert not held(replace(kept, host="tcp://10.0.0.1:2375"))
    assert not held(replace(kept, proof=str(tmp_path / "none")))
    for odd in ("no HTTP", "[", '{"Id": 1}', "{}"):
        docker.odd = odd
        assert not held(kept), odd
    docker.odd = ""
    (tmp_path / "default.sock").touch()  # the user has started a Docker: it comes first
    assert not held(kept)
    assert held(replace(kept, host=f"unix://{tmp_path}/default.sock"))


def test_a_kept_answer_is_printed_as_the_verb_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = receipt.Receipt(
        host="unix:///x", id="i", tags=(), proof="", digest="sha256:2", summary=("one", "two"), document={"a": 1}
    )
    monkeypatch.setattr(receipt, "own_receipt", lambda arguments: tmp_path if arguments[0] == "image" else None)
    monkeypatch.setattr(receipt, "read_receipt", lambda _: one)
    for words, out, err in (
        (["image"], "sha256:2\n", "one\ntwo\n"),
        (["image", "-q"], "sha256:2\n", ""),
        (["image", "--quiet", "--json"], '{\n  "a": 1\n}\n', ""),
    ):
        assert receipt.answered(words)
        assert capsys.readouterr() == (out, err)
    assert not receipt.answered(["plan"])
    monkeypatch.setattr(receipt, "read_receipt", lambda _: None)
    assert not receipt.answered(["image"])
    assert capsys.readouterr() == ("", "")
