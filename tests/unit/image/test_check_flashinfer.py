"""The check ``flashinfer``: package and kernels are of one release."""

from dataclasses import replace

import pytest

from gb10.image.proof.check import Target
from gb10.image.proof.checks.flashinfer import CHECK
from tests.unit.made_up_images import distribution, found, image

PACKAGE = distribution("flashinfer-python", "0.7.2.post1")


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        (distribution("flashinfer-jit-cache", "0.7.2.post1+gb10.01234567"), []),
        (distribution("flashinfer-cubin", "0.7.2.post1"), []),
        (distribution("flashinfer-jit-cache", "0.7.2+cu130"), ["flashinfer-python 0.7.2.post1"]),
        (distribution("flashinfer-cubin", "0.6.13"), ["flashinfer-python 0.7.2.post1"]),
        (distribution("flashinfer-cubin", "unknown"), ["flashinfer-python 0.7.2.post1"]),
    ],
)
def test_kernels(kernels, told: list[str]) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    assert [what for _, what in found(CHECK.judge(image(PACKAGE, kernels)))] == told


def test_one_of_them_alone_is_the_business_of_who_requires_the_other() -> None:
    assert CHECK.judge(image(distribution("flashinfer-jit-cache", "0.7.2"))) == []
    assert CHECK.judge(image(PACKAGE)) == []


def test_a_folder_is_compared_and_wheels_side_by_side_are_not() -> None:
    kernels = distribution("flashinfer-cubin", "0.6.13")
    folder = replace(image(PACKAGE, kernels), image=None, target=Target())
    assert len(CHECK.judge(folder)) == 1
    wheels = [replace(one, path=f"{one.name}.whl/{one.path}") for one in (PACKAGE, kernels)]
    assert CHECK.judge(replace(image(*wheels), image=None, target=Target())) == []
    assert CHECK.judge(replace(folder, target=None)) == []
