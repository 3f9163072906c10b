"""Receipts: found again only by the same command line, settings and files."""

from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gb10.cli import image
from gb10.engine import receipt
from gb10.engine.receipt import read_receipt, receipt_path

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
    ],
)
def test_other_work_has_no_receipt(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert receipt_path(tmp_path, arguments, {}, ()) is None


def test_every_option_that_reads_files_of_the_users_has_no_receipt() -> None:
    """The digest holds the words of a command line, not what lies behind them."""
    takes = set()
    for hint in get_type_hints(image.image, include_extras=True).values():
        kind, option = get_args(hint) if hint is not type(None) else (None, None)
        if "Path" in str(kind) or "DIR" in (getattr(option, "metavar", None) or ""):
            takes.add(option.default)  # in an Annotated the first word of Option stands there
    assert {"--overlay", "--patch", "--mod", "--context"} <= takes
    assert takes <= set(receipt.OTHER_WORK)


def test_every_folder_of_the_plan_is_in_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt, "ROOT", tmp_path)
    paths = {receipt_path(tmp_path, BASE, {}, ())}
    for name in ("gb10/a.py", "templates/a.j2", "recipes/images/a.yaml", "patches/vllm/0001-a.patch"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        paths.add(receipt_path(tmp_path, BASE, {}, ()))
    assert len(paths) == 5


def test_every_choice_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    paths = [
        receipt_path(tmp_path, BASE, {}, (config,)),
        receipt_path(tmp_path, (*BASE, "--json"), {}, (config,)),
        receipt_path(tmp_path, BASE, {"DOCKER_HOST": "unix:///x"}, (config,)),
    ]
    config.write_text("{}", encoding="utf-8")
    paths.append(receipt_path(tmp_path, BASE, {}, (config,)))
    assert len(set(paths)) == 4
    assert paths[-1] == receipt_path(tmp_path, BASE, {"UNRELATED": "1"}, (config,))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"tags": []}'])
def test_a_damaged_receipt_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "receipt").write_text(text, encoding="utf-8")
    assert read_receipt(tmp_path / "receipt") is None
