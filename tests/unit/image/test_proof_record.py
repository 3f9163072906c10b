"""The record of a proof: it names the layers that were scanned, and fits no image of others."""

from pathlib import Path

import pytest

from gb10.errors import VerifyError
from gb10.image.plan.render import scanned
from gb10.image.proof.scans import read_layers, require_layers, require_scanned
from gb10.inside.scan.linked import Linked
from gb10.inside.scan.scan import Scan
from tests.golden.small import plan_for
from tests.golden.test_render import options

LAYERS = ("sha256:one", "sha256:two")


def test_an_image_of_other_layers_than_were_scanned_is_refused() -> None:
    require_scanned(LAYERS, LAYERS)
    with pytest.raises(VerifyError, match="not those that were scanned") as caught:
        require_scanned((LAYERS[0], "sha256:other"), LAYERS)
    assert caught.value.code == 9
    assert "sha256:other" in str(caught.value)


def test_an_image_with_fewer_layers_than_scans_is_refused() -> None:
    plan = plan_for(options("12.1f"))
    names = scanned(plan)
    require_layers(plan, names)
    with pytest.raises(VerifyError, match=f"has {len(names) - 1} layers, and {len(names)} were scanned"):
        require_layers(plan, names[1:])


def test_an_image_is_one_scan_of_its_layers_with_its_libraries(tmp_path: Path) -> None:
    plan = plan_for(options("12.1f"))
    for name in scanned(plan):
        (tmp_path / f"{name}.json").write_text(Scan(root=name, sizes={"torch": 1}).to_json(), encoding="utf-8")
    linked = Linked(libraries=3)
    (tmp_path / "linked.json").write_text(linked.to_json(), encoding="utf-8")
    found = read_layers(tmp_path, plan)
    assert (found.scan.root, found.scan.sizes) == (plan.tags[0], {"torch": len(scanned(plan))})
    assert found.linked == linked
