"""Scans that are kept: of each layer by its diffID, of an image that was proven, and those that an image holds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.image.plan.options import Mod
from gb10.image.plan.plan_record import as_recorded
from gb10.image.plan.render import scanned
from gb10.image.plan.values import Plan
from gb10.image.proof.check import Facts, Subject
from gb10.image.proof.scans import (
    PLAN,
    SCANS,
    Record,
    below_of,
    forget_record,
    image_scan_path,
    known_image,
    known_layers,
    layer_scan_path,
    linked_scan_path,
    own_changes,
    own_plan,
    own_scan,
    own_scans,
    planned_subject,
    proof_path,
    prove_layers,
    proven,
    read_record,
    remember_layers,
    require_layers,
    write_record_in,
)
from gb10.image.recipe.allowances import Allowances
from gb10.inside.scan.hazards import Hazard
from gb10.inside.scan.installed import Distribution
from gb10.inside.scan.linked import Linked
from gb10.inside.scan.scan import Scan
from tests.golden.small import plan_for
from tests.golden.test_render import options
from tests.recipes import SHIPPED
from tests.unit.made_up_base import MOD, PATCH, base, plan_on

SMALL = plan_for(options("12.1f"))
MODS = tuple(Mod(name=name, path=f"/{name}", digest="2" * 64) for name in ("one", "two"))


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(env={}, store=Store(tmp_path), reporter=Reporter({}, verbosity=-1), catalog=SHIPPED)


def scans(ctx: Context, plan: Plan, **changed: Scan) -> tuple[str, ...]:
    """Write a proof's scans, each with its step as a package; the diffIDs of the image's layers, lowest first."""
    folder = proof_path(ctx.store, plan)
    folder.mkdir(parents=True)
    for name in scanned(plan):
        scan = changed.get(name.replace("-", "_"), Scan(root=name, sizes={name: 1}))
        (folder / f"{name}.json").write_text(scan.to_json(), encoding="utf-8")
    (folder / "linked.json").write_text(Linked(libraries=3).to_json(), encoding="utf-8")
    below = [layer.diff_id for layer in plan.base.layers] if plan.base else []
    return (*below, *(f"sha256:{name}" for name in (*scanned(plan), "record")))


def test_each_layer_is_known_by_its_diff_id(ctx: Context) -> None:
    layers = scans(ctx, SMALL)
    assert known_layers(ctx, "mine:1", layers) is None
    remember_layers(ctx, SMALL, layers)
    found = known_layers(ctx, "mine:1", layers)
    assert found is not None
    assert found.scan == Scan(root="mine:1", sizes=dict.fromkeys(scanned(SMALL), 1))
    assert found.linked == Linked(libraries=3)
    assert known_layers(ctx, "mine:1", layers[1:]) is None  # whose libraries together nobody knows
    for index, name in enumerate((*scanned(SMALL), "no binary")):
        assert f'"root": "{name}"' in layer_scan_path(ctx, layers[index]).read_text(encoding="utf-8")


def test_on_an_image_of_others_its_own_layers_alone_are_kept(ctx: Context) -> None:
    plan = plan_on(base(), patches=(PATCH,), mods=(MOD,))
    layers = scans(ctx, plan)
    remember_layers(ctx, plan, layers)
    kept = [layer_scan_path(ctx, diff_id).is_file() for diff_id in layers]
    assert kept == [False] * 3 + [True] * (len(scanned(plan)) + 1)
    assert not linked_scan_path(ctx, layers).exists()
    require_layers(plan, layers)
    with pytest.raises(VerifyError, match="not those that were scanned"):
        require_layers(plan, layers[1:])
    with pytest.raises(VerifyError, match="the image has 1 layers, and 2 were scanned"):
        require_layers(plan, layers[:4])


def test_scans_of_several_mods_are_right_only_together(ctx: Context) -> None:
    plan = plan_on(base(), mods=MODS)
    layers = scans(ctx, plan)
    remember_layers(ctx, plan, layers)
    assert [layer_scan_path(ctx, diff_id).is_file() for diff_id in layers] == [False] * 5 + [True]
    assert scanned(plan) == ["mod-1", "mod-2"]


def test_a_proven_image_is_found_by_its_id_and_forgotten(ctx: Context) -> None:
    scans(ctx, SMALL)
    other = ctx.store.root / "proofs" / "0" / "image.json"
    other.parent.mkdir(parents=True, exist_ok=True)
    record = Record(id="sha256:i", config="sha256:c", layers=("sha256:a", "sha256:b"))
    assert (read_record(ctx.store, SMALL), proven(ctx.store, "sha256:i")) == (None, None)
    for text in ("", "[]", "{}", '{"id": 1, "config": 2, "layers": 3}'):
        other.write_text(text, encoding="utf-8")
        assert proven(ctx.store, "sha256:i") is None
    write_record_in(proof_path(ctx.store, SMALL), record)
    assert read_record(ctx.store, SMALL) == proven(ctx.store, "sha256:i") == record
    assert proven(ctx.store, "sha256:other") is None
    forget_record(ctx.store, SMALL)
    forget_record(ctx.store, SMALL)
    assert read_record(ctx.store, SMALL) is None


def test_what_is_below_is_its_scan_or_what_is_installed(ctx: Context) -> None:
    image = base(environment={"A": "b"})
    image = replace(image, installed={name: image.installed[name] for name in ("torch", "vllm")})
    below = below_of(ctx, image)
    torch, vllm = below.scan.distributions
    site = image.site_packages[0].lstrip("/")
    assert (below.read, below.user, below.environment, below.scan.root) == (False, "2000:0", ("A=b",), image.reference)
    assert torch == Distribution(
        path=f"{site}/torch.dist-info/METADATA", name="torch", version="2.10.0+cu130", cuda="13.0"
    )
    assert (vllm.cuda, vllm.path) == ("", f"{site}/vllm.dist-info/METADATA")
    diff_ids = [layer.diff_id for layer in image.layers]
    folder = image_scan_path(ctx, diff_ids)
    folder.mkdir(parents=True)
    (folder / "scan.json").write_text(Scan(root="x", sizes={"all": 2}).to_json(), encoding="utf-8")
    assert known_image(ctx, "y", diff_ids) is None  # its libraries were not kept: a crash
    (folder / "linked.json").write_text(Linked(libraries=1).to_json(), encoding="utf-8")
    found = known_image(ctx, "y", diff_ids)
    assert found and (found.scan, found.linked) == (Scan(root="y", sizes={"all": 2}), Linked(libraries=1))
    below = below_of(ctx, image)
    assert (below.read, below.scan) == (True, Scan(root=image.reference, sizes={"all": 2}))


def test_what_a_mod_changed_again_is_no_more_what_was_recorded(ctx: Context) -> None:
    """An overlay's file differs from what was recorded, unless a mod touched it."""
    plan = plan_on(base(), mods=(MOD,))
    recorded = {"etc/a": ("1" * 64, "overlay"), "etc/b": ("1" * 64, "overlay"), "etc/c": ("1" * 64, "overlay")}
    facts = Facts(platform="linux/arm64", recorded=recorded)
    mod = Scan(root="mod-1", contents={"etc/a": "2" * 64}, gone=("etc/b",))
    scans(ctx, plan, mod_1=mod)
    subject = Subject(scan=Scan(root=""), arch=plan.options.arch, image=facts)
    folder = proof_path(ctx.store, plan)
    verdict = prove_layers(
        folder, plan, replace(subject, image=replace(facts, recorded=dict(list(recorded.items())[:2])))
    )
    assert (verdict.root, verdict.judged) == (plan.tags[0], ())
    with pytest.raises(VerifyError) as caught:
        prove_layers(folder, plan, subject)
    assert "etc/c" in str(caught.value)
    assert "etc/a" not in str(caught.value)


def test_problems_that_an_image_of_others_has_alone_do_not_count(ctx: Context) -> None:
    plan = plan_on(base(), mods=(MOD,))
    root = Hazard(path="usr/bin/own", kind="setuid")
    scans(ctx, plan, mod_1=Scan(root="mod-1", hazards=(root,)))
    below = replace(below_of(ctx, base()), scan=Scan(root="base", hazards=(root,)), read=True)
    subject = planned_subject(plan, (), Allowances())
    folder = proof_path(ctx.store, plan)
    assert prove_layers(folder, plan, subject, below).root == plan.tags[0]
    with pytest.raises(VerifyError, match="usr/bin/own"):
        prove_layers(folder, plan, subject, replace(below, scan=Scan(root="base")))


def test_the_subject_of_a_plan_has_its_facts() -> None:
    plan = plan_on(base(environment={"A": "b", "C": "d"}), env={"C": "e"})
    image = planned_subject(plan, (), Allowances()).image
    assert image is not None
    assert (image.platform, image.user, image.cuda) == ("linux/arm64", "2000:0", "13.0")
    assert image.environment == ("A=b", "C=e")
    assert image.plan == as_recorded(plan)
    own = planned_subject(SMALL, (), Allowances()).image
    assert own is not None
    assert own.user == "10001"
    assert {"PATH=/usr/bin", "HOME=/var/cache/small"} < set(own.environment)


def held(**scans: Scan) -> Mapping[str, bytes]:
    """The files of an image that holds these scans."""
    return {f"{SCANS}/{name.replace('_', '-')}.json": scan.to_json().encode() for name, scan in scans.items()}


def test_the_scans_of_an_image_are_ordered_by_their_layers() -> None:
    names = (
        "mod_10",
        "mod_2",
        "mod_x",
        "mod_00001",
        "mod",
        "cache",
        "overlay",
        "graft_b",
        "graft_a",
        "layer_z",
        "zebra",
        "base_image",
    )
    files = {**held(**{name: Scan(root=name) for name in names}), f"{SCANS}/cut.json": b"{", f"{SCANS}/b.json": b"\xff"}
    assert list(own_scans(files)) == [
        *("zebra", "base-image", "layer-z", "graft-a", "graft-b", "overlay", "cache"),
        *("mod", "mod-00001", "mod-x", "mod-2", "mod-10"),
    ]


def test_the_last_step_that_changed_a_file_is_named_and_a_file_that_went_is_no_change() -> None:
    files = held(
        graft_vllm=Scan(root="", contents={"a": "1" * 64, "b": "1" * 64, "c": "1" * 64}),
        mod_1=Scan(root="", contents={"b": "2" * 64}, gone=("c",), sizes={"mod": 1}),
    )
    assert own_changes(files) == {"a": ("1" * 64, "graft-vllm"), "b": ("2" * 64, "mod-1")}
    whole = own_scan("mine:1", files)
    assert (whole.root, whole.contents, whole.sizes) == ("mine:1", {"a": "1" * 64, "b": "2" * 64}, {"mod": 1})


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"[" * 100_000, b"\xff"])
def test_what_is_no_plan_of_ours_is_none(text: bytes) -> None:
    assert own_plan({PLAN: text}) is None
    assert own_plan({}) is None
