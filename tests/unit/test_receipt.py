"""Receipts: found again only by the same command line, settings and files."""

from pathlib import Path

import pytest

from gb10.engine.receipt import read_receipt, receipt_path

BASE = ("image", "--engine", "vllm")


@pytest.mark.parametrize(
    "arguments",
    [(), ("plan",), ("image", "--dry-run"), ("image", "--overlay", "x"), ("image", "--overlay=x"),
     ("image", "--rebuild-flashinfer"), ("image", "-h")],
)  # fmt: skip
def test_other_work_has_no_receipt(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert receipt_path(tmp_path, arguments, {}, ()) is None


def test_every_choice_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    paths = [receipt_path(tmp_path, BASE, {}, (config,)), receipt_path(tmp_path, (*BASE, "--json"), {}, (config,)),
             receipt_path(tmp_path, BASE, {"DOCKER_HOST": "unix:///x"}, (config,))]  # fmt: skip
    config.write_text("{}", encoding="utf-8")
    paths.append(receipt_path(tmp_path, BASE, {}, (config,)))
    assert len(set(paths)) == 4
    assert paths[-1] == receipt_path(tmp_path, BASE, {"UNRELATED": "1"}, (config,))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"tags": []}'])
def test_a_damaged_receipt_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "receipt").write_text(text, encoding="utf-8")
    assert read_receipt(tmp_path / "receipt") is None
