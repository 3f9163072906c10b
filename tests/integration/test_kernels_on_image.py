"""Kernels for an image of others, compiled from the FlashInfer that it holds, and our patches by its releases."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from gb10.containers.connection import Engine, client
from gb10.containers.images import read_folders, require_image
from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.image.base.base_reading import inspect_base
from gb10.image.build.stage import ready_engine
from gb10.image.build.wheels import build_wheels
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.recipe.arch import parse_arch
from gb10.inside.compile.aot import TORCH
from tests.integration.bases import PACKAGES, VERSIONS, Layout, Place, Tree, install, make_base
from tests.integration.nodes import Registry
from tests.integration.services import called, ran
from tests.integration.test_base import emulator as foreign_emulator

pytestmark = [pytest.mark.integration, pytest.mark.long]

FLASHINFER = "flashinfer-python==0.7.2.post1"
SITE = "/opt/venv/lib/python3.13/site-packages"
LIBRARY = f"{SITE}/flashinfer_jit_cache/modules/silu_and_mul/silu_and_mul.so"


@pytest.fixture(scope="module")
def engine(ctx: Context) -> Engine:
    return ready_engine(ctx)


@pytest.fixture(scope="module")
def base(ctx: Context, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image for a Spark with the whole FlashInfer of PyPI, in a venv."""
    own = Place(host=place.host, store=ctx.store, folder=tmp_path_factory.mktemp("base"))
    return make_base("venv", own, packages=(*PACKAGES, FLASHINFER, "apache-tvm-ffi==0.1.11"))


def test_a_kernel_is_compiled_from_what_the_base_holds_and_lies_where_its_python_looks(
    ctx: Context, engine: Engine, base: str, cuda_tools: Path, tmp_path: Path
) -> None:
    code, out, said = called("image", "--from", base, "--kernels", "smoke", "--json")
    assert code == 0, said
    tag = json.loads(out)["tags"][-1]
    found, _ = read_folders(engine, ctx.store, require_image(engine, tag), [LIBRARY])
    (tmp_path / "silu_and_mul.so").write_bytes(found[LIBRARY])
    listed = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(tmp_path / "silu_and_mul.so")])
    archs = {line.split("=")[1].strip() for line in listed.splitlines() if line.startswith("arch =")}
    assert archs == {"sm_121f"}
    assert found[LIBRARY][18] == 183  # aarch64
    assert json.loads(ran("image", "--from", base, "--kernels", "smoke", "--json"))["hit"]
    parts = json.loads(ran("show", tag, "--sbom"))["packages"]
    versions = {part["name"]: part.get("versionInfo", "") for part in parts}
    assert versions["flashinfer-jit-cache"].startswith("0.7.2.post1+gb10.")
    assert "is reproduced" in called("rebuild", tag)[2]


@pytest.mark.parametrize("layout", ["docker", "conda"])
def test_kernels_lie_in_the_packages_of_a_python_in_its_own_prefix(
    ctx: Context, engine: Engine, place: Registry, tmp_path: Path, layout: Layout
) -> None:
    """/usr/local and /opt/conda, as the images of others have them; the compiled module is the one of the venv."""
    own = Place(host=place.host, store=ctx.store, folder=tmp_path)
    base = make_base(layout, own, packages=(*PACKAGES, FLASHINFER, "apache-tvm-ffi==0.1.11"))
    site = inspect_base(ctx, base, "linux/arm64").installed["flashinfer-python"].folder
    assert site.startswith({"docker": "/usr/local/lib/", "conda": "/opt/conda/lib/"}[layout])
    code, out, said = called("image", "--from", base, "--kernels", "smoke", "--json")
    assert code == 0, said
    path = f"{site}/{LIBRARY.removeprefix(f'{SITE}/')}"
    found, _ = read_folders(engine, ctx.store, require_image(engine, json.loads(out)["tags"][-1]), [path])
    assert found[path][18] == 183  # aarch64


def test_a_recipe_locks_the_sources_that_the_base_holds(base: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"base: {{image: '{base}'}}\nkernels: smoke\npatches: [vllm]\n", encoding="utf-8")
    ran("lock", "--engine", str(path))
    lock = json.loads(path.with_suffix(".lock.json").read_text(encoding="utf-8"))
    assert lock["sdists"]["flashinfer-python"]["base"] == base.rpartition("@")[2]
    assert ran("lock", "--engine", str(path), "--check") == ""
    code, out, said = called("plan", "--engine", str(path), "--json")
    assert code == 0, said
    plan = json.loads(out)
    assert "our patches for vllm 0.33.0: " in said
    assert {one["source"] for one in plan["patches"]} >= {"vllm", "flashinfer"}
    steps = {step["name"]: step for step in plan["steps"]}
    assert lock["sdists"]["flashinfer-python"]["sha256"] in {
        file["sha256"] for file in steps["flashinfer-jit-cache"]["files"]
    }
    wheel = steps["flashinfer-jit-cache"]["key"]
    assert wheel == next(
        step["key"]
        for step in json.loads(ran("plan", "--from", base, "--kernels", "smoke", "--json"))["steps"]
        if step["name"] == "flashinfer-jit-cache"
    )


LOCK = load_lock(lock_path(ROOT / "recipes/images/vllm.yaml"))
IMPORTED = {"certifi", "charset-normalizer", "filelock", "idna", "nvidia-ml-py", "requests", "urllib3"}
LOADING = (
    *PACKAGES,
    "apache-tvm-ffi==0.1.11",
    *(f"{one.name}=={one.version}" for one in LOCK.wheels.tools["arm64"] if one.name in IMPORTED),
    *(f"{one.name}=={one.version}" for one in LOCK.wheels.image["arm64"] if one.name == "nvidia-cuda-runtime"),
)
"""What FlashInfer's loader imports, and the library that its modules are linked against; torch is our stand-in."""
PAIR = {"silu_and_mul": "silu", "gelu_and_mul": "gelu"}
LOADER = """
import ctypes, json, pathlib, sys, types
from importlib.metadata import distribution
sys.modules["torch"] = None  # the base's is METADATA alone, and ours is no torch to tvm_ffi
import tvm_ffi
del sys.modules["torch"]
sys.path.insert(0, "/torch")
site = pathlib.Path(distribution("flashinfer-python").locate_file(""))
ctypes.CDLL(str(next(site.glob("nvidia/cu13/lib/libcudart.so.*"))), mode=ctypes.RTLD_GLOBAL)
package = types.ModuleType("flashinfer")
package.__path__ = [str(site / "flashinfer")]
sys.modules["flashinfer"] = package
from flashinfer.jit.activation import gen_act_and_mul_module
found = {}
for name in ("silu", "gelu"):
    try:
        gen_act_and_mul_module(name).build_and_load()
        found[name] = ""
    except Exception as error:
        found[name] = type(error).__name__
for line in open("/proc/self/maps"):
    for name in found:
        if line.rstrip().endswith(f"/{name}_and_mul.so"):
            found[name] = line.split()[-1]
print(json.dumps(found))
"""
"""Loads two modules by FlashInfer's own loader; prints the file that the kernel has mapped of each."""
SHIM = """
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import SimpleNamespace

__version__ = "{version}"


def get_jit_cache_providers():
    return tuple(SimpleNamespace(provider_id=one.name, **one.load()()) for one in entry_points(group="{group}"))
"""
PROVIDER = """
from pathlib import Path


def provider():
    return {{
        "distribution": "flashinfer-jit-cache-sm120f",
        "version": "{version}",
        "jit_cache_dir": Path(__file__).parent / "jit_cache",
        "cuda_architectures": frozenset(["sm120f"]),
        "modules": frozenset({modules}),
    }}
"""
FOLDER = """
from pathlib import Path

__version__ = "{version}"


def get_jit_cache_dir():
    return str(Path(__file__).parent / "jit_cache")
"""
GROUP = "flashinfer.jit_cache.providers"


@pytest.fixture(scope="module")
def pair(ctx: Context) -> Callable[[str, str], Path]:
    """Two modules of a release of FlashInfer for 12.0f and a platform, compiled: a GB10 runs them, too."""

    def make(release: str, platform: str) -> Path:
        recipe, toolkit = load_recipe(ROOT / "recipes/images/vllm.yaml"), ctx.catalog.toolkit
        entry = toolkit.kernel_sets["flashinfer-smoke"]["module"][0]
        modules = [{**entry, "name": name, "arguments": [kind]} for name, kind in PAIR.items()]
        sets = {**toolkit.kernel_sets, "flashinfer-pair": {"name": "pair", "flashinfer": [release], "module": modules}}
        wheel = recipe.wheels["flashinfer-jit-cache"].model_copy(update={"kernels": "pair"})
        recipe = recipe.model_copy(update={"wheels": {"flashinfer-jit-cache": wheel}})
        options = Options(arch=parse_arch("12.0f"), platform=platform, build=build_architecture())
        plan = plan_image(recipe, LOCK, replace(toolkit, kernel_sets=sets), options)
        return build_wheels(ctx, plan, lambda: ready_engine(ctx), rebuild=())[0].path

    return make


def jit_cache(wheel: Path, site: str, release: str, folder: Path, *, legacy: bool) -> Tree:
    """flashinfer-jit-cache as its project lays it out, with modules of a wheel of ours: one folder that the package
    names, as before 0.7.0; or a package without modules beside a distribution that an entry point finds.
    """
    owner = "flashinfer_jit_cache" if legacy else "flashinfer_jit_cache_sm120f"
    with ZipFile(wheel) as archive:
        for name in PAIR:
            place = folder / owner / "jit_cache" / name / f"{name}.so"
            place.parent.mkdir(parents=True)
            place.write_bytes(archive.read(f"flashinfer_jit_cache/modules/{name}/{name}.so"))
    version, texts = f"{release}+cu130", dict[str, str]()
    shim = FOLDER.format(version=version) if legacy else SHIM.format(version=version, group=GROUP)
    texts["flashinfer_jit_cache/__init__.py"] = shim
    texts[f"flashinfer_jit_cache-{version}.dist-info/METADATA"] = f"Name: flashinfer-jit-cache\nVersion: {version}\n"
    if not legacy:
        texts[f"{owner}/__init__.py"] = PROVIDER.format(version=version, modules=sorted(PAIR))
        info = f"{owner}-{version}.dist-info"
        texts[f"{info}/METADATA"] = f"Name: flashinfer-jit-cache-sm120f\nVersion: {version}\n"
        texts[f"{info}/entry_points.txt"] = f"[{GROUP}]\nsm120f = {owner}:provider\n"
    return Tree(folders={site: folder}, texts={f"{site}/{path}": text for path, text in texts.items()})


def loaded(engine: Engine, store: Store, reference: str, platform: str) -> dict[str, str]:
    """By module the file that FlashInfer's loader takes in a container; the loader's error where it has none."""
    shown = {str(TORCH): {"bind": "/torch", "mode": "ro"}}
    start = ["/opt/venv/bin/python3"]
    if platform != f"linux/{build_architecture()}":
        shown[str(foreign_emulator(store))] = {"bind": "/qemu", "mode": "ro"}
        start = ["/qemu", "-E", "LD_LIBRARY_PATH=", *start]
    with closing(client(engine)) as sdk:
        said: bytes = sdk.containers.run(
            reference,
            [*start[1:], "-B", "-c", LOADER],
            entrypoint=start[:1],
            platform=platform,
            remove=True,
            network_mode="none",
            volumes=shown,
            environment={
                "FLASHINFER_CUDA_ARCH_LIST": "12.1f",
                "FLASHINFER_WORKSPACE_BASE": "/tmp",  # noqa: S108 - of the container
                "FLASHINFER_DISABLE_JIT": "1",
            },
        )
    found: dict[str, str] = json.loads(said.decode().splitlines()[-1])
    return found


AOT = f"{SITE}/flashinfer/data/aot"
MISSING = "MissingJITCacheError"
NATIVE = f"linux/{build_architecture()}"
OTHER = "linux/arm64" if NATIVE == "linux/amd64" else "linux/amd64"


@dataclass(frozen=True)
class Case:
    """A base's FlashInfer, whether it has flashinfer-jit-cache, and what its loader takes: on the base, with ours."""

    release: str
    platform: str
    cached: bool
    before: dict[str, str]
    after: dict[str, str]


def modules(silu: str, gelu: str) -> dict[str, str]:
    return {
        kind: f"{place}/{kind}_and_mul/{kind}_and_mul.so" if place.startswith("/") else place
        for kind, place in (("silu", silu), ("gelu", gelu))
    }


PROVIDED, LEGACY = f"{SITE}/flashinfer_jit_cache_sm120f/jit_cache", f"{SITE}/flashinfer_jit_cache/jit_cache"
CASES = [
    Case("0.7.2.post1", NATIVE, True, modules(PROVIDED, PROVIDED), modules(AOT, PROVIDED)),
    Case("0.7.2.post1", OTHER, True, modules(PROVIDED, PROVIDED), modules(AOT, PROVIDED)),
    Case("0.6.18", NATIVE, False, modules(MISSING, MISSING), modules(AOT, MISSING)),
    Case("0.6.18", NATIVE, True, modules(LEGACY, LEGACY), modules(LEGACY, LEGACY)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.release}-{one.platform[6:]}-{one.cached}")
def test_the_loader_of_the_base_takes_our_module_and_keeps_its_others(  # noqa: PLR0917 - fixtures
    ctx: Context, engine: Engine, place: Registry, pair: Callable[[str, str], Path], case: Case, tmp_path: Path
) -> None:
    """Theirs would fit a GB10, too. The base's own Python and FlashInfer decide; arm64 by qemu."""

    def theirs(site: str) -> Tree:
        return jit_cache(
            pair("0.7.2.post1", case.platform), site, case.release, tmp_path / "theirs", legacy="0.6" in case.release
        )

    own = Place(host=place.host, store=ctx.store, folder=tmp_path)
    packages = (*LOADING, f"flashinfer-python=={case.release}")
    base = make_base(
        "venv", own, platform=case.platform, packages=packages, above=theirs if case.cached else None, engine=""
    )
    code, out, said = called("image", "--from", base, "--platform", case.platform, "--kernels", "smoke", "--json")
    assert code == 0, said
    tag = json.loads(out)["tags"][-1]
    assert loaded(engine, ctx.store, base, case.platform) == case.before
    assert loaded(engine, ctx.store, tag, case.platform) == case.after
    path = case.after["silu"]
    (ours,) = read_folders(engine, ctx.store, require_image(engine, tag), [path])[0].values()
    assert ours != (read_folders(engine, ctx.store, require_image(engine, base), [path])[0] or {path: b""})[path]
    assert ("where FlashInfer" in said) == bool(case.cached or "0.6" in case.release)


OWN = f"{SITE}/gb10_kernels/modules/gb10_moe/gb10_moe.so"


@pytest.fixture(scope="module")
def with_torch(ctx: Context, place: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image for a Spark with the whole torch and FlashInfer of PyPI."""
    own = Place(host=place.host, store=ctx.store, folder=tmp_path_factory.mktemp("with-torch"))
    packages = (*PACKAGES, FLASHINFER, "apache-tvm-ffi==0.1.11", f"torch=={VERSIONS['torch']}")
    return make_base("venv", own, packages=packages, name="bases/with-torch")


def symbols(library: Path, *, defined: bool) -> set[str]:
    """The dynamic symbols that a library exports, or that it asks others for, as readelf lists them."""
    lines = capture(["readelf", "--dyn-syms", "-W", str(library)]).splitlines()
    rows = (line.split() for line in lines if line.strip()[:1].isdigit())
    return {row[7].partition("@")[0] for row in rows if len(row) > 7 and (row[6] != "UND") == defined}


@pytest.mark.slow
def test_our_kernels_are_compiled_against_the_torch_of_the_base_and_our_patch_calls_them(
    ctx: Context, engine: Engine, with_torch: str, cuda_tools: Path, tmp_path: Path
) -> None:
    code, _, said = called("image", "--from", with_torch, "--kernels", "gb10-moe")
    assert code == 2
    assert "nothing in the image would call our kernels moe" in said
    assert "--patch vllm" in said
    code, out, said = called("image", "--from", with_torch, "--patch", "vllm", "--kernels", "gb10-moe", "--json")
    assert code == 0, said
    tag = json.loads(out)["tags"][-1]
    folders = (OWN, f"{SITE}/vllm/_custom_ops.py", f"{SITE}/gb10_kernels/manifest.json")
    found, _ = read_folders(engine, ctx.store, require_image(engine, tag), folders)
    (tmp_path / "own.so").write_bytes(found[OWN])
    listed = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(tmp_path / "own.so")])
    assert {line.split("=")[1].strip() for line in listed.splitlines() if line.startswith("arch =")} == {"sm_121f"}
    assert b"import gb10_kernels" in found[folders[1]]
    assert json.loads(found[folders[2]])["torch"] == VERSIONS["torch"]
    install(tmp_path / "torch", [f"torch=={VERSIONS['torch']}"], "linux/arm64")  # what the base was made of
    libraries = [tmp_path / f"torch/torch/lib/lib{name}.so" for name in ("torch_cpu", "torch_cuda")]
    exported = set[str]().union(*(symbols(path, defined=True) for path in libraries))
    own = symbols(tmp_path / "own.so", defined=False)
    asked = {name for name in own if name.startswith(("aoti_torch_", "torch_"))}
    assert asked
    assert asked <= exported
    assert "is reproduced" in called("rebuild", tag)[2]
