"""The check ``edits``: what was changed on purpose is in the image, and the wheels are those of the plan."""

from gb10.image.proof.checks.edits import CHECK
from gb10.inside.scan.scan import Scan
from tests.unit.made_up_images import KEY, SITE, distribution, found, image, plan_of

FILE = f"{SITE}/vllm/model.py"
ONE, TWO = "1" * 64, "2" * 64
STEPS = [
    {"name": "graft-vllm", "kind": "graft", "key": KEY, "about": "0001-fix"},
    {"name": "flashinfer-jit-cache", "kind": "wheel", "key": KEY},
    {"name": "layer-flashinfer-jit-cache", "kind": "layer", "key": KEY},
    {"name": "small", "kind": "wheel", "key": KEY},
]
LABEL = f"gb10.{KEY[:8]}"


def test_a_patched_file_that_something_changed_afterwards() -> None:
    recorded = {FILE: (ONE, "graft-vllm")}
    assert CHECK.judge(image(scan=Scan(root="i", contents={FILE: ONE}), recorded=recorded)) == []
    plan = plan_of(steps=[{**STEPS[0], "kind": "mod"}])
    [problem] = CHECK.judge(image(scan=Scan(root="i", contents={FILE: TWO}), recorded=recorded, plan=plan))
    assert problem.expected == "sha256 111111111111…, as graft-vllm made it (0001-fix)"
    assert problem.found == "sha256 222222222222…"
    [problem] = CHECK.judge(image(scan=Scan(root="i"), recorded=recorded))
    assert problem.found == "no such file"


def test_the_versions_name_the_steps_that_made_them() -> None:
    plan = plan_of(steps=STEPS)
    good = (distribution("vllm", f"0.33.0+{LABEL}"), distribution("flashinfer-jit-cache", f"0.7.2+cu130.{LABEL}"))
    assert CHECK.judge(image(*good, plan=plan)) == []
    upstream = image(distribution("vllm", "0.33.0"), plan=plan)
    assert found(CHECK.judge(upstream)) == [
        ("vllm", "0.33.0"),
        ("flashinfer-jit-cache", "no flashinfer-jit-cache"),
    ]


def test_a_foreign_image_has_nothing_to_compare() -> None:
    assert CHECK.judge(image(distribution("vllm", "0.33.0"))) == []
