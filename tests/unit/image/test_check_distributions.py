"""The check ``distributions``: one release of each in a folder."""

from gb10.image.proof.checks.distributions import CHECK
from tests.unit.made_up_images import distribution, image


def test_two_sets_of_cubins() -> None:
    old, new = distribution("flashinfer-cubin", "0.6.6"), distribution("flashinfer_cubin", "0.6.13")
    [problem] = CHECK.judge(image(old, new))
    assert (problem.file, problem.expected) == (old.path, "one release of flashinfer-cubin")
    told = "0.6.6 (flashinfer_cubin-0.6.6.dist-info), 0.6.13 (flashinfer_cubin-0.6.13.dist-info)"
    assert problem.found == told


def test_two_environments_may_have_a_release_each() -> None:
    venv = distribution("torch", "2.9", site="opt/venv/lib/python3.12/site-packages")
    assert CHECK.judge(image(distribution("torch", "2.10"), venv)) == []
