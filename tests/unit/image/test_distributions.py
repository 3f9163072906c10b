"""What METADATA and WHEEL say, held against importlib.metadata; what a release of an engine asks for."""

import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from gb10.errors import FetchError
from gb10.image.lock.moves import LARGEST, Demand, demands, extras_of, metadata_of
from gb10.image.patches.release_files import _best, parse_version, version_of
from gb10.image.patches.source_tree import Folder, open_tree
from gb10.inside.scan import installed
from gb10.inside.scan.installed import Distribution, cuda_of, described, is_metadata, read_distribution, read_head
from gb10.sources.index.page import Link

SITE = Path(next(path for path in sys.path if path.endswith("site-packages")))


def test_what_is_installed_here_reads_as_python_reads_it() -> None:
    """Every distribution of this environment, by importlib.metadata."""
    compared = 0
    for known in distributions(path=[str(SITE)]):
        folder = next(SITE.glob(f"{known.name.replace('-', '_')}-{known.version}.dist-info"), None)
        if folder is None:
            continue
        found = read_distribution(folder / "METADATA", str(folder / "METADATA"))
        assert (found.name, found.version, found.site) == (known.name, known.version, str(SITE))
        wanted = [" ".join(text.split()) for text in known.requires or ()]
        assert list(found.requires) == [text for text in wanted if "extra" not in text.partition(";")[2]]
        assert all(tag.count("-") == 2 for tag in found.tags)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("usr/lib/python3/dist-packages/a-1.dist-info/METADATA", True),
        ("lib/python3.13/site-packages/a-1.dist-info/METADATA", True),
        ("opt/venv/lib/python3.13/site-packages/a-1.dist-info/METADATA", True),
        ("lib/python3.13/site-packages/a/_vendor/b-1.dist-info/METADATA", False),
        ("lib/python3.13/site-packages/a-1.dist-info/WHEEL", False),
        ("lib/python2.7/site-packages/a-1.dist-info/METADATA", False),
    ],
)
def test_only_what_python_finds_is_a_distribution(path: str, found: bool) -> None:
    assert is_metadata(path) is found


def of(metadata: str, wheel: str = "", torch: str = "", name: str = "s/torch-9.dist-info/METADATA") -> Distribution:
    return described(name, metadata, wheel, torch)


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("License-Expression: MIT\nLicense: x", "MIT"),
        ("License: Apache 2.0", "Apache 2.0"),
        ("License: UNKNOWN", ""),
        (f"License: {'x' * 100}", "x" * 100),
        (f"License: {'x' * 101}", ""),
        ("License: The text\n        of it", ""),
        ("", ""),
    ],
)
def test_a_licence_is_a_name(text: str, licence: str) -> None:
    assert of(f"Name: a\nVersion: 1\n{text}\n").licence == licence


def test_a_damaged_metadata_has_the_name_of_its_folder() -> None:
    assert (of("").name, of("").version, of("").requires) == ("torch", "", ())
    assert of("Name:  a \nVersion: 1 \n").name == "a"


def test_lines_and_characters_have_a_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed, "FIELDS", 2)
    monkeypatch.setattr(installed, "FIELD", 3)
    assert of("Requires-Dist: abcd\nRequires-Dist: b\nRequires-Dist: c\n").requires == ("abc", "b")
    monkeypatch.setattr(installed, "LARGEST", 4)
    (tmp_path / "f").write_bytes(b"abcdef")
    (tmp_path / "link").symlink_to("f")
    assert read_head(tmp_path / "f") == "abcd"
    assert read_head(tmp_path / "link") == read_head(tmp_path) == read_head(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'\n", "13.0"),
        ('cuda = "12.8"\nhip = None\n', "12.8"),
        ("cuda: Optional[str] = None\n", "none"),
        ("not_cuda = '1'\n", ""),
        ("", ""),
    ],
)
def test_the_cuda_of_torch(text: str, cuda: str) -> None:
    assert cuda_of(text) == cuda
    assert of("Name: torch\nVersion: 9\n", torch=text).cuda == cuda
    assert of("Name: torchvision\nVersion: 9\n", torch=text).cuda == ""


METADATA = b"""Metadata-Version: 2.1
Name: engine
Version: 1
Provides-Extra: audio
Provides-Extra: all
Requires-Dist: Plain>=1
Requires-Dist: pinned==2.0
Requires-Dist: family==2.*
Requires-Dist: here; platform_machine == "aarch64"
Requires-Dist: there; platform_machine == "x86_64"
Requires-Dist: old; python_version < "3.12"
Requires-Dist: mac; sys_platform == "darwin"
Requires-Dist: sound>=3; extra == "audio"
Requires-Dist: sound>=3; extra == "all"
Requires-Dist: both>=1; extra == "all" and platform_machine == "aarch64"
Requires-Dist: not a requirement !
"""


def test_a_release_asks_for_what_counts_on_this_platform() -> None:
    found = demands(METADATA, "3.13", "aarch64")
    always = [one.project for one in found if not one.extra]
    assert always == ["plain", "pinned", "family", "here"]
    assert [one.project for one in demands(METADATA, "3.11", "x86_64") if not one.extra] == [
        *("plain", "pinned", "family", "there", "old")
    ]
    assert {one.project: one.pin for one in found if one.pin} == {"pinned": "2.0"}
    assert extras_of(found) == {"audio": ("sound>=3",), "all": ("both>=1", "sound>=3")}
    assert extras_of(found[:4]) == {}


@pytest.mark.parametrize(
    ("specifier", "pin"), [("==1", "1"), ("===1", "1"), ("==1.*", None), (">=1", None), ("==1,!=2", None), ("", None)]
)
def test_a_pin_is_one_release(specifier: str, pin: str | None) -> None:
    (one,) = demands(f"Name: a\nVersion: 1\nRequires-Dist: b{specifier}\n".encode(), "3.13", "aarch64")
    assert isinstance(one, Demand)
    assert one.pin == pin


def test_the_metadata_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "PKG-INFO").write_bytes(METADATA)
    assert metadata_of(Folder(tmp_path), "engine 1") == METADATA
    (tmp_path / "PKG-INFO").write_bytes(bytes(LARGEST))
    assert len(metadata_of(Folder(tmp_path), "engine 1")) == LARGEST
    (tmp_path / "PKG-INFO").write_bytes(bytes(LARGEST + 1))
    with pytest.raises(FetchError, match="engine 1 has no usable metadata"):
        metadata_of(Folder(tmp_path), "engine 1")


def test_the_metadata_of_a_wheel_lies_in_its_one_folder_for_them(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"

    def read(*names: str) -> bytes:
        with zipfile.ZipFile(path, "w") as wheel:
            for name in names:
                wheel.writestr(name, METADATA)
        return metadata_of(open_tree(path), "a 1")

    assert read("a-1.dist-info/METADATA", "a/vendored/b-2.dist-info/METADATA") == METADATA
    for names in (("a/a.py",), ("a-1.dist-info/METADATA", "b-2.dist-info/METADATA"), ("a/a-1.dist-info/METADATA",)):
        with pytest.raises(FetchError, match="a 1 has no usable metadata"):
            read(*names)


@pytest.mark.parametrize(
    ("filename", "version"),
    [
        ("vllm-0.33.0-cp38-abi3-manylinux_2_31_aarch64.whl", "0.33.0"),
        ("vllm-0.33.0.tar.gz", "0.33.0"),
        ("vllm-0.33.0.exe", None),
        ("vllm.whl", None),
    ],
)
def test_the_version_in_a_files_name(filename: str, version: str | None) -> None:
    link = Link(filename=filename, url=f"https://h.invalid/{filename}", sha256=None, size=None)
    assert version_of(link) == (parse_version(version) if version else None)


def test_of_a_release_the_source_is_read_else_the_wheel_of_the_image() -> None:
    wheels = ("manylinux_2_28_x86_64", "win_arm64", "macosx_11_0_arm64", "manylinux_2_28_aarch64")
    names = [f"vllm-1-cp38-abi3-{tag}.whl" for tag in wheels]
    links = [Link(filename=name, url=f"https://h.invalid/{name}", sha256=None, size=None) for name in names]
    source = Link(filename="vllm-1.tar.gz", url="https://h.invalid/s", sha256=None, size=None)
    assert _best([*links, source]) == source
    assert _best(links) == links[-1]
    assert _best(links[:3]) is None
