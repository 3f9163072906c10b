"""The check ``local_version``: packages for another torch, another CUDA, or CPUs, by the label of their version."""

from dataclasses import replace

import pytest

from gb10.image.proof.check import Target
from gb10.image.proof.checks.local_version import CHECK
from gb10.inside.scan.installed import Distribution
from tests.unit.made_up_images import distribution, found, image

TORCH = replace(distribution("torch", "2.13.0+cu130"), cuda="13.0")


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("flash_attn", "2.8.3+cu12torch2.11cxx11abiTRUE", "for torch 2.11"),
        ("flash_attn", "2.8.3+cu12torch2.13cxx11abiTRUE", "for CUDA 12"),
        ("flash_attn", "2.8.3+cu13torch2.13cxx11abiTRUE", ""),
        ("torchvision", "0.28.0+cu130", ""),
        ("torchvision", "0.28.0+cu129", "for CUDA 12"),
        ("torch_scatter", "2.1.2+pt28cu128", "for CUDA 12"),
        ("vllm", "0.33.0+cpu", "for CPUs"),
        ("torchaudio", "2.13.0+cpu", "for CPUs"),
        ("torchao", "0.15.0+cpu", ""),
        ("flashinfer-jit-cache", "0.7.2.post1+gb10.01234567", ""),
        ("x", "1.0+gitcu129abc", ""),
        ("x", "1.0", ""),
    ],
)
def test_a_package_beside_torch(name: str, version: str, told: str) -> None:
    problems = [what for _, what in found(CHECK.judge(image(TORCH, distribution(name, version))))]
    assert problems == ([f"{name} {version}{',' if 'CPU' in told else ':'} {told}"] if told else [])


def test_without_torch_only_builds_for_cpus_are_wrong() -> None:
    others = distribution("flash_attn", "2.8.3+cu12torch2.11cxx11abiTRUE"), distribution("vllm", "0.33.0+cpu")
    assert len(CHECK.judge(image(*others))) == 1


def test_a_torch_for_cpus_is_the_business_of_another_check() -> None:
    torch = replace(distribution("torch", "2.13.0+cpu"), cuda="none")
    assert CHECK.judge(image(torch, distribution("torchvision", "0.28.0+cu130"))) == []


def of(site: str, name: str, version: str) -> Distribution:
    return replace(distribution(name, version), path=f"{site}/{name}-{version}.dist-info/METADATA")


def test_wheels_side_by_side_are_not_compared() -> None:
    files = of("a.whl", "torch", "2.13.0+cu130"), of("b.whl", "torchvision", "0.28.0+cu129")
    one = replace(image(*files), image=None, target=Target())
    assert CHECK.judge(one) == []
    assert CHECK.judge(replace(one, target=None)) == []
