"""What compilers of the image print for ``--version``, read from programs that may not run here."""

import shutil
from pathlib import Path

import pytest

from gb10.inside.rehearse.compiler_text import KeyUnknownError, host_text, toolkit_text

OWN, OTHER = "Wed_Aug_20_01:58:59_PM_PDT_2025", "Wed_Aug_20_01:57:39_PM_PDT_2025"
BUILD = "Build cuda_13.0.r13.0/compiler.36424714_0"
GCC = "c++ (Debian 14.2.0-19) 14.2.0"


def program(path: Path, text: str, content: bytes = b"") -> Path:
    """A program of this machine that prints a text; behind it, what a compiled program holds."""
    path.write_bytes(f"#!/bin/sh\nprintf '%s\\n' '{text}'\nexit\n".encode() + content)
    path.chmod(0o755)
    return path


def nvcc(path: Path, content: bytes) -> Path:
    return program(path, f"nvcc\nBuilt on {OWN}\n{BUILD}", content)


def holds(date: str, build: str = BUILD) -> bytes:
    return f"\0{date}\0{build}\0".encode()


def test_the_image_s_says_when_it_was_built_itself(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(holds(OTHER))  # no program of this machine
    assert toolkit_text(image, nvcc(tmp_path / "own", holds(OWN))) == f"nvcc\nBuilt on {OTHER}\n{BUILD}\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (holds(OTHER, "Build cuda_13.3.r13.3/compiler.1_0"), "different releases"),
        (f"\0{BUILD}\0".encode(), "does not say when it was built"),
        (holds(OTHER) + f"{OWN}\0".encode(), "does not say when it was built"),
    ],
)
def test_one_of_another_release_or_without_one_date_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(content)
    with pytest.raises(KeyUnknownError, match=why):
        toolkit_text(image, nvcc(tmp_path / "own", holds(OWN)))


def host(path: Path, text: str, version: str = "14.2.0") -> str:
    """A compiler of this machine: what it prints for ``--version``, and the version alone."""
    script = f"#!/bin/sh\ncase $1 in --version) echo '{text}' ;; *) echo {version} ;; esac\n"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "aarch64-linux-gnu-g++-14"
    path.write_bytes(b"\0(Debian 14.2.0-19) \0")
    return path


def test_the_host_compiler_of_the_same_package_prints_the_same(image: Path, tmp_path: Path) -> None:
    own = host(tmp_path / "c++", GCC)
    assert host_text(image, own, own) == f"{GCC}\n"
    image.write_bytes(b"\0(Debian 14.2.0-20) \0")
    with pytest.raises(KeyUnknownError, match="not of the package"):
        host_text(image, own, own)


def test_the_cross_compiler_is_of_the_same_version(image: Path, tmp_path: Path) -> None:
    own = host(tmp_path / "c++", GCC)
    assert host_text(image, own, host(tmp_path / "cross", "cross (Debian 14.2.0-19cross1) 14.2.0")) == f"{GCC}\n"
    with pytest.raises(KeyUnknownError, match="different versions"):
        host_text(image, own, host(tmp_path / "cross", "cross (Debian 14.3.0-1cross1) 14.3.0", "14.3.0"))


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_real_compiler_is_of_its_own_package() -> None:
    found = shutil.which("c++")
    assert found is not None
    assert host_text(Path(found), "c++", "c++").startswith("c++ (")


def test_what_names_no_package_is_refused(image: Path, tmp_path: Path) -> None:
    own = host(tmp_path / "c++", "c++ of nobody")
    with pytest.raises(KeyUnknownError, match="not of the package"):
        host_text(image, own, own)
