"""A library in a recipe: its commands, and the files of a locked wheel that it replaces."""

import argparse
import json
import os
import sys
from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.errors import PublishError, UsageError
from gb10.image.build.wheels import WheelCache
from gb10.image.context import open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.plan_record import LIBRARIES, labels
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.publish.licences import require_licences, wheel_licence_problem
from gb10.image.recipe.image_recipe import Recipe, Source, WheelBuild
from gb10.inside.compile import library, pack_targets, package
from gb10.inside.compile.library import filled, installed, values
from tests.recipes import SHIPPED, small_recipe
from tests.unit.image.test_key import Change, Inputs, arch, locked, patch, script, source, template
from tests.unit.image.test_package_plan import build, key, made

LIBRARY = {
    "method": "library",
    "source": "conv",
    "replaces": "nvidia-nccl-cu13",
    "commands": (("make", "-j$JOBS", "BUILDDIR=$PREFIX", "it's"), ("make", "install")),
    "files": {"nvidia/nccl/lib/libnccl.so.2": "lib/libnccl.so.2"},
    "licence": "Apache-2.0",
}


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return made(WheelBuild.model_validate(LIBRARY), Source(sdist="conv==1.0"))


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        pytest.param(source("conv"), True, id="source"),
        pytest.param(patch(source="conv", project="conv"), True, id="patch"),
        pytest.param(arch("12.1"), True, id="arch"),
        pytest.param(build(commands=(("make",),)), True, id="commands"),
        pytest.param(build(files={"nvidia/nccl/lib/libnccl.so.2": "libnccl.so"}), True, id="files"),
        pytest.param(build(environment={"A": "1"}), True, id="environment"),
        pytest.param(build(licence=None), True, id="licence, which its manifest has"),
        pytest.param(locked("wheels.tools", "amd64", "nvidia-cuda-nvcc"), True, id="CUDA compiler"),
        pytest.param(locked("wheels.image", "arm64", "nvidia-nccl-cu13"), False, id="the wheel that it goes into"),
        pytest.param(script("inside/compile/library.py"), True, id="script"),
        pytest.param(script("inside/compile/pack_targets.py"), True, id="what packs"),
        pytest.param(template("package.Dockerfile.j2"), True, id="template"),
    ],
)
def test_each_input_alone_moves_the_key(inputs: Inputs, change: Change, moves: bool) -> None:
    assert (key(inputs) != key(change(inputs))) == moves


def test_its_files_go_into_the_locked_wheel_and_are_no_layer_of_their_own(inputs: Inputs) -> None:
    plan = plan_image(*inputs)
    assert "layer-conv" not in {step.name for step in plan.steps}
    graft = plan.step("graft-nvidia-nccl-cu13")
    assert graft.needs[-1] == "conv"
    assert graft.about == "conv"
    other = plan_image(*locked("wheels.image", "arm64", "nvidia-nccl-cu13")(inputs))
    assert other.step("graft-nvidia-nccl-cu13").key != graft.key
    text = wheel_dockerfile(plan, plan.step("conv"), SHIPPED.templates)
    assert "gb10.inside.compile.library --name conv" in text
    assert """--run '["make", "-j$JOBS", "BUILDDIR=$PREFIX", "it'"'"'s"]' \\\n    --run '["make", "install"]'""" in text
    assert "--file nvidia/nccl/lib/libnccl.so.2 lib/libnccl.so.2" in text
    assert "--project conv --version 1.0" in text
    assert "--licence Apache-2.0 \\\n" in text
    none = plan_image(*build(licence=None)(inputs))
    assert "--licence" not in wheel_dockerfile(none, none.step("conv"), SHIPPED.templates)


def test_a_wheel_that_the_image_lacks_is_named(inputs: Inputs) -> None:
    with pytest.raises(UsageError, match="conv replaces files of nvidia-nothing, and the image holds no such wheel"):
        plan_image(*build(replaces="nvidia-nothing")(inputs))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{method: library, source: conv}", "needs commands, replaces and files"),
        ("{method: library, source: conv, commands: [[]], replaces: a, files: {a: b}}", "commands"),
        ("{method: library, source: conv, commands: [[make]], replaces: a, files: {../a: b}}", "files"),
        ("{method: library, source: conv, commands: [[make]], replaces: a, files: {a: /b}}", "files"),
        ("{method: package, source: conv, tools: [uv], licence: MIT}", "are for method library"),
        ("{method: aot, source: conv, kernels: core, replaces: a}", "for library"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(text: str, says: str) -> None:
    own = f"sources: {{conv: {{sdist: conv==1.0}}}}\nwheels: {{conv: {text}}}\n"
    with pytest.raises(UsageError) as caught:
        parse_document(small_recipe(own), Recipe, where="r.yaml", what="image recipe")
    assert says in str(caught.value)


def test_two_libraries_for_one_wheel_are_refused() -> None:
    entry = "{method: library, source: conv, commands: [[make]], replaces: a, files: {a: b}}"
    own = f"sources: {{conv: {{sdist: conv==1.0}}}}\nwheels: {{one: {entry}, two: {entry}}}\n"
    with pytest.raises(UsageError, match="two libraries replace files of a"):
        parse_document(small_recipe(own), Recipe, where="r.yaml", what="image recipe")


@pytest.mark.parametrize(
    ("licence", "wrong"),
    [("Apache-2.0", ""), ("AGPL-3.0-only", "conv: its licence is AGPL-3.0-only"), (None, "conv: its licence is none")],
)
def test_its_licence_is_the_recipes_word(inputs: Inputs, tmp_path: Path, licence: str | None, wrong: str) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    own = labels(plan_image(*build(licence=licence)(inputs)))
    assert own[f"{LIBRARIES}.conv"] == (licence or "none")
    if not wrong:
        require_licences(WheelCache(ctx), own, "a/b:c")
        return
    with pytest.raises(PublishError) as caught:
        require_licences(WheelCache(ctx), own, "a/b:c")
    assert wrong in (caught.value.where or "")


@pytest.mark.parametrize(
    ("licence", "why"),
    [
        ("Apache-2.0", ""),
        ("AGPL-3.0-only", "its licence is AGPL-3.0-only, by the recipe"),
        ("", "its licence is none, by the recipe"),
    ],
)
def test_its_wheel_has_the_licence_and_is_held_back_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, licence: str, why: str
) -> None:
    """The real stage's programs, but for the compilers: the library is one of this machine."""
    machine = os.uname().machine
    own = next(Path(f"/usr/lib/{machine}-linux-gnu").glob("libz.so.1"), None)
    assert own, "Python has zlib"
    work, out = tmp_path / "work", tmp_path / "out"
    (work / "prefix").mkdir(parents=True)
    (work / "cuda/bin").mkdir(parents=True)
    monkeypatch.setattr(package, "prepare", lambda options: options.work / "prefix")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    places = {"source": tmp_path, "site": tmp_path / "site", "image": Path("/"), "cuda-home": tmp_path, "work": work}
    words = [word for name, place in {**places, "out": out}.items() for word in (f"--{name}", str(place))]
    words += ["--name=conv", "--arch=12.1a", "--cc=cc", "--cxx=c++", f"--machine={machine}", "-gencode=a", "--jobs=1"]
    words += ["--run", json.dumps(["cp", str(own), "$PREFIX/a.so"]), "--file", "conv/a.so", "a.so"]
    monkeypatch.setattr(sys, "argv", ["library", *words, *([f"--licence={licence}"] if licence else [])])
    library.main()
    packing = ["--built", str(out), "--project=conv", "--version=1.0", "--key=abcdef01", f"--machine={machine}"]
    monkeypatch.setattr(sys, "argv", ["pack", *packing, "--epoch=315532800", "--out", str(tmp_path / "wheel")])
    pack_targets.main()
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    assert wheel_licence_problem(wheel) == why


def test_words_are_filled_in_and_an_unknown_name_is_an_error() -> None:
    options = argparse.Namespace(jobs=3, gencode="arch=compute_121a,code=sm_121a", machine="aarch64")
    env = {"CUDA_HOME": "/c", "CC": "/cc", "CXX": "/c++", "CUDAARCHS": "121a"}
    known = {"PREFIX": "/p", **values(options, env)}
    words = ["make", "-j$JOBS", "D=${PREFIX}/x", "$GENCODE", "$$HOME", "$MACHINE-$ARCH"]
    assert filled(words, known) == ["make", "-j3", "D=/p/x", f"-gencode={options.gencode}", "$HOME", "aarch64-121a"]
    for wrong in ("$HOME", "$(nproc)"):
        with pytest.raises(
            SystemExit, match=r"package: the command 'make .*which a stage does not fill in\nhint: known"
        ):
            filled(["make", wrong], known)


def test_only_what_lies_below_the_prefix_is_taken(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib/liba.so.1.2").write_bytes(b"a")
    (prefix / "lib/liba.so.1").symlink_to("liba.so.1.2")
    (prefix / "lib/libout.so").symlink_to(tmp_path / "out.so")
    (tmp_path / "out.so").write_bytes(b"b")
    assert installed(prefix, "lib/liba.so.1") == b"a"
    for wrong in ("lib/libout.so", "lib/libb.so", "lib"):
        with pytest.raises(SystemExit, match=r"installed no lib[\s\S]*below \$PREFIX is lib/liba\.so\.1, lib/liba"):
            installed(prefix, wrong)
