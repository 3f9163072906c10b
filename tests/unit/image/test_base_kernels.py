"""Kernels for an image of others: where its FlashInfer looks first, which sets are compiled, what does not fit."""

from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.base.base_sources import module_folder
from gb10.image.build.base_build import move_modules
from gb10.image.lock.base_lock import on_image_digest
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.base_plan import lock_on, module_folder_of, plan_on_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.locked import Lock, LockedPart, LockedTaken
from gb10.image.recipe.on_image import ImageBase, OnImage
from gb10.image.request.from_image import check_own_kernels, split_sets
from tests.recipes import SHIPPED
from tests.unit.made_up_base import RECIPE, SITE, base

PROVIDERS = b"FLASHINFER_AOT_DIR = root / 'data'\nfor one in flashinfer_jit_cache.get_jit_cache_providers(): pass\n"
FOLDER = b"FLASHINFER_AOT_DIR = flashinfer_jit_cache.get_jit_cache_dir() if found else root / 'data' / 'aot'\n"
COMMENT = b"# get_jit_cache_dir was asked before\n" + PROVIDERS
OLD = b"FLASHINFER_AOT_DIR = root / 'data' / 'aot'\n"
CACHED = {"flashinfer-jit-cache": "0.6.7+cu130"}
AOT, CACHE = f"{SITE}/flashinfer/data/aot", f"{SITE}/flashinfer_jit_cache/jit_cache"


@pytest.mark.parametrize(
    ("loader", "cached", "folders", "place"),
    [
        (PROVIDERS, False, {"flashinfer/data": ()}, ""),
        (COMMENT, False, {"flashinfer/data": ()}, ""),
        (PROVIDERS, True, {"flashinfer/data": ()}, AOT),
        (PROVIDERS, False, {"flashinfer/data": ("aot",), "flashinfer/data/aot": ("norm",)}, AOT),
        (FOLDER, False, {"flashinfer/data": ()}, AOT),
        (
            FOLDER,
            True,
            {
                "flashinfer/data": (),
                "flashinfer_jit_cache": ("jit_cache",),
                "flashinfer_jit_cache/jit_cache": ("norm",),
            },
            CACHE,
        ),
        (FOLDER, True, {"flashinfer/data": ()}, AOT),  # the distribution of ours alone, without the package
        (OLD, False, {}, AOT),
        (OLD, True, {}, AOT),
    ],
)
def test_modules_lie_where_the_loader_of_the_image_looks_first(
    loader: bytes, cached: bool, folders: dict[str, tuple[str, ...]], place: str
) -> None:
    image = base(versions=CACHED if cached else {})
    there = {f"{SITE}/{name}": (f"{SITE}/{name}", names) for name, names in folders.items()}
    assert module_folder(image, loader, lambda path: there.get(path, ("", ()))) == place


def test_a_link_of_the_image_is_followed_to_the_folder() -> None:
    there = {f"{SITE}/flashinfer/data": ("/src/flashinfer/data", ())}
    assert module_folder(base(), FOLDER, lambda path: there.get(path, ("", ()))) == "/src/flashinfer/data/aot"


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (b"", "looks nowhere for modules"),
        (b"def (", "looks nowhere for modules"),
        (b"# FLASHINFER_AOT_DIR", "looks nowhere for modules"),
        (FOLDER, "flashinfer-jit-cache 0.6.7.cu130 of .* keeps its modules in no known folder"),
    ],
)
def test_a_loader_that_nobody_knows_is_refused(loader: bytes, said: str) -> None:
    there = {f"{SITE}/flashinfer_jit_cache": (f"{SITE}/flashinfer_jit_cache", ("__init__.py",))}
    with pytest.raises(UsageError, match=said):
        module_folder(base(versions=CACHED), loader, lambda path: there.get(path, ("", ())))


@pytest.mark.parametrize(("there", "folder"), [(False, AOT), (True, AOT), (True, CACHE)])
def test_modules_leave_our_package_and_the_record_knows_where_they_are(
    there: bool, folder: str, tmp_path: Path
) -> None:
    site = tmp_path / SITE.strip("/")
    info = site / "flashinfer_jit_cache-0.6.7+gb10.a.dist-info"
    files = {"__init__.py": "", "manifest.json": "{}", "modules/norm/norm.so": "elf"}
    for name, text in files.items():
        (site / "flashinfer_jit_cache" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "flashinfer_jit_cache" / name).write_text(text, encoding="utf-8")
    info.mkdir()
    rows = [*(f"flashinfer_jit_cache/{name},," for name in files), f"{info.name}/METADATA,,"]
    (info / "RECORD").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    move_modules(tmp_path, folder, keep_dist_info=there)
    found = {f"/{path.relative_to(tmp_path)}" for path in tmp_path.rglob("*") if path.is_file()}
    record = f"{SITE}/{info.name}/RECORD"
    assert found == {f"{folder}/norm/norm.so", *(() if there else (record,))}
    if not there:
        listed = (info / "RECORD").read_text(encoding="utf-8").splitlines()
        assert listed == ["flashinfer/data/aot/norm/norm.so,,", f"{info.name}/METADATA,,"]


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (None, (None, None)),
        ("core", ("core", None)),
        ("gb10-moe", (None, "moe")),
        ("core,gb10-moe", ("core", "moe")),
        ("gb10-moe, moe", ("moe", "moe")),
    ],
)
def test_one_set_of_each_kind_is_named(text: str | None, sets: tuple[str | None, str | None]) -> None:
    assert split_sets(text) == sets


@pytest.mark.parametrize("text", ["core,moe", "gb10-moe,gb10-a", "core,", ",", "gb10-"])
def test_two_of_a_kind_or_none_are_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="one set of FlashInfer's and one of ours"):
        split_sets(text)


def part(modules: str = "", cutlass: str = "4.5.0") -> LockedPart:
    file = {"filename": "flashinfer_python-0.6.7.tar", "sha256": "5" * 64, "size": 1000}
    made = {"name": "flashinfer-python", "version": "0.6.7", "base": base().digest, "cutlass": cutlass}
    return LockedPart.model_validate({**file, **made, "modules": modules})


def taken() -> LockedTaken:
    file = {"filename": "torch-2.10.0+cu130-py3-none-any.whl", "sha256": "6" * 64, "size": 1000}
    return LockedTaken.model_validate({**file, "name": "torch", "version": "2.10.0+cu130", "base": base().digest})


def compiled(given: OnImage, *, modules: str = "", torch: LockedTaken | None = None) -> Plan:
    ours = load_lock(lock_path(RECIPE))
    lock = lock_on(base(), ours, on_image_digest(given))
    headers = tuple(one for one in ours.wheels.image["arm64"] if one.name.startswith("nvidia-cu"))
    lock = lock.model_copy(
        update={
            "sdists": {"flashinfer-python": part(modules)},
            "headers": (*headers, *((torch,) if torch else ())),
            "wheels": lock.wheels.model_copy(update={"tools": ours.wheels.tools}),
        }
    )
    toolkit = SHIPPED.toolkit
    smoke = {**toolkit.kernel_sets["flashinfer-smoke"], "flashinfer": ["0.6.7"]}
    sets = {**toolkit.kernel_sets, "flashinfer-smoke": smoke}
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", slim="none")
    return plan_on_image(given, load_recipe(RECIPE), lock, replace(toolkit, kernel_sets=sets), options)


GIVEN = OnImage(base=ImageBase(image=base().reference))
BOTH = GIVEN.model_copy(update={"kernels": "smoke", "own_kernels": "moe"})


def test_both_kinds_are_compiled_and_each_is_a_layer() -> None:
    plan = compiled(BOTH, modules=AOT, torch=taken())
    steps = {step.name: step for step in plan.steps}
    assert {"layer-flashinfer-jit-cache", "layer-gb10-kernels"} <= steps.keys()
    assert "6" * 64 in {file.sha256 for file in steps["gb10-kernels"].files}
    assert "6" * 64 not in {file.sha256 for file in steps["flashinfer-jit-cache"].files}
    assert (module_folder_of(plan, "flashinfer-jit-cache"), module_folder_of(plan, "gb10-kernels")) == (AOT, "")


def test_the_folder_is_in_the_key_of_the_layer_alone() -> None:
    given = GIVEN.model_copy(update={"kernels": "smoke"})
    one, two = compiled(given, modules=AOT), compiled(given)
    moved = {step.name for step in one.steps if two.step(step.name).key != step.key}
    assert moved == {"layer-flashinfer-jit-cache", "image", "proof"}


def test_our_kernels_alone_need_none_of_flashinfer_s() -> None:
    plan = compiled(GIVEN.model_copy(update={"own_kernels": "moe"}), torch=taken())
    assert [step.name for step in plan.of_kind("wheel")] == ["gb10-kernels"]


def test_what_is_compiled_decides_the_lock_and_an_older_lock_is_stale() -> None:
    assert len({on_image_digest(one) for one in (GIVEN, BOTH, GIVEN.model_copy(update={"kernels": "smoke"}))}) == 3


@pytest.mark.parametrize("path", ["aot", "/a/../b", "/a\nb"])
def test_a_lock_with_a_folder_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="modules"):
        part(path)


@pytest.mark.parametrize(
    ("cutlass", "versions", "said"),
    [
        ("4.4.2", {}, "need CUTLASS >=4.5,<4.8, and FlashInfer 0.6.7 of the image bundles 4.4.2"),
        ("", {}, "bundles none"),
        ("4.5.0", {"gb10-kernels": "0.1.0+gb10.a"}, "holds gb10-kernels 0.1.0"),
    ],
)
def test_an_image_that_cannot_take_our_kernels_is_refused(cutlass: str, versions: dict[str, str], said: str) -> None:
    lock = lock_on(base(), load_lock(lock_path(RECIPE)), "0" * 64)
    lock = lock.model_copy(update={"sdists": {"flashinfer-python": part(cutlass=cutlass)}})
    with pytest.raises(UsageError, match=said):
        check_own_kernels(BOTH, base(versions=versions), lock, SHIPPED.toolkit)


def test_a_lock_with_the_torch_of_an_image_is_read_back() -> None:
    lock = compiled(BOTH, torch=taken()).lock
    again = Lock.model_validate_json(lock.model_dump_json(by_alias=True))
    assert again.headers
    assert isinstance(again.headers[-1], LockedTaken)
    assert not isinstance(again.headers[0], LockedTaken)
