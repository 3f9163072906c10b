"""What is published on an image of others, what is not, and which problems are the image's own."""

from dataclasses import replace

import pytest

from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import refuse
from gb10.image.proof.scans import Below, as_received, own_findings, planned_subject
from gb10.image.publish.base_terms import refuse_zstd, require_republishable
from gb10.image.recipe.allowances import Allowances
from gb10.inside.scan.hazards import Hazard
from gb10.inside.scan.scan import Scan
from tests.unit.made_up_base import PATCH, base, plan_on
from tests.unit.made_up_images import distribution


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("nvcr.io/nvidia/vllm", {}),
        ("mirror.nvcr.io/nvidia/vllm", {}),
        ("registry.example/mirrored/pytorch", {"com.nvidia.build.id": "1"}),
    ],
)
def test_what_is_built_on_a_container_of_ngc_is_not_published(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(PublishError, match="is not published again") as raised:
        require_republishable(base(name), labels)
    assert "publish the recipe instead" in (raised.value.hint or "")


def test_others_are() -> None:
    require_republishable(base("vllm/vllm-openai"), {"maintainer": "NVIDIA CORPORATION <cudatools@nvidia.com>"})
    require_republishable(base("notnvcr.io/vllm"), {})


def test_the_base_s_layers_are_not_compressed_again() -> None:
    with pytest.raises(UsageError, match="--compression"):
        refuse_zstd(base())


def subject(*distributions: str, hazards: tuple[Hazard, ...] = ()) -> Subject:
    plan = plan_on(base(), patches=(PATCH,))
    made = planned_subject(plan, (), Allowances())
    scan = Scan(root="ours", distributions=tuple(distribution(name) for name in distributions), hazards=hazards)
    return replace(made, scan=scan)


BELOW = Below(
    scan=Scan(root="base", distributions=(distribution("held", "1.0", "absent>=2"),)),
    user="2000:0",
    environment=("HF_TOKEN=of-its-author",),
    read=True,
)


def test_problems_of_the_base_are_received_and_block_nothing() -> None:
    received = {check.name for check, _ in as_received(BELOW, subject())}
    assert {"requirements", "secrets"} <= received
    assert own_findings(BELOW, subject()) == []


def test_what_is_added_may_require_what_the_base_holds() -> None:
    added = replace(subject(), scan=Scan(root="ours", distributions=(distribution("new", "1.0", "held>=1"),)))
    assert own_findings(BELOW, added) == []


def test_a_problem_of_ours_blocks() -> None:
    twice = subject("held", hazards=(Hazard(path="etc/shadow-copy", kind="writable", what=""),))
    found = {check.name for check, _ in own_findings(BELOW, twice)}
    assert "rights" in found
    with pytest.raises(VerifyError):
        refuse(own_findings(BELOW, twice))
