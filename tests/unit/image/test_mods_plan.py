"""Mods in a plan: steps, keys, labels, tags; their network, their failures, the emulation they need."""

import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gb10.cli.receipt import receipt_path
from gb10.containers import emulation
from gb10.containers.connection import Endpoint, Engine
from gb10.containers.emulation import MASK, PROGRAMS, line, register, serves
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import BuildError, EngineError, UsageError
from gb10.image.build.estimate import MOD_SECONDS, step_seconds
from gb10.image.build.mod_layers import index_variables, mod_network, naming_mods
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options, Overlay
from gb10.image.plan.plan_record import labels, record
from gb10.image.plan.render import bake, scanned
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.proof.scans import merge_layers
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.planning import Request, make_plan
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.scan import Scan
from tests.recipes import SHIPPED, moved

RECIPE = ROOT / "recipes/images/vllm.yaml"
ONE = Mod(name="one", path="/m/one", digest="1" * 64)
TWO = Mod(name="two", path="/m/two", digest="2" * 64)


@cache
def inputs() -> tuple[Recipe, Lock, Toolkit]:
    return load_recipe(RECIPE), load_lock(lock_path(RECIPE)), SHIPPED.toolkit


@cache
def plan(*mods: Mod, overlay: Overlay | None = None) -> Plan:
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", overlay=overlay, mods=mods)
    return plan_image(*inputs(), options)


def test_each_mod_is_a_step_above_all_layers_in_the_order_given() -> None:
    made = plan(ONE, TWO)
    assert [step.about for step in made.of_kind("mod")] == ["one@111111111111", "two@222222222222"]
    assert made.step("mod-2").needs == ("mod-1",)
    assert set(made.step("mod-1").needs) == {"base-image", *(step.name for step in made.of_kind("layer"))}
    assert scanned(made)[-2:] == ["mod-1", "mod-2"]


def test_a_mod_moves_no_step_below_it() -> None:
    assert moved(plan(), plan(ONE)) == {"mod-1", "image", "proof"}
    changed = replace(TWO, digest="3" * 64)
    assert moved(plan(ONE, TWO), plan(ONE, changed)) == {"mod-2", "image", "proof"}
    assert moved(plan(ONE, TWO), plan(replace(ONE, digest="3" * 64), TWO)) == {"mod-1", "mod-2", "image", "proof"}
    assert moved(plan(ONE), plan(replace(ONE, network=True))) == {"mod-1", "image", "proof"}


def test_the_place_of_a_mod_is_in_no_key() -> None:
    assert plan(ONE).key == plan(replace(ONE, path="/elsewhere")).key


def test_the_order_of_mods_and_what_lies_below_move_them() -> None:
    assert plan(ONE, TWO).key != plan(TWO, ONE).key
    over = Overlay(path="/o", digest="0" * 64)
    assert moved(plan(ONE), plan(ONE, overlay=over)) == {"mod-1", "image", "proof"}


def test_mods_are_recorded_in_labels_and_in_the_plan() -> None:
    made = plan(ONE, replace(TWO, network=True))
    assert labels(made)["io.github.gb10.mod.1"] == "one@111111111111"
    assert labels(made)["io.github.gb10.mod.2"] == "two@222222222222"
    assert record(made)["mods"] == [
        {"name": "one", "sha256": "1" * 64, "network": False},
        {"name": "two", "sha256": "2" * 64, "network": True},
    ]


def test_a_plan_with_mods_moves_no_tag() -> None:
    made = plan(ONE)
    assert made.tags == (f"gb10/vllm:0.33.0-cu130-sm121f-{made.key[:12]}",)


def test_a_command_with_mods_has_no_receipt() -> None:
    for option in ("--mod", "--mod=x", "--mod-network"):
        assert receipt_path(ROOT, ["image", option, "x"], {}, []) is None


def engine(kind: str) -> Engine:
    return Engine(
        kind="embedded" if kind == "embedded" else "user",
        endpoint=Endpoint(host="unix:///x", origin=kind),
        version="26",
        api="1.44",
        containerd=False,
    )


def test_only_a_declared_network_is_given() -> None:
    with_one = plan(replace(ONE, network=True), TWO)
    assert [mod_network(plan(ONE), engine(kind)) for kind in ("embedded", "user")] == ["none", "none"]
    assert [mod_network(with_one, engine(kind)) for kind in ("embedded", "user")] == ["host", "default"]
    target = bake(with_one)["target"]
    assert isinstance(target, dict)
    assert target["image"]["network"] == "default"


@cache
def checkout(root: Path) -> Context:
    """A checkout with one mod of its own that declares the network, and a store."""
    networked(root / "mods/own")
    for name in ("recipes", "patches", "gb10", "templates"):
        (root / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "kernels", root / "kernels")
    return Context(env={}, store=Store(root / "store"), reporter=Reporter({}, verbosity=-1), catalog=Catalog(root))


def networked(folder: Path, network: str = "true") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text("true\n", encoding="ascii")
    if network:
        about = 'what: A test needs it., why: A test needs it., engines: {vllm: ">=0"}, delete-when: the test is gone'
        text = f"{{{about}, network: {network}}}"
        (folder / "mod.yaml").write_text(text, encoding="ascii")
    return folder


def given(root: Path, *mods: str, consent: bool = False) -> list[bool]:
    request = Request(engine="vllm", arch="12.1f", mods=mods, mod_network=consent)
    return [mod.network for mod in make_plan(checkout(root), request).options.mods]


def test_a_foreign_mod_gets_the_network_only_with_consent(tmp_path: Path) -> None:
    foreign = str(networked(tmp_path / "away/foreign"))
    with pytest.raises(UsageError, match="the mod foreign needs the network") as caught:
        given(tmp_path / "c", "own", foreign)
    assert "--mod-network" in str(caught.value)
    assert given(tmp_path / "c", "own", foreign, consent=True) == [True, True]
    assert given(tmp_path / "c", "own") == given(tmp_path / "c", f"{tmp_path}/c/mods/own") == [True]


def test_consent_gives_no_network_to_a_mod_that_declares_none(tmp_path: Path) -> None:
    shut, bare = (str(networked(tmp_path / name, value)) for name, value in (("shut", "false"), ("bare", "")))
    assert given(tmp_path / "c", shut, bare, consent=True) == [False, True]
    assert given(tmp_path / "c", shut, bare) == [False, False]


def test_the_index_is_pips_and_folders_of_this_machine_stay_here() -> None:
    env = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "https://i.invalid/simple",
        "PIP_EXTRA_INDEX_URL": "https://e.invalid/simple file:///opt/simple",
    }
    found = index_variables(env)
    assert found["PIP_INDEX_URL"] == found["UV_DEFAULT_INDEX"] == "https://i.invalid/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://e.invalid/simple"


def test_the_proxies_of_this_machine_go_with_the_index() -> None:
    proxies = {"HTTP_PROXY": "http://u:p@a.invalid", "https_proxy": "http://b.invalid", "NO_PROXY": "c.invalid"}
    env = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "https://i.invalid/simple",
        **proxies,
        "http_proxy": "",
        "HOME": "/home/x",
    }
    found = index_variables(env)
    assert {name: value for name, value in found.items() if not name.startswith(("PIP_", "UV_"))} == proxies


def test_a_mod_takes_seconds_in_an_estimate(tmp_path: Path) -> None:
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}, verbosity=0), catalog=SHIPPED)
    made = plan(ONE, TWO)
    assert [*step_seconds(ctx, made, made.of_kind("mod")).values()] == [MOD_SECONDS] * 2
    assert 3 <= MOD_SECONDS <= 6


@pytest.mark.parametrize("prefix", ["[mod-2 1/1]", "[linux/arm64 mod-2 1/1]"])
def test_a_failure_names_its_mod_and_how_a_network_is_declared(prefix: str) -> None:
    with pytest.raises(BuildError, match="the mod two failed") as caught, naming_mods(plan(ONE, TWO)):
        raise BuildError(f"build step failed: {prefix} RUN --network=none", where="its own words\nlog: /l")
    assert "its own words" in str(caught.value)
    assert "--mod-network" in str(caught.value)
    assert "network: true" in str(caught.value)


def test_another_failure_stays_what_it_is() -> None:
    with pytest.raises(BuildError, match="build step failed"), naming_mods(plan(ONE)):
        raise BuildError("build step failed: [scan-mod-1 1/1] RUN", where="x")


def test_a_removed_library_is_gone_from_the_scan() -> None:
    below = Scan(root="a", binaries=(Binary(path="l.so", kind="elf", size=1), Binary(path="m.so", kind="elf", size=1)))
    above = Scan(root="b", gone=("l.so",))
    assert [binary.path for binary in merge_layers("x", [below, above]).binaries] == ["m.so"]
    again = Scan(root="c", binaries=(Binary(path="l.so", kind="elf", size=2),))
    assert [binary.size for binary in merge_layers("x", [below, above, again]).binaries] == [2, 1]


ENTRY = """\
enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: POF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


def test_an_emulator_counts_only_when_it_works_in_every_container() -> None:
    assert serves(ENTRY, "arm64")
    assert not serves(ENTRY, "amd64")
    assert not serves(ENTRY.replace("enabled", "disabled"), "arm64")
    assert not serves(ENTRY.replace("POF", "PO"), "arm64")
    assert not serves("enabled\ninterpreter /usr/bin/jexec\nflags: \nextension .jar\n", "arm64")


def test_the_registration_is_what_the_kernel_reads() -> None:
    text = line("gb10-x", PROGRAMS["arm64"][1], ROOT / "a:b")
    name, kind, offset, magic, mask, path, flags = text.split(b"\x1f")[1:]
    assert (name, kind, offset, flags) == (b"gb10-x", b"M", b"0", b"PF")
    assert path == bytes(ROOT / "a:b")
    assert magic.decode().encode().decode("unicode_escape").encode("latin-1") == PROGRAMS["arm64"][1]
    assert mask.count(b"\\x") == len(MASK) == len(PROGRAMS["arm64"][1])


def test_without_the_privilege_the_ways_out_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(emulation, "BINFMT", tmp_path / "none")
    with pytest.raises(EngineError, match="the mod one runs programs of arm64") as caught:
        register(Store(tmp_path), {}, "arm64", "the mod one")
    assert "this process is not root" in str(caught.value)
    assert "qemu-user-static" in str(caught.value)
    assert not list(tmp_path.iterdir())
