"""What is published on an image of others, what is not, and which problems are the image's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import PublishError, UsageError, VerifyError
from gb10.image.build.proving import Received, received, say_received
from gb10.image.context import open_context
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import refuse
from gb10.image.proof.scans import (
    Below,
    as_received,
    below_of,
    layer_scan_path,
    linked_scan_path,
    own_findings,
    planned_subject,
)
from gb10.image.publish.base_terms import refuse_zstd, require_republishable
from gb10.image.recipe.allowances import Allowances
from gb10.image.recipe.base_image import Installed
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.hazards import Hazard
from gb10.inside.scan.linked import Linked
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


def test_a_torch_that_does_not_know_the_gpu_is_known_before_anything_is_built(tmp_path: Path) -> None:
    old = base(cuda="12.4", installed={"torch": Installed(name="torch", version="2.6.0+cu124", folder="/x")})
    ctx = open_context({"HOME": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    found = [(check.name, problem.found) for check, problem in as_received(below_of(ctx, old), subject())]
    assert ("torch", "torch 2.6.0+cu124 for CUDA 12.4") in found


def test_files_of_the_base_that_the_gpu_cannot_run_are_named_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a base that was scanned before; ``base()`` has three layers."""
    plan = plan_on(base(), patches=(PATCH,))
    ctx = open_context({"HOME": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=0)
    assert received(ctx, plan) == Received(reference=base().reference, read=False, findings=())
    codes = {"sm_120a": "norm", "sm_90a": "fmha", "sm_120f": "rope", "sm_121a": "page", "compute_90": "topk"}
    scan = Scan(
        root="base",
        binaries=tuple(
            Binary(path=f"opt/{name}.so", kind="elf", size=1, units=(Unit(codes={code: 1}, count=1),))
            for code, name in codes.items()
        ),
    )
    for layer, text in zip(base().layers, (scan, Scan(root=""), Scan(root="")), strict=True):
        ctx.store.write_text(layer_scan_path(ctx, layer.diff_id), text.to_json())
    ctx.store.write_text(linked_scan_path(ctx, [layer.diff_id for layer in base().layers]), Linked().to_json())
    found = received(ctx, plan)
    assert found
    assert (found.read, sorted(found.cannot_run)) == (True, ["opt/fmha.so", "opt/norm.so"])
    say_received(ctx.reporter, found)
    said = capsys.readouterr().err
    assert "2 files hold code for other GPUs only: opt/" in said
    assert f"./build.py verify {base().reference} --fit nothing lists them" in said


def test_problems_of_the_base_are_received_and_block_nothing() -> None:
    found = {check.name for check, _ in as_received(BELOW, subject())}
    assert {"requirements", "secrets"} <= found
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
