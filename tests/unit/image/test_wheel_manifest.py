"""The manifest of a wheel that was compiled here: where it lies, what it declares, what is refused."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import VerifyError
from gb10.image.proof.wheel_files import Manifest, declares, is_inside, read_manifest


def wheel(folder: Path, document: object, name: str = "pkg/manifest.json") -> Path:
    path = folder / "pkg-1-py3-none-any.whl"
    text = document if isinstance(document, str) else json.dumps(document)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/deep/manifest.json", "{}")
        archive.writestr(name, text)
    return path


DOCUMENT: dict[str, Any] = {
    "arch": "12.1f",
    "modules": {"one": {"cubins": ["12.1f", "sm_120"]}, "two": {"file": "pkg/_C.so", "cubins": []}},
    "left-out": {"three": "no GPU"},
}


def test_a_manifest_declares_the_cubins_of_each_module(tmp_path: Path) -> None:
    path = wheel(tmp_path, DOCUMENT)
    assert declares(path)
    assert read_manifest(path, "site/") == Manifest(
        file="site/pkg/manifest.json",
        arch="sm_121f",
        modules={"site/pkg/modules/one/one.so": ("sm_121f", "sm_120"), "site/pkg/_C.so": ()},
        left_out={"three": "no GPU"},
    )
    assert read_manifest(wheel(tmp_path, {"modules": {}})) == Manifest(file="pkg/manifest.json", arch="", modules={})


@pytest.mark.parametrize("name", ["manifest.json", "a/b/manifest.json", "pkg/other.json", "pkg/xmanifest.json"])
def test_only_a_manifest_at_the_top_of_a_package_counts(tmp_path: Path, name: str) -> None:
    path = wheel(tmp_path, DOCUMENT, name)
    assert not declares(path)
    with pytest.raises(VerifyError, match="does not declare what it holds"):
        read_manifest(path)


def test_what_is_no_archive_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("x", encoding="utf-8")
    assert not declares(tmp_path / "x.whl")


@pytest.mark.parametrize(
    "wrong",
    [
        "no json",
        "[]",
        "[" * 100_000,
        {},
        {"modules": []},
        {"modules": {"a": {}}},
        {"modules": {"a": {"cubins": 7}}},
        {"modules": {"a": {"cubins": ["9.9"]}}},
        {"modules": {}, "arch": "x"},
        {"modules": {"a": {"file": "../x", "cubins": []}}},
    ],
)
def test_a_malformed_manifest_is_one_error(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(VerifyError, match="is malformed") as caught:
        read_manifest(wheel(tmp_path, wrong))
    assert "--rebuild" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("a/b.so", True),
        ("a", True),
        ("a..b", True),
        ("", False),
        (".", False),
        ("..", False),
        ("a/../b", False),
        ("../a", False),
        ("/a", False),
        ("a//b", False),
        ("./a", False),
        ("a/", False),
        ("a\0b", False),
    ],
)
def test_names_that_stay_in_the_wheel(name: str, inside: bool) -> None:
    assert is_inside(name) is inside
