"""The kernel set `core`: which modules an arch gets, and what each must hold."""

import tomllib
from pathlib import Path

import pytest

from gb10.inside import aot

KERNELS = tomllib.loads((Path(__file__).parents[2] / "recipes/kernels/flashinfer-core.toml").read_text())


@pytest.mark.parametrize(
    ("arch", "cubins"),
    [
        ("12.1f", {"norm": "12.1f", "fp4_quantization_121": "12.1a", "fp4_quantization_120f": "12.0f"}),
        ("12.1a", {"norm": "12.1a", "fp4_quantization_121": "12.1a", "fp4_quantization_120f": "12.0f"}),
        ("12.1", {"norm": "12.1a", "fp4_quantization_121": "12.1a", "fp4_quantization_120f": "12.0f"}),
        ("12.0f", {"norm": "12.0f", "fp4_quantization_121": None, "fp4_quantization_120f": "12.0f"}),
        ("12.0", {"norm": "12.0f", "fp4_quantization_121": None, "fp4_quantization_120f": "12.0f"}),
    ],
)
def test_select_declares_the_code_each_module_holds(arch: str, cubins: dict[str, str | None]) -> None:
    selected = {module.name: module.cubins for module in aot.select(KERNELS, arch)}
    assert {name: selected.get(name) for name in cubins} == {k: (v,) if v else None for k, v in cubins.items()}


def test_names_are_unique() -> None:
    names = [entry["name"] for entry in KERNELS["module"]]
    assert len(names) == len(set(names))


def test_a_set_for_another_release_is_refused() -> None:
    for release in KERNELS["flashinfer"]:
        aot.check_version(KERNELS, release)
    with pytest.raises(SystemExit, match=r"the kernel set core is for FlashInfer .*, the source is 9\.9"):
        aot.check_version(KERNELS, "9.9")
