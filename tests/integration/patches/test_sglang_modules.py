"""0007 of SGLang: a release's own look-up of compiled modules, over the image's folder and the cache's."""

import _ctypes
import ast
import ctypes
import hashlib
import json
import logging
import os
import pathlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.integration.patches.cut import both, find, run
from tests.integration.patches.releases import original

pytestmark = pytest.mark.integration

VERSIONS = ("0.5.21", "0.5.22", "0.5.23")
FOLDER = "sglang/kernels/jit/utils/compile"
MODULE = "sgl_kernel_jit_norm"
LIBRARY = _ctypes.__file__
"""A library that loads here."""
SCOPE = Path("sm121a") / MODULE / "build-1"
Lookup = Callable[..., Path | None]


class Entry(NamedTuple):
    """A file that the compiler read."""

    root: str
    relpath: str
    digest: str


def cache_of(version: str, root: Path) -> dict[str, Any]:
    """The look-up of the release's cache, whose folder is ``root``: its own functions, over absolute paths."""
    text = original("sglang", version, f"{FOLDER}/cache.py")
    wanted = ("_file_digest", "_hash_parts", "_deps_key", "_read_deps", "_refresh", "_resolve_path", "find_prebuilt")
    names = {
        "_DepEntry": Entry,
        "msgspec": SimpleNamespace(
            json=SimpleNamespace(decode=lambda raw, type: [Entry(*row) for row in json.loads(raw)]),
            DecodeError=ValueError,
        ),
        "List": list,
        "_digest_cache": {},
        "envs": SimpleNamespace(SGLANG_JIT_CACHE_DEBUG=SimpleNamespace(get=lambda: False)),
        "logger": logging.getLogger(__name__),
        "hashlib": hashlib,
        "os": os,
        "pathlib": pathlib,
        "cache_root": lambda: root,
        **constants(text),
    }
    return run([find(text, name) for name in wanted], names)


def constants(text: str) -> dict[str, object]:
    """The module's names for numbers and text."""
    given = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): node.value.value for node in given if isinstance(node.value, ast.Constant)}


def lookup(text: str, cache: dict[str, Any], forced: bool = False) -> Lookup:
    """The release's _find_prebuilt for a module, which is loaded as a plain library."""
    envs = SimpleNamespace(SGLANG_JIT_FORCE_RECOMPILE=SimpleNamespace(get=lambda: forced))
    names = {
        "envs": envs,
        "cache": SimpleNamespace(**cache),
        "os": os,
        "pathlib": pathlib,
        "logger": logging.getLogger(__name__),
        "_load": ctypes.CDLL,
    }
    found: Lookup = run([find(text, "_find_prebuilt")], names)["_find_prebuilt"]
    spec = SimpleNamespace(module_name=MODULE)
    return lambda: found(spec=spec, scope=cache["cache_root"]() / SCOPE)


def build(root: Path, cache: dict[str, Any], header: Path) -> Path:
    """A module in a folder of the cache, which was compiled with this header as it is now."""
    entries = [Entry("abs", str(header), hashlib.sha256(header.read_bytes()).hexdigest())]
    leaf = root / SCOPE / f"deps-{cache['_deps_key'](entries)}"
    leaf.mkdir(parents=True)
    (leaf / "sgl_deps.json").write_text(json.dumps(entries))
    (leaf / f"{MODULE}.so").symlink_to(LIBRARY)
    return leaf / f"{MODULE}.so"


@pytest.fixture(name="version", params=VERSIONS)
def of_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A release, beside an image's folder of modules and a header that they include."""
    monkeypatch.setenv("SGLANG_JIT_PREPARED_DIR", str(tmp_path / "image"))
    (tmp_path / "norm.cuh").write_text("// one")
    return str(request.param)


def loaders(version: str) -> tuple[str, str]:
    """The release's loader before and after the patch."""
    return both("sglang", version, "0007-prepared-modules", f"{FOLDER}/loader.py")


def test_the_image_s_module_is_found_after_the_patch_alone(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = loaders(version)
    cache = cache_of(version, tmp_path / "cache")
    prepared = build(tmp_path / "image", cache, tmp_path / "norm.cuh")
    assert lookup(before, cache)() is None
    assert lookup(after, cache)() == prepared
    assert lookup(after, cache, forced=True)() is None
    monkeypatch.delenv("SGLANG_JIT_PREPARED_DIR")
    assert lookup(after, cache)() is None


def test_a_changed_header_leads_back_to_the_cache(version: str, tmp_path: Path) -> None:
    cache, header = cache_of(version, tmp_path / "cache"), tmp_path / "norm.cuh"
    build(tmp_path / "image", cache, header)
    header.write_text("// two")
    assert lookup(loaders(version)[1], cache_of(version, tmp_path / "cache"))() is None
    own = build(tmp_path / "cache", cache, header)
    assert lookup(loaders(version)[1], cache_of(version, tmp_path / "cache"))() == own


def test_a_module_that_does_not_load_stays_and_the_cache_s_is_taken(version: str, tmp_path: Path) -> None:
    cache = cache_of(version, tmp_path / "cache")
    look = lookup(loaders(version)[1], cache)
    broken = build(tmp_path / "image", cache, tmp_path / "norm.cuh")
    broken.unlink()
    broken.write_bytes(b"cut off")
    assert look() is None
    own = build(tmp_path / "cache", cache, tmp_path / "norm.cuh")
    assert look() == own
    assert broken.exists()
