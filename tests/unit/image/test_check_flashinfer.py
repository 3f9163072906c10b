"""The check ``flashinfer``: package and kernels are of one release."""

import pytest

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
