"""The arch model, held against what nvcc, torch and FlashInfer accept (docs/design.md, "Words")."""

import pytest

from gb10.errors import UsageError
from gb10.image.recipe.arch import ARCHES, Arch, closest_arch, parse_arch
from gb10.inside.compile import aot


@pytest.mark.parametrize(
    ("text", "sm", "gencode", "torch", "platform", "cuda"),
    [
        ("12.1a", "sm_121a", "-gencode=arch=compute_121a,code=sm_121a", "12.1a", "linux/arm64", "12.9"),
        ("12.1f", "sm_121f", "-gencode=arch=compute_121f,code=sm_121f", "12.1a", "linux/arm64", "12.9"),
        ("12.1", "sm_121", "-gencode=arch=compute_121,code=sm_121", "12.1", "linux/arm64", "12.9"),
        ("12.0a", "sm_120a", "-gencode=arch=compute_120a,code=sm_120a", "12.0a", "linux/amd64", "12.8"),
        ("12.0f", "sm_120f", "-gencode=arch=compute_120f,code=sm_120f", "12.0a", "linux/amd64", "12.9"),
        ("12.0", "sm_120", "-gencode=arch=compute_120,code=sm_120", "12.0", "linux/amd64", "12.8"),
    ],
)
def test_spellings(  # noqa: PLR0917 - a row of the table
    text: str, sm: str, gencode: str, torch: str, platform: str, cuda: str
) -> None:
    arch = parse_arch(text)
    assert (arch.sm, arch.gencode, arch.torch, arch.platform, arch.minimum_cuda) == (sm, gencode, torch, platform, cuda)
    assert str(arch) == arch.flashinfer == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sm_121a", "12.1a"),
        ("121f", "12.1f"),
        ("12.1F", "12.1f"),
        ("gb10", "12.1f"),
        ("sm121", "12.1f"),
        ("13.0", "12.1f"),
        ("120", "12.0f"),
        ("12.0g", "12.0f"),
    ],
)
def test_a_wrong_arch_is_answered_with_the_valid_ones_and_the_closest(written: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arch(written)
    assert all(str(arch) in caught.value.message for arch in ARCHES)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"closest is {meant}:") == (written not in {"gb10", "13.0"})
    assert caught.value.hint.endswith("a GB10 is 12.1f, the default")
    assert closest_arch(written) == parse_arch(meant)


def test_triton_takes_the_capability_as_one_number() -> None:
    assert Arch("12.1", "f").triton == ("cuda", 121, 32)


@pytest.mark.parametrize("arch", ARCHES, ids=str)
def test_what_flashinfer_makes_of_an_arch_is_what_the_compile_stage_declares(arch: Arch) -> None:
    assert arch.kernels == aot.PLAIN.get(str(arch), str(arch))
    assert (arch.kernels in arch.meaning) == (not arch.suffix)


def test_the_image_names_only_what_torch_accepts_at_run_time() -> None:
    """The list of torch 2.14.0's cpp_extension, which knows no ``f``: 12.1f there is a ValueError on the device."""
    assert {arch.torch for arch in ARCHES} <= {"12.0", "12.0a", "12.1", "12.1a"}
