"""The package of our own kernels, as it lies in a wheel: its libraries are loaded, and it refuses other GPUs."""

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from gb10.inside.compile import extension

DRIVES = ("gb10.inside.compile.gb10_kernels",)  # as a copy: see tests/mutations.py
SOURCE = Path(extension.__file__).with_name("gb10_kernels.py")


def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str) -> tuple[ModuleType, list[str]]:
    """The package for an arch, imported beside a torch that notes which libraries it loads."""
    folder, loaded = tmp_path / "gb10_kernels", list[str]()
    (folder / "modules/gb10_moe").mkdir(parents=True)
    (folder / "modules/gb10_moe/gb10_moe.so").touch()
    shutil.copy(SOURCE, folder / "__init__.py")
    (folder / "manifest.json").write_text(json.dumps({"arch": arch}), encoding="utf-8")
    (tmp_path / "gb10_kernels-0.1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: gb10-kernels\nVersion: 0.1.0\n"
    (tmp_path / "gb10_kernels-0.1.0.dist-info/METADATA").write_text(metadata, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(ops=SimpleNamespace(load_library=loaded.append)))
    monkeypatch.delitem(sys.modules, "gb10_kernels", raising=False)
    module = import_module("gb10_kernels")
    monkeypatch.delitem(sys.modules, "gb10_kernels")
    return module, loaded


@pytest.mark.parametrize(
    ("arch", "runs", "refused"),
    [
        ("12.1f", [(12, 1), (12, 2)], [(12, 0), (10, 1), (13, 1)]),
        ("12.1a", [(12, 1)], [(12, 0), (12, 2), (10, 1)]),
        ("12.0f", [(12, 0), (12, 1)], [(9, 0)]),
    ],
)
def test_libraries_are_loaded_and_other_devices_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    runs: list[tuple[int, int]],
    refused: list[tuple[int, int]],
) -> None:
    module, loaded = package(tmp_path, monkeypatch, arch)
    assert (module.__version__, [Path(one).name for one in loaded]) == ("0.1.0", ["gb10_moe.so"])
    for device in runs:
        module.check_device(*device)
    for device in refused:
        with pytest.raises(RuntimeError, match=f"are for {arch}, which a {device[0]}.{device[1]} device cannot run"):
            module.check_device(*device)
