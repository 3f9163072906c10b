"""The plan: every input of a step moves its key, nothing else does."""

import ast
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.build.compile import UNKEYED
from gb10.image.plan.catalog import KEYED_FOLDERS, ROOT, module_path
from gb10.image.plan.compiles import COMPILE_SCRIPTS, INSTALLER, PATCHER, UNPACKER
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options, Overlay, PatchUse
from gb10.image.plan.plan_record import labels, record
from gb10.image.plan.render import dockerfile, wheel_dockerfile
from gb10.image.plan.steps import CHANGED, GRAFTER, LINKER, MOD_RUNNER, READER, SCANNER, SETTINGS, SLIMMER
from gb10.image.plan.values import Plan, Toolkit, torch_problem
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import NamedIndex, Recipe, Source
from gb10.image.recipe.locked import Lock
from gb10.image.request.kernel_choice import with_set
from tests.recipes import CUTLASS, SHIPPED, moved, plan_of

WHEEL = "flashinfer-jit-cache"
COMPILED = {WHEEL, f"layer-{WHEEL}", "image", "proof"}
BOTH = {*COMPILED, "gb10-kernels", "layer-gb10-kernels"}


def make(
    recipe: Recipe,
    lock: Lock,
    *,
    arch: str = "12.1f",
    platform: str | None = None,
    toolkit: Toolkit | None = None,
    overlay: Overlay | None = None,
) -> Plan:
    target = parse_arch(arch)
    chosen = Options(arch=target, platform=platform or target.platform, build="amd64", overlay=overlay)
    return plan_of(recipe, lock, toolkit or SHIPPED.toolkit, chosen)


def layers(plan: Plan) -> set[str]:
    return {step.name for step in plan.of_kind("layer")}


def test_the_same_inputs_give_the_same_keys(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert plan == plan_image(recipe, lock, SHIPPED.toolkit, plan.options)


def test_steps_come_after_what_they_need(recipe: Recipe, lock: Lock) -> None:
    seen: set[str] = set()
    for step in make(recipe, lock).steps:
        assert set(step.needs) <= seen
        seen.add(step.name)


def test_another_arch_moves_the_kernels_and_no_layer_of_upstream(recipe: Recipe, lock: Lock) -> None:
    assert moved(make(recipe, lock), make(recipe, lock, arch="12.1a")) == BOTH


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ({"cuda": "12.9"}, {"image", "proof"}),
        ({"env": {"A": "b"}}, {"image", "proof"}),
        ({"version": "0.33.1"}, {"image", "proof"}),
        ({"engine": "other"}, {"image", "proof"}),
        ({"repository": "gb10/other"}, {"image", "proof"}),
        ({"workdir": "/w"}, {"image", "proof"}),
        ({"entrypoint": ("vllm",)}, {"image", "proof"}),
        ({"command": ("true",)}, {"image", "proof"}),
        ({"user": 1}, {"image", "proof"}),
        ({"constraints": ()}, set()),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_word_of_the_recipe_moves_exactly_the_steps_it_decides(
    recipe: Recipe, lock: Lock, change: Mapping[str, object], steps: set[str]
) -> None:
    assert moved(make(recipe, lock), make(recipe.model_copy(update=change), lock)) == steps


@pytest.mark.parametrize("change", [{"python": "3.12"}, {"base": {"suite": "bookworm"}}], ids=["python", "suite"])
def test_the_python_and_the_suite_move_what_is_installed_for_them(
    recipe: Recipe, lock: Lock, change: Mapping[str, object]
) -> None:
    other = Recipe.model_validate(_merged(recipe.model_dump(), change))
    before = make(recipe, lock)
    assert moved(before, make(other, lock)) == {*layers(before), *BOTH}


def _merged(old: dict[str, object], new: Mapping[str, object]) -> dict[str, object]:
    nested = {
        key: {**old[key], **value}  # type: ignore[dict-item]
        for key, value in new.items()
        if isinstance(value, dict)
    }
    return {**old, **new, **nested}


def test_the_day_of_the_lock_moves_all_but_the_compiled_wheels(recipe: Recipe, lock: Lock) -> None:
    before = make(recipe, lock)
    later = lock.model_copy(update={"created": lock.created + datetime.timedelta(days=1)})
    assert moved(before, make(recipe, later)) == {step.name for step in before.steps} - {WHEEL, "gb10-kernels"}


def test_the_digest_of_the_lock_moves_the_image_that_names_it(recipe: Recipe, lock: Lock) -> None:
    other = lock.model_copy(update={"input_digest": "0" * 64})
    assert moved(make(recipe, lock), make(recipe, other)) == {"image", "proof"}


def test_jobs_decide_no_key(recipe: Recipe, lock: Lock) -> None:
    plan, templates = make(recipe, lock), SHIPPED.templates
    few, many = (wheel_dockerfile(plan, plan.step(WHEEL), templates, jobs=jobs) for jobs in ("1", "$(nproc)"))
    assert few.replace("--jobs 1", "--jobs $(nproc)") == many


def test_the_key_stands_in_the_label_and_in_the_record(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert plan.key == plan.step("image").key == labels(plan)["io.github.gb10.plan.key"] == record(plan)["key"]
    assert plan.key in dockerfile(plan, SHIPPED.templates)


SLIMMED = {"layer-cuda", "layer-deps", "layer-dsl", "layer-flashinfer", "layer-nvcc", "layer-torch", "layer-vllm"}
"""The layers that a rule of recipes/slim.yaml bites on."""


@pytest.mark.parametrize(
    ("file", "steps"),
    [
        ("inside/compile/compilers.py", BOTH),
        ("inside/compile/stub_torch/torch/__init__.py", COMPILED),
        ("inside/install/settings.py", {"image", "proof"}),
        ("inside/scan/scan.py", {"image", "proof"}),
        ("inside/scan/linked.py", {"image", "proof"}),
        ("inside/scan/elf.py", {"image", "proof", *SLIMMED}),
        ("inside/slim/slim.py", {"image", "proof", *SLIMMED}),
        ("inside/slim/symbols.py", {"image", "proof", *SLIMMED}),
        ("inside/scan/fatbin.py", {"image", "proof", *SLIMMED}),
        ("inside/slim/gpu_code.py", SLIMMED | {"image", "proof"}),
        ("sources/debian/mirror.py", set()),
    ],
)
def test_a_file_of_ours_moves_exactly_the_steps_it_decides(
    recipe: Recipe, lock: Lock, file: str, steps: set[str]
) -> None:
    toolkit = SHIPPED.toolkit
    assert file in toolkit.digests
    other = replace(toolkit, digests={**toolkit.digests, file: "0" * 64})
    assert moved(make(recipe, lock), make(recipe, lock, toolkit=other)) == steps


@pytest.mark.parametrize(
    ("name", "steps"), [("flashinfer-core", COMPILED), ("flashinfer-smoke", set()), ("gb10-moe", BOTH - COMPILED)]
)
def test_a_kernel_set_moves_the_wheel_that_it_lists(recipe: Recipe, lock: Lock, name: str, steps: set[str]) -> None:
    toolkit = SHIPPED.toolkit
    one = {name: {**toolkit.kernel_sets[name], "module": toolkit.kernel_sets[name]["module"][::-1], "more": 1}}
    other = replace(toolkit, kernel_sets={**toolkit.kernel_sets, **one})
    assert moved(make(recipe, lock), make(recipe, lock, toolkit=other)) >= steps
    assert not moved(make(recipe, lock), make(recipe, lock, toolkit=other)) - steps - {"image", "proof"}


@pytest.mark.parametrize("file", ["inside/install/install.py", "rootfs/unpack.py"])
def test_the_installer_and_the_unpacker_move_what_stands_on_them(recipe: Recipe, lock: Lock, file: str) -> None:
    toolkit, before = SHIPPED.toolkit, make(recipe, lock)
    other = replace(toolkit, digests={**toolkit.digests, file: "0" * 64})
    bases = {"base-build", "base-image"} if file == "inside/install/install.py" else set()
    assert moved(before, make(recipe, lock, toolkit=other)) == {step.name for step in before.steps} - bases


@pytest.mark.parametrize(
    ("template", "steps"),
    [("image", {"image", "proof"}), ("wheel", BOTH), ("scan", set())],
)
def test_a_template_moves_the_steps_whose_dockerfile_it_is(
    recipe: Recipe, lock: Lock, template: str, steps: set[str]
) -> None:
    toolkit, name = SHIPPED.toolkit, f"{template}.Dockerfile.j2"
    said = replace(toolkit, templates={**toolkit.templates, name: "{# why #}" + toolkit.templates[name]})
    other = replace(toolkit, templates={**toolkit.templates, name: toolkit.templates[name] + "USER 0\n"})
    assert moved(make(recipe, lock), make(recipe, lock, toolkit=said)) == set()
    assert moved(make(recipe, lock), make(recipe, lock, toolkit=other)) == steps


def test_what_the_keys_name_is_there_and_whole() -> None:
    assert all(SHIPPED.toolkit.digests_of(name) for names in COMPILE_SCRIPTS.values() for name in names)


@pytest.mark.parametrize(
    ("own", "roots"),
    [
        (UNPACKER, ["rootfs/unpack.py"]),
        (SCANNER, ["inside/scan/scan.py", "inside/scan/linked.py"]),
        (READER, ["inside/scan/scan.py"]),
        (LINKER, ["inside/scan/linked.py"]),
        (SLIMMER, ["inside/slim/slim.py"]),
        (CHANGED, ["inside/scan/changed.py"]),
        (PATCHER, ["patches/added.py", "patches/apply.py", "patches/foreign.py", "patches/graft.py"]),
    ],
)
def test_a_steps_own_scripts_are_all_that_they_import(own: tuple[str, ...], roots: list[str]) -> None:
    assert set(own) == closure(roots)


@pytest.mark.parametrize("own", [*COMPILE_SCRIPTS.values(), (INSTALLER,), (SETTINGS,), (MOD_RUNNER,), (GRAFTER,)])
def test_a_stages_scripts_are_all_that_they_import(own: tuple[str, ...]) -> None:
    """Apart from those that only check and measure: they decide no byte."""
    names = {name for name in own if name.endswith(".py")}
    assert closure(names) - {*UNKEYED} == names - {*UNKEYED}


OWN = {
    module_path(name): name for name in SHIPPED.contents if name.startswith(tuple(f"{name}/" for name in KEYED_FOLDERS))
}
"""Files of ours by their place in the package, as the plan names them."""


def closure(roots: Iterable[str]) -> set[str]:
    """The files that these run, errors left out: they decide no byte."""
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(name)
    return found


def imported(name: str) -> list[str]:
    """The files of ours that one file imports, named as the plan names them."""
    modules = []
    for node in ast.walk(ast.parse(SHIPPED.contents[name])):
        if isinstance(node, ast.ImportFrom):
            modules += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return [OWN[path] for module in modules if (path := f"{module.replace('.', '/')}.py") in OWN]


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (lambda files: files[1:], {"layer-cudnn"}),
        (lambda files: (files[0].model_copy(update={"sha256": "0" * 64}), *files[1:]), {"layer-cudnn"}),
    ],
    ids=["a wheel less", "a wheel of other bytes"],
)
def test_a_locked_wheel_moves_its_layer_and_the_image(
    recipe: Recipe, lock: Lock, change: Callable[..., object], steps: set[str]
) -> None:
    cudnn = next(wheel for wheel in lock.wheels.image["arm64"] if wheel.name == "nvidia-cudnn-cu13")
    others = tuple(wheel for wheel in lock.wheels.image["arm64"] if wheel is not cudnn)
    extra = cudnn.model_copy(update={"filename": "other.whl", "sha256": "1" * 64})
    before = lock.model_copy(
        update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": (cudnn, extra, *others)}})}
    )
    after_files = (*change((cudnn, extra)), *others)  # type: ignore[misc]
    after = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": after_files}})})
    assert moved(make(recipe, before), make(recipe, after)) == {*steps, "image", "proof"}


def test_an_overlay_moves_the_image_alone(recipe: Recipe, lock: Lock, tmp_path: Path) -> None:
    overlay = Overlay(path=str(tmp_path), digest="0" * 64)
    assert moved(make(recipe, lock), make(recipe, lock, overlay=overlay)) == {"image", "proof"}


def test_every_locked_wheel_lands_in_exactly_one_layer(recipe: Recipe, lock: Lock) -> None:
    files = [file.sha256 for step in make(recipe, lock).of_kind("layer") for file in step.files]
    assert sorted(files) == sorted(wheel.sha256 for wheel in lock.wheels.image["arm64"])


def test_tags_name_version_cuda_and_arch_and_the_last_the_key(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert plan.tags == ("gb10/vllm:0.33.0-cu130-sm121f", f"gb10/vllm:0.33.0-cu130-sm121f-{plan.key[:12]}")


def test_another_platform_than_the_archs_own_has_its_own_tags(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock, platform="linux/amd64")
    moving = "gb10/vllm:0.33.0-cu130-sm121f-amd64"
    assert plan.tags == (moving, f"{moving}-{plan.key[:12]}")


def test_an_overlay_moves_no_tag(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock, overlay=Overlay(path="/o", digest="0" * 64))
    assert plan.tags == (f"gb10/vllm:0.33.0-cu130-sm121f-{plan.key[:12]}",)


@pytest.mark.parametrize(
    ("kernels", "hint"),
    [
        ("corr", "did you mean core? known: "),
        ("smok", "did you mean smoke? known: "),
        ("nope", "known: "),
    ],
)
def test_a_kernel_set_that_is_not_there(recipe: Recipe, lock: Lock, kernels: str, hint: str) -> None:
    build = recipe.wheels[WHEEL].model_copy(update={"kernels": kernels})
    with pytest.raises(UsageError, match=f"the source flashinfer has no kernel set '{kernels}'") as caught:
        make(recipe.model_copy(update={"wheels": {WHEEL: build}}), lock)
    known = sorted(path.stem.partition("-")[2] for path in (ROOT / "recipes/kernels").glob("flashinfer-*.toml"))
    assert caught.value.hint == hint + ", ".join(known)


def test_a_set_whose_modules_read_more_of_the_image_has_those_wheels_as_inputs(recipe: Recipe, lock: Lock) -> None:
    """The fused experts of `moe` include NVRTC's header."""
    core, moe = (make(with_set(recipe, name), lock).step(WHEEL) for name in ("core", "moe"))
    more = {file.filename.split("-")[0] for file in moe.files} - {file.filename.split("-")[0] for file in core.files}
    assert more == {"nvidia_cuda_nvrtc"}


def test_a_kernel_set_for_another_release(recipe: Recipe, lock: Lock) -> None:
    older = recipe.model_copy(update={"sources": {"flashinfer": Source(sdist="flashinfer-python==0.6.7")}})
    with pytest.raises(
        UsageError, match=r"the kernel set core is for FlashInfer 0\.6\.7\.post2, 0\.7\.0\.post1, .*, not 0\.6\.7\n"
    ):
        make(older, lock)


def test_a_source_may_be_spelled_as_its_project_does(recipe: Recipe, lock: Lock) -> None:
    spelled = recipe.model_copy(update={"sources": {"flashinfer": Source(sdist="FlashInfer_Python==0.7.2.post1")}})
    assert moved(make(recipe, lock), make(spelled, lock)) == set()


def test_a_source_that_the_lock_does_not_hold(recipe: Recipe, lock: Lock) -> None:
    with pytest.raises(UsageError, match="no source archive of flashinfer-python"):
        make(recipe, lock.model_copy(update={"sdists": {}}))


def test_an_arch_that_is_newer_than_the_recipes_cuda(recipe: Recipe, lock: Lock) -> None:
    with pytest.raises(UsageError, match=r"arch 12\.1f needs CUDA 12\.9 or newer, the vllm recipe pins 12\.8"):
        make(recipe.model_copy(update={"cuda": "12.8"}), lock)


def built_with(lock: Lock, cuda: str | None) -> Lock:
    """The lock with a torch that is built with another CUDA: the same file, as far as any key knows."""
    image = {
        name: tuple(wheel.model_copy(update={"cuda": cuda}) if wheel.name == "torch" else wheel for wheel in wheels)
        for name, wheels in lock.wheels.image.items()
    }
    return lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": image})})


@pytest.mark.parametrize(
    ("cuda", "words"),
    [
        ("none", "torch 2.14.0 is built without CUDA, and the vllm 0.33.0 recipe needs CUDA 13.0"),
        ("12.8", "torch 2.14.0 is built with CUDA 12.8, and the vllm 0.33.0 recipe needs CUDA 13.0"),
        ("13.0", None),
        (None, None),
    ],
)
def test_no_image_is_made_of_a_torch_for_another_cuda(
    recipe: Recipe, lock: Lock, cuda: str | None, words: str | None
) -> None:
    plan = make(recipe, built_with(lock, cuda))
    assert plan.key == make(recipe, lock).key
    problem = torch_problem(plan)
    assert (words in str(problem)) if words else problem is None


def test_an_index_of_the_recipe_is_asked_for_its_projects_files_and_moves_no_key(recipe: Recipe, lock: Lock) -> None:
    named = NamedIndex(url="https://a.invalid/whl", packages=("torch", "flashinfer-python", "ninja"))
    before, after = make(recipe, lock), make(recipe.model_copy(update={"indexes": {"own": named}}), lock)
    assert not moved(before, after)
    files = {file.filename.lower().split("-")[0] for step in after.steps for file in step.files if file.index}
    assert files == {"torch", "flashinfer_python", "ninja"}
    assert not any(file.index for step in before.steps for file in step.files)


@pytest.mark.parametrize(
    ("arch", "about"), [("12.1f", "aot core for 12.1f"), ("12.1", "aot core for 12.1, compiled as 12.1a")]
)
def test_the_plan_says_what_a_plain_arch_becomes(recipe: Recipe, lock: Lock, arch: str, about: str) -> None:
    assert make(recipe, lock, arch=arch).step(WHEEL).about == about


def test_the_wheels_plan_is_the_part_that_the_wheels_need(recipe: Recipe, lock: Lock) -> None:
    assert {step.name for step in make(recipe, lock).wheels_only().steps} == {
        "base-build",
        "tools",
        "flashinfer-jit-cache",
        "gb10-kernels",
    }


def patched(recipe: Recipe, lock: Lock, *uses: PatchUse) -> Plan:
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", patches=uses)
    return plan_image(recipe, lock, SHIPPED.toolkit, options)


PATCH = PatchUse(source="vllm", project="vllm", name="0001-a.patch", sha256="a" * 64)


def test_a_patch_of_a_wheel_is_a_layer_above_it(recipe: Recipe, lock: Lock) -> None:
    before, after = make(recipe, lock), patched(recipe, lock, PATCH)
    assert moved(before, after) == {"graft-vllm", "image", "proof"}
    assert labels(after)["io.github.gb10.patches.vllm"] == f"0001-a.patch@{'a' * 12}"
    assert record(after)["patches"] == [
        {"source": "vllm", "project": "vllm", "name": "0001-a.patch", "sha256": "a" * 64}
    ]
    assert after.tags[0] == before.tags[0]


@pytest.mark.parametrize(
    "other",
    [
        (replace(PATCH, sha256="b" * 64),),
        (PATCH, replace(PATCH, name="0002-b.patch", sha256="b" * 64)),
        (replace(PATCH, name="0002-b.patch", sha256="b" * 64), PATCH),
    ],
)
def test_every_patch_and_their_order_move_the_graft(recipe: Recipe, lock: Lock, other: tuple[PatchUse, ...]) -> None:
    before, after = patched(recipe, lock, PATCH), patched(recipe, lock, *other)
    assert moved(before, after) == {"graft-vllm", "image", "proof"}


def test_a_patch_of_what_is_compiled_moves_the_compiled_wheel(recipe: Recipe, lock: Lock) -> None:
    use = replace(PATCH, source="flashinfer", project="flashinfer-python")
    assert moved(make(recipe, lock), patched(recipe, lock, use)) == {*COMPILED, "graft-flashinfer-python"}
    sources_only = replace(use, installable=False)
    assert moved(make(recipe, lock), patched(recipe, lock, sources_only)) == COMPILED


def test_a_patch_of_what_an_archive_bundles_moves_the_kernels_of_ours_alone(recipe: Recipe, lock: Lock) -> None:
    use = replace(CUTLASS, name="0001-a", sha256="a" * 64)
    after = patched(recipe, lock, use)
    ours = {"gb10-kernels", "layer-gb10-kernels", "image", "proof"}
    assert moved(make(recipe, lock), after) == ours
    assert moved(patched(recipe, lock, replace(use, folder="other")), after) == ours
    assert labels(after)["io.github.gb10.patches.cutlass"] == f"0001-a@{'a' * 12}"
    assert record(after)["patches"] == [
        {
            "source": "cutlass",
            "project": "flashinfer-python",
            "name": "0001-a",
            "sha256": "a" * 64,
            "folder": "3rdparty/cutlass",
        }
    ]


def test_a_patch_by_hand_moves_no_tag_of_others(recipe: Recipe, lock: Lock) -> None:
    plan = patched(recipe, lock, replace(PATCH, path="/home/me/pr.diff"))
    assert [tag.rsplit("-", 1)[-1] for tag in plan.tags] == [plan.key[:12]]
    assert "/home/me" not in str(plan.document())


def test_wheels_alone_need_no_layer_for_a_patched_wheel(recipe: Recipe, lock: Lock) -> None:
    steps = {step.name for step in patched(recipe, lock, PATCH).wheels_only().steps}
    assert steps == {"base-build", "tools", WHEEL, "gb10-kernels", "graft-vllm"}
