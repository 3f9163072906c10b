"""The parts of Triton's cache key that lie in the image's files: by its own function, where they cannot be loaded."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.inside.rehearse.compiler_text import KeyUnknownError
from gb10.inside.rehearse.triton_key import image_answers, image_key

CACHE = """
import functools, hashlib, os, sysconfig
from triton import __version__

def unrelated():
    raise RuntimeError

@functools.lru_cache()
def triton_key():
    import pkgutil
    TRITON_PATH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    contents = []
    for lib in pkgutil.walk_packages([os.path.join(TRITON_PATH, "backends")], prefix="triton.backends."):
        with open(lib.module_finder.find_spec(lib.name).origin, "rb") as f:
            contents += [hashlib.sha256(f.read()).hexdigest()]
    with open(os.path.join(TRITON_PATH, "_C", "libtriton.so"), "rb") as f:
        contents.append(hashlib.sha256(f.read()).hexdigest())
    return f'{__version__}' + '-'.join(contents)
"""
VERSION = "ptxas-blackwell: NVIDIA (R) Ptx optimizing assembler\nBuilt on {date}\nBuild cuda_13.3.r13.3/compiler.1_0\n"
OWN, OTHER = "Fri_Apr_24_07:22:02_PM_PDT_2026", "Fri_Apr_24_07:23:04_PM_PDT_2026"


def triton(folder: Path, date: str = OWN, library: bytes = b"machine code") -> Path:
    """A Triton of this form: two packages, a library, a ptxas that is a program of this machine."""
    for name, text in {
        "__init__.py": "__version__ = '3.8.0'\n",
        "runtime/__init__.py": "",
        "runtime/cache.py": CACHE,
        "backends/__init__.py": "raise RuntimeError('not to be imported')",
        "backends/compiler.py": "A = 1",
        "backends/nvidia/__init__.py": "",
        "backends/nvidia/driver.py": "B = 1",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "_C").mkdir()
    (folder / "_C/libtriton.so").write_bytes(library)
    ptxas = folder / "backends/nvidia/bin/ptxas-blackwell"
    ptxas.parent.mkdir()
    told = VERSION.format(date=date)
    ptxas.write_bytes(f"#!/bin/sh\nprintf %s '{told}'\nexit\n".encode() + b"\0" + date.encode() + b"\0")
    ptxas.chmod(0o755)
    return folder


def test_it_is_what_the_function_itself_returns(tmp_path: Path) -> None:
    folder = triton(tmp_path / "site/triton")
    (folder / "backends/__init__.py").write_text("")
    code = "import json; from triton.runtime.cache import triton_key; print(json.dumps(triton_key()))"
    argv = [sys.executable, "-S", "-B", "-c", code]
    real = json.loads(subprocess.run(argv, cwd=tmp_path / "site", capture_output=True, check=True).stdout)
    assert image_key(folder) == real
    assert real.startswith("3.8.0")
    assert len(real.split("-")) == 4


def test_nothing_of_the_image_is_imported_and_no_module_is_left(tmp_path: Path) -> None:
    folder = triton(tmp_path / "triton")
    before = set(sys.modules)
    key = image_key(folder)
    assert hashlib.sha256(b"machine code").hexdigest() in key
    assert set(sys.modules) - before <= {"pkgutil", "importlib.machinery"}


def test_another_library_or_source_is_another_key(tmp_path: Path) -> None:
    one, other = triton(tmp_path / "a/triton"), triton(tmp_path / "b/triton", library=b"stripped")
    assert image_key(one) != image_key(other)
    (one / "backends/nvidia/driver.py").write_text("B = 2")
    assert image_key(one) != image_key(triton(tmp_path / "c/triton"))


def test_ptxas_says_when_the_image_s_was_built(tmp_path: Path) -> None:
    own, image = triton(tmp_path / "own/triton"), triton(tmp_path / "image/triton", date=OTHER)
    assert image_answers(image, own)["ptxas"] == VERSION.format(date=OTHER)
    assert image_answers(own, own)["ptxas"] == VERSION.format(date=OWN)


def test_two_releases_are_refused(tmp_path: Path) -> None:
    own, image = triton(tmp_path / "own/triton"), triton(tmp_path / "image/triton")
    (image / "__init__.py").write_text("__version__ = '3.9.0'\n")
    with pytest.raises(KeyUnknownError, match="different releases of Triton"):
        image_answers(image, own)


def test_a_triton_without_the_function_is_refused(tmp_path: Path) -> None:
    folder = triton(tmp_path / "triton")
    (folder / "runtime/cache.py").write_text("")
    with pytest.raises(KeyUnknownError, match="has no triton_key"):
        image_key(folder)
