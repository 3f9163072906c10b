"""The check ``requirements``: what `pip check` says. tests/integration/test_pip_check.py compares it with pip's own."""

import pytest

from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.proof.check import Subject, Target
from gb10.image.proof.checks.requirements import CHECK, environments
from tests.unit.made_up_images import distribution, found, image, plan_of

VENV = "opt/venv/lib/python3.12/site-packages"
DEBIANS = "usr/lib/python3/dist-packages"


def judged(subject: Subject) -> list[str]:
    """The findings."""
    return [told for _, told in found(CHECK.judge(subject))]


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("numpy", []),
        ("NumPy>=2,<3", []),
        ("numpy==2.4.*", []),
        ("numpy<2", ["numpy 2.4.1"]),
        ("numpy>2.4.1", ["numpy 2.4.1"]),
        ("torch", ["no torch"]),
        ("numpy<2; python_version < '3.13'", []),
        ("numpy<2; platform_machine == 'aarch64'", ["numpy 2.4.1"]),
        ("numpy<2; platform_machine == 'x86_64'", []),
        ("numpy<2; sys_platform == 'win32'", []),
        ("numpy<2; nonsense == 'x'", []),
        ("this is no requirement", []),
        ("numpy" + "(" * 99, []),
    ],
)
def test_a_requirement(requirement: str, told: list[str]) -> None:
    assert judged(image(distribution("numpy", "2.4.1"), distribution("x", "1", requirement))) == told


def test_the_file_and_who_requires_it() -> None:
    [problem] = CHECK.judge(image(distribution("vllm", "0.33.0", "flashinfer-python==0.7.2")))
    assert problem.file.endswith("vllm-0.33.0.dist-info/METADATA")
    assert (problem.expected, problem.found) == (
        "flashinfer-python==0.7.2, which vllm 0.33.0 requires",
        "no flashinfer-python",
    )


def test_what_a_recipe_overrides_is_its_own_business() -> None:
    lacking = distribution("vllm", "0.33.0", "certifi>=2026.10", "torch")
    plan = plan_of(overrides=[{"requirement": "certifi>=2026.1", "why": "mirrors lag behind"}])
    assert judged(image(lacking, distribution("certifi", "2026.2"), plan=plan)) == ["no torch"]


def test_a_local_label_and_a_version_before_a_release_count() -> None:
    wanting = distribution("x", "1", "torch==2.14.0", "triton>=3.8.0rc1")
    assert judged(image(wanting, distribution("torch", "2.14.0+cu130"), distribution("triton", "3.8.0rc2"))) == []


def test_a_version_that_is_none_meets_nothing() -> None:
    assert judged(image(distribution("x", "1", "y>=1"), distribution("y", "unknown"))) == ["y unknown"]


def test_each_environment_is_judged_alone_and_debians_packages_count_last() -> None:
    ours = distribution("x", "1", "y>=2")
    old, new = distribution("y", "1", site=DEBIANS), distribution("y", "2")
    assert judged(image(ours, old)) == ["y 1"]
    assert judged(image(ours, old, new)) == []
    assert judged(image(ours, distribution("y", "2", site=VENV))) == ["no y"]
    seen = {minor: sorted(names) for minor, names in environments([ours, old, distribution("z", site=VENV)])}
    assert seen == {13: ["x", "y"], 12: ["z"]}


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("py3-none-any", []),
        ("cp313-cp313-manylinux_2_28_aarch64", []),
        ("cp39-abi3-manylinux2014_aarch64", []),
        ("cp313-cp313-linux_aarch64", []),
        ("cp312-cp312-manylinux_2_28_aarch64", ["cp312-cp312-manylinux_2_28_aarch64"]),
        ("cp313-cp313-manylinux_2_28_x86_64", ["cp313-cp313-manylinux_2_28_x86_64"]),
        ("nonsense", []),
    ],
)
def test_a_wheel_for_another_platform(tag: str, told: list[str]) -> None:
    assert judged(image(distribution("x", tags=(tag,)))) == told


def test_a_folder_is_for_the_machine_that_most_of_its_wheels_are_for() -> None:
    tags = ("manylinux_2_28_x86_64", "manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
    made = image(*(distribution(f"x{number}", tags=(f"cp313-cp313-{tag}",)) for number, tag in enumerate(tags)))
    folder = Subject(scan=made.scan, target=Target(python=13))
    assert judged(folder) == ["cp313-cp313-manylinux_2_28_aarch64"]


def test_a_wheel_that_names_its_platform_wrongly_is_allowed_by_name() -> None:
    wrong = distribution("nvidia-cusparselt-cu13", tags=("py3-none-manylinux2014_sbsa",))
    subject = image(wrong)
    assert len(CHECK.judge(subject)) == 1
    allowed = Catalog(ROOT).allowances
    assert CHECK.judge(Subject(scan=subject.scan, image=subject.image, allowed=allowed)) == []
