"""b12x's cache asks the image first, and the cache's folder when the image has no kernel that loads."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from gb10.inside.rehearse.gb10_b12x import look_first, register

KEY = "ab" + "0" * 62


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "image", tmp_path / "volume"
    for folder in found:
        (folder / KEY[:2]).mkdir(parents=True)
    return found


@pytest.fixture
def compiler(folders: tuple[Path, Path]) -> ModuleType:
    """A module of b12x's shape: its two questions find their file by its folder, and refuse an empty one."""
    module = ModuleType("compiler")
    module.__dict__["own"] = folders[1]
    code = (
        "def _cute_compile_cache_dir(): return own\n"
        "def _path(key): return _cute_compile_cache_dir() / key[:2] / f'{key}.o'\n"
        "def _valid_cute_compile_cache(key): return _path(key).is_file() and _path(key).stat().st_size > 0\n"
        "def _load_cute_compile_from_disk(key): return _path(key) if _valid_cute_compile_cache(key) else None\n"
    )
    exec(code, module.__dict__)  # noqa: S102 - the text above
    look_first(module, folders[0])
    return module


def keep(folder: Path, content: bytes) -> Path:
    path = folder / KEY[:2] / f"{KEY}.o"
    path.write_bytes(content)
    return path


def test_the_image_comes_first(compiler: ModuleType, folders: tuple[Path, Path]) -> None:
    keep(folders[1], b"volume")
    ours = keep(folders[0], b"image")
    assert compiler._load_cute_compile_from_disk(KEY) == ours
    assert compiler._valid_cute_compile_cache(KEY) is True


def test_what_the_image_lacks_or_does_not_load_comes_from_the_folder(
    compiler: ModuleType, folders: tuple[Path, Path]
) -> None:
    assert compiler._load_cute_compile_from_disk(KEY) is None
    theirs = keep(folders[1], b"volume")
    assert compiler._load_cute_compile_from_disk(KEY) == theirs
    keep(folders[0], b"")
    assert compiler._load_cute_compile_from_disk(KEY) == theirs
    assert compiler._valid_cute_compile_cache(KEY) is True


def test_nothing_is_written_where_the_image_s_kernels_lie(compiler: ModuleType, folders: tuple[Path, Path]) -> None:
    keep(folders[0], b"image")
    compiler._load_cute_compile_from_disk(KEY)
    assert compiler._cute_compile_cache_dir() == folders[1]


def test_a_question_that_fails_leaves_the_folder_as_it_was(
    compiler: ModuleType, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(folders[0], b"image")
    monkeypatch.setitem(compiler.__dict__, "_path", None)
    with pytest.raises(TypeError):
        compiler._load_cute_compile_from_disk(KEY)
    assert compiler._cute_compile_cache_dir() == folders[1]


def test_another_b12x_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("b12x", "b12x._lib", "b12x._lib.compiler"):
        module = ModuleType(name)
        module.__dict__["__spec__"] = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    register()
    assert "kernels of b12x are not used" in caplog.text
