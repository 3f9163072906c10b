"""Slimming: rules as data, what they do to an installed layer, and which keys they move."""

import base64
import csv
import hashlib
import io
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import PublishError, UsageError
from gb10.image.build.inspect import slimmed
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import Plan
from gb10.image.publish.publishing import require_publishable
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.slim_rules import Extent, RuleFile, fits, read_rules
from gb10.inside.install.install import BIN, SITE
from gb10.inside.scan.elf import DamagedError, Elf
from gb10.inside.slim.slim import apply, check_needed, matches
from gb10.inside.slim.symbols import stripped
from tests.recipes import SHIPPED

RULES = """
rules:
  - name: one
    action: drop
    files: {{"{release}": ["{pattern}"]}}
    why: a reason to leave it out
    shown: how that is shown
    licence: what the licence says
    mb: {{"{release}": 1.5}}
"""
CHANGING = """
licences:
  - name: own
    file: "*.dist-info/LICENSE"
    sha256: "{sha256}"
    of: [{of}]
    changed: {changed}
    says: what it says of changed copies
rules:
  - name: one
    action: {action}
    files: {{"pkg==1.0": ["pkg/a.so"]}}
    why: a reason to leave it out
    shown: how that is shown
    licence: what the licence says
    mb: {{"{release}": 1.5}}
    publish: {publish}
    hollow: {hollow}
"""
CHANGE = {
    "sha256": "0" * 64,
    "of": "pkg",
    "changed": "publish",
    "action": "strip",
    "release": "pkg==1.0",
    "publish": "true",
    "hollow": "false",
}


LICENCE = "Copies may be changed and passed on.\n"
SOURCE = """
#include <unistd.h>
static int own(int n) { return n + (getpid() > 0 ? 41 : 0); }
int shown(int n) { return own(n) + 1; }
"""


def rules_of(pattern: str = "pkg/a.so", release: str = "pkg==1.0") -> RuleFile:
    return read_rules(RULES.format(pattern=pattern, release=release))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library with symbol and debug tables, from the machine's compiler."""
    if shutil.which("gcc") is None or shutil.which("readelf") is None:
        pytest.skip("needs gcc and readelf")
    folder = tmp_path_factory.mktemp("library")
    (folder / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", folder / "a.so", folder / "a.c"], check=True)
    return folder / "a.so"


def readelf(path: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, path], check=True, capture_output=True, text=True).stdout


def test_a_stripped_library_keeps_its_dynamic_table_and_runs(library: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.so"
    made.write_bytes(stripped(library.read_bytes()))
    assert made.stat().st_size < library.stat().st_size
    assert readelf(made, "--dyn-syms") == readelf(library, "--dyn-syms")
    assert readelf(made, "-d", "-n", "-r").split() == readelf(library, "-d", "-n", "-r").split()
    found = readelf(made, "-S")
    assert ".symtab" not in found
    assert ".debug_info" not in found
    main = tmp_path / "main.c"
    main.write_text("int shown(int); int main(void) { return shown(0) != 42; }\n")
    subprocess.run(["gcc", "-o", tmp_path / "main", main, made, f"-Wl,-rpath,{tmp_path}"], check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_stripping_twice_changes_nothing(library: Path) -> None:
    once = stripped(library.read_bytes())
    assert stripped(once) == once


@pytest.mark.parametrize("cut", [8, 60, 500, 5000])
def test_a_cut_library_is_an_error_of_one_kind(library: Path, cut: int) -> None:
    with pytest.raises(DamagedError):
        stripped(library.read_bytes()[:cut])


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("a/b/c.so", "a/b/*.so", True),
        ("a/b/c.so", "a/*.so", False),
        ("a/b/c.so", "a/**", True),
        ("a/b/c.so", "a/b/c.so/**", False),
        ("ab/c.so", "a/**", False),
        ("a/b/c.so", "a/*/c.so", True),
    ],
)
def test_patterns_do_not_cross_folders(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected


@pytest.mark.parametrize("pattern", ["*", "**", "*/a.so", "/etc/passwd", "a/../b", "a/**/b", "a//b", "a.so", "a/"])
def test_a_pattern_that_is_not_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="not a valid list of slimming rules"):
        rules_of(pattern)


def installed(out: Path, library: Path) -> Path:
    """A layer as install.py leaves it: one distribution with a library, a module and a program."""
    site = out / SITE
    files = {"pkg/a.so": library.read_bytes(), "pkg/old/b.py": b"x = 1\n", "pkg/c.py": b"y = 1\n"}
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
    cached = site / "pkg/old/__pycache__/b.cpython-313.pyc"
    cached.parent.mkdir()
    cached.write_bytes(b"")
    program = out / BIN / "tool"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"#!/bin/sh\n")
    info = site / "Pkg-1.0.dist-info"
    info.mkdir()
    (info / "LICENSE").write_text(LICENCE)
    names = [*files, "bin/tool", "Pkg-1.0.dist-info/LICENSE"]
    (info / "RECORD").write_text("".join(f"{name},sha256=old,1\n" for name in names) + "Pkg-1.0.dist-info/RECORD,,\n")
    return info / "RECORD"


def rule(action: str, *files: str) -> dict[str, object]:
    text = {"file": "*.dist-info/LICENSE", "sha256": hashlib.sha256(LICENCE.encode()).hexdigest()}
    row: dict[str, object] = {"name": "one", "action": action, "project": "pkg", "files": list(files), "licence": text}
    return {**row, "capability": "12.1", "hollow": False} if action == "code" else row


def test_dropped_files_leave_the_layer_and_record(tmp_path: Path, library: Path) -> None:
    record = installed(tmp_path, library)
    assert apply(rule("drop", "pkg/old/**", "bin/tool"), tmp_path) == {"b.py", "tool"}
    assert not (tmp_path / SITE / "pkg/old").exists()
    assert not (tmp_path / BIN / "tool").exists()
    listed = [row[0] for row in csv.reader(io.StringIO(record.read_text()))]
    assert listed == ["pkg/a.so", "pkg/c.py", "Pkg-1.0.dist-info/LICENSE", "Pkg-1.0.dist-info/RECORD"]


def test_record_has_the_hash_of_a_stripped_library(tmp_path: Path, library: Path) -> None:
    record = installed(tmp_path, library)
    (tmp_path / SITE / "pkg/a.so").chmod(0o755)
    apply(rule("strip", "pkg/*.so"), tmp_path)
    found = (tmp_path / SITE / "pkg/a.so").read_bytes()
    value = base64.urlsafe_b64encode(hashlib.sha256(found).digest()).rstrip(b"=").decode()
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record.read_text()))}
    assert rows["pkg/a.so"] == [f"sha256={value}", str(len(found))]
    assert (tmp_path / SITE / "pkg/a.so").stat().st_mode & 0o777 == 0o755
    with pytest.raises(SystemExit, match="would not be smaller"):
        apply(rule("strip", "pkg/*.so"), tmp_path)


def test_another_licence_stops_the_build(tmp_path: Path, library: Path) -> None:
    installed(tmp_path, library)
    (tmp_path / SITE / "Pkg-1.0.dist-info/LICENSE").write_text("Do not change a byte.\n")
    with pytest.raises(SystemExit, match="is not the licence that was read for the rule one"):
        apply(rule("strip", "pkg/*.so"), tmp_path)
    assert (tmp_path / SITE / "pkg/a.so").read_bytes() == library.read_bytes()


def test_a_library_without_gpu_code_is_not_the_business_of_a_rule_about_it(tmp_path: Path, library: Path) -> None:
    installed(tmp_path, library)
    with pytest.raises(SystemExit, match="cannot be changed: no section of fatbins"):
        apply(rule("code", "pkg/*.so"), tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"changed": "own-use"}, "needs publish: false, by the licence of pkg"),
        ({"of": "other"}, "changes files of pkg, whose licence is not listed"),
        ({"release": "pkg==2.0"}, "mb needs the releases of files"),
        ({"hollow": "true"}, "hollow is for the action code"),
        ({"changed": "maybe"}, "changed"),
        ({"sha256": "abc"}, "sha256"),
    ],
)
def test_rules_that_their_licence_does_not_carry_are_refused(change: dict[str, str], complaint: str) -> None:
    assert read_rules(CHANGING.format(**CHANGE)).rules[0].saved == 1.5
    with pytest.raises(UsageError, match="not a valid list of slimming rules") as caught:
        read_rules(CHANGING.format(**{**CHANGE, **change}))
    assert complaint in str(caught.value)


def test_what_forbids_changed_copies_is_for_own_use(catalog: Catalog) -> None:
    """NVIDIA's own licences, as the wheels have them; NCCL's is a BSD licence."""
    found = {project: licence.changed for licence in catalog.slim.licences for project in licence.of}
    own = {"nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cusparselt-cu13", "nvidia-nvshmem-cu13"}
    assert {found[project] for project in own} == {"own-use"}
    assert found["nvidia-nccl-cu13"] == found["torch"] == found["vllm"] == "publish"


def test_a_rule_that_matches_nothing_stops_the_build(tmp_path: Path, library: Path) -> None:
    installed(tmp_path, library)
    with pytest.raises(SystemExit, match="the rule one matches nothing: pkg has no pkg/gone"):
        apply(rule("drop", "pkg/c.py", "pkg/gone.so"), tmp_path)
    assert (tmp_path / SITE / "pkg/c.py").exists()


def test_a_record_that_leaves_its_folder_is_refused(tmp_path: Path, library: Path) -> None:
    record = installed(tmp_path, library)
    record.write_text("pkg/../../../x,,\n")
    with pytest.raises(SystemExit, match="outside of its folder"):
        apply(rule("drop", "pkg/../../../*"), tmp_path)


def test_a_library_that_is_needed_is_not_left_out(tmp_path: Path, library: Path) -> None:
    needs = Elf(library.read_bytes()).dynamic()[0]
    assert needs
    (tmp_path / "a.so").write_bytes(library.read_bytes())
    (tmp_path / "folder").mkdir()
    check_needed(tmp_path, {"other.so"})
    with pytest.raises(SystemExit, match=f"a.so needs {needs[0]}"):
        check_needed(tmp_path, {needs[0]})


def plan_of(catalog: Catalog, options: Options, engine: str = "vllm") -> Plan:
    path = catalog.recipe(engine)
    return plan_image(load_recipe(path), load_lock(lock_path(path)), catalog.toolkit, options)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return SHIPPED


def options(platform: str = "linux/arm64") -> Options:
    return Options(arch=parse_arch("12.1f"), platform=platform, build="amd64")


def test_every_rule_bites_on_a_lock(catalog: Catalog) -> None:
    locks = [load_lock(lock_path(catalog.recipe(engine))) for engine in catalog.engines()]
    wheels = [wheel for lock in locks for wheel in lock.wheels.image["arm64"]]
    idle = [release for one in catalog.slim.rules for release in one.files if not any(fits(release, w) for w in wheels)]
    assert catalog.slim.rules
    assert not idle, "correct these rules in recipes/slim.yaml, or remove them"


def test_a_new_rule_moves_the_key_of_its_layer_alone(catalog: Catalog) -> None:
    toolkit = catalog.toolkit
    path = catalog.recipe("vllm")
    recipe, lock = load_recipe(path), load_lock(lock_path(path))
    numpy = next(wheel for wheel in lock.wheels.image["arm64"] if wheel.name == "numpy")
    fresh = rules_of("numpy/**", f"numpy=={numpy.filename.split('-')[1]}")
    before = plan_image(recipe, lock, toolkit, options())
    more = toolkit.slim.model_copy(update={"rules": (*toolkit.slim.rules, *fresh.rules)})
    after = plan_image(recipe, lock, replace(toolkit, slim=more), options())
    moved = {step.name for step, old in zip(after.steps, before.steps, strict=True) if step.key != old.key}
    assert moved == {"layer-deps", "image", "proof"}
    assert not [step for step in after.steps if step.kind == "wheel" and step.name in moved]


@pytest.mark.parametrize(("extent", "bars"), [("all", True), ("publishable", False), ("none", False)])
def test_labels_name_the_rules_and_what_bars_the_image(catalog: Catalog, extent: Extent, bars: bool) -> None:
    plan = plan_of(catalog, replace(options(), slim=extent))
    found = labels(plan)
    assert ("io.github.gb10.slim.local-only" in found) is bars
    assert ("io.github.gb10.slim" in found) is (extent != "none")
    assert bool(plan.document().get("slim")) is (extent != "none")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_plan_names_the_releases_that_bite(catalog: Catalog, engine: str) -> None:
    plan = plan_of(catalog, replace(options(), slim="all"), engine)
    wheels = plan.lock.wheels.image["arm64"]
    assert plan.slim
    assert all(any(fits(release, wheel) for wheel in wheels) for rule in plan.slim for release in rule.files)
    code = next(rule for rule in plan.slim if rule.name == "code")
    assert ("vllm==0.33.0" in code.files) is (engine == "vllm")
    assert code.saved == round(sum(code.mb.values()), 1) > 250
    rows = [row for step in plan.of_kind("layer") for row in step.slim if row["action"] == "code"]
    assert {row["capability"] for row in rows} == {"12.1"}
    assert {row["project"] for row in rows if row["hollow"]} & {"nvidia-cublas", "torch"} == {"nvidia-cublas"}


def test_other_platforms_are_not_slimmed(catalog: Catalog) -> None:
    assert not plan_of(catalog, options("linux/amd64")).slim


def test_an_image_for_own_use_is_not_published() -> None:
    require_publishable((), "gb10/vllm:1")
    with pytest.raises(PublishError, match="for this machine only") as caught:
        require_publishable(("ffmpeg-source",), "gb10/vllm:1")
    assert "--slim publishable" in str(caught.value)


def test_verify_names_what_an_image_left_out(catalog: Catalog) -> None:
    found = labels(plan_of(catalog, options()))
    assert slimmed(found).startswith(f"slimmed by {len(found['io.github.gb10.slim'].split())} rules, 2,")
    assert slimmed({}) == ""
    assert slimmed({**found, "io.github.gb10.slim": "\x1b[31m"}) == ""


def test_only_the_plain_recipe_gets_the_moving_tag(catalog: Catalog) -> None:
    tags = {extent: plan_of(catalog, replace(options(), slim=extent)).tags for extent in ("publishable", "all", "none")}
    assert [len(found) for found in tags.values()] == [2, 1, 1]
    assert len({found[-1] for found in tags.values()}) == 3
