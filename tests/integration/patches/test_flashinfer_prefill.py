"""flashinfer/0010 on real releases: batch prefill calls the tiles that its units compile, by a C++ compiler."""

import re
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest

from tests.integration.patches.releases import original, patched

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")]

PATCH = "0010-prefill-tiles-that-are-compiled"
VERSIONS = ("0.7.0", "0.7.2.post1")
CONFIG, CALLS = "csrc/batch_prefill_customize_config.jinja", ("csrc/batch_prefill.cu", "csrc/batch_prefill_paged.cuh")
INSTANCES = ("csrc/batch_prefill_paged_kernel_inst.jinja", "csrc/batch_prefill_ragged_kernel_inst.jinja")
SIZES = ((64, 64), (128, 128), (192, 128), (256, 256), (512, 256), (512, 512), (576, 512))
TILES = (16, 32, 64, 128)


def compiled(version: str, name: str, head: tuple[int, int]) -> set[int]:
    """The tiles that a unit of the release compiles for a head size."""
    template = jinja2.Environment(autoescape=False).from_string(original("flashinfer", version, name))
    text = template.render(head_dim_qk=head[0], head_dim_vo=head[1], same_kv_strides_values=["true"])
    return {int(tile) for tile in re.findall(r"/\*CTA_TILE_Q=\*/(\d+)", text)}


def named(version: str, head: tuple[int, int], folder: Path) -> set[int]:
    """The tiles that are called after the patch: what its own constant says, compiled."""
    config = patched("flashinfer", version, PATCH, CONFIG)
    (constant,) = re.findall(r"^template <uint32_t CTA_TILE_Q>\nconstexpr bool TILE_IS_COMPILED[^;]*;", config, re.M)
    print_each = "".join(f'if (TILE_IS_COMPILED<{tile}>) std::puts("{tile}");' for tile in TILES)
    sizes = f"constexpr int HEAD_DIM_QK = {head[0]};\nconstexpr int HEAD_DIM_VO = {head[1]};\n"
    text = f"#include <cstdint>\n#include <cstdio>\n{sizes}{constant}\nint main() {{ {print_each} }}\n"
    source, program = folder / "tiles.cpp", folder / "tiles"
    source.write_text(text, encoding="utf-8")
    subprocess.run(["g++", "-std=c++17", "-o", str(program), str(source)], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {int(line) for line in output.split()}


@pytest.mark.parametrize("head", SIZES)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_tiles_that_are_called_are_those_that_are_compiled(
    version: str, head: tuple[int, int], tmp_path: Path
) -> None:
    found = {frozenset(compiled(version, name, head)) for name in INSTANCES}
    assert found == {frozenset(named(version, head, tmp_path))}
    assert set(TILES) - found.pop()  # before, all four were called


@pytest.mark.parametrize("version", VERSIONS)
def test_no_call_is_left_without_the_question(version: str) -> None:
    for name in CALLS:
        before, after = original("flashinfer", version, name), patched("flashinfer", version, PATCH, name)
        calls = len(re.findall(r"status = flashinfer::BatchPrefillWith\w+Dispatched<", before))
        assert len(re.findall(r"TILE_IS_COMPILED<CTA_TILE_Q>\) \{\s*status = flashinfer::BatchPrefill", after)) == calls
        assert after.count("status = cudaErrorInvalidConfiguration;") == calls
