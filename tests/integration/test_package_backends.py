"""Small projects of each kind for real: scikit-build-core, meson-python, setuptools without torch, a CMake library."""

import hashlib
import io
import os
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.wheels import Wheel, build_wheels, installable, make_grafts
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.lock.relock import resolve_lock
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.proof.reading import scan_path
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Source, WheelBuild
from gb10.image.recipe.locked import LockedSdist

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RECIPE = ROOT / "recipes/images/vllm.yaml"
NVTX = "nvidia/cu13/lib/libnvtx3interop.so.1"
HEADERS = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvtx")
KERNEL = """
__global__ void add(float *a, float b) { a[threadIdx.x] += b; }
extern "C" void tiny_add(float *a, float b) { add<<<1, 32>>>(a, b); }
"""
MODULE = """
#include <Python.h>
extern "C" void tiny_add(float *a, float b);
static PyObject *run(PyObject *, PyObject *) { tiny_add(nullptr, 1); Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"add", run, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tiny", "", -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_tiny() { return PyModule_Create(&module); }
"""
PLAIN = """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tiny", "", -1, nullptr, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_tiny() { return PyModule_Create(&module); }
"""
COPY = """
#include <string.h>
extern "C" size_t tiny_copy(char *to, const char *from) { return strlcpy(to, from, 8); }
"""
"""glibc has it since 2.38."""
METADATA = '[project]\nname = "tiny"\nversion = "0.1"\n'
PROJECTS = {
    "scikit": {
        "pyproject.toml": "[build-system]\nrequires = ['scikit-build-core']\n"
        "build-backend = 'scikit_build_core.build'\n" + METADATA,
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.26)\nproject(tiny LANGUAGES CXX CUDA)\n"
        "find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)\n"
        "find_package(CUDAToolkit REQUIRED)\n"
        "python_add_library(tiny MODULE tiny.cu module.cpp WITH_SOABI)\n"
        "target_link_libraries(tiny PRIVATE CUDA::cudart)\ninstall(TARGETS tiny DESTINATION .)\n",
        "tiny.cu": KERNEL,
        "module.cpp": MODULE,
    },
    "meson": {
        "pyproject.toml": '[build-system]\nrequires = ["meson-python"]\nbuild-backend = "mesonpy"\n' + METADATA,
        "meson.build": "project('tiny', 'cpp', 'cuda', version: '0.1')\n"
        "py = import('python').find_installation(pure: false)\n"
        "py.extension_module('tiny', 'tiny.cu', 'module.cpp', install: true,\n"
        "  dependencies: [dependency('cuda', modules: ['cudart'])])\n",
        "tiny.cu": KERNEL,
        "module.cpp": MODULE,
    },
    "plain": {
        "setup.py": "from setuptools import Extension, setup\n"
        "setup(name='tiny', version='0.1', ext_modules=[Extension('tiny', ['module.cpp'])])\n",
        "module.cpp": PLAIN,
    },
    "library": {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.26)\nproject(tiny LANGUAGES CXX CUDA)\n"
        "add_library(tiny SHARED tiny.cu)\nset_target_properties(tiny PROPERTIES SOVERSION 1)\n"
        "install(TARGETS tiny DESTINATION lib)\n",
        "tiny.cu": KERNEL + COPY,
    },
    "online": {
        "setup.py": "from urllib.request import urlopen\nurlopen('https://example.com/tiny.whl')\n",
        "a.cpp": "",
    },
}
COMMANDS = (
    ("cmake", "-S", ".", "-B", "made", "-DCMAKE_INSTALL_PREFIX=$PREFIX"),
    ("cmake", "--build", "made"),
    ("cmake", "--install", "made"),
)
TOOLS = {
    "scikit": ("scikit-build-core", "cmake", "pathspec"),
    "meson": ("meson-python", "meson", "pyproject-metadata"),
    "plain": ("setuptools",),
    "library": ("cmake",),
    "online": ("setuptools",),
}


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


def source_archive(store: Store, name: str) -> LockedSdist:
    """A project's source archive in the store, as if it were downloaded."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for path, text in PROJECTS[name].items():
            info = tarfile.TarInfo(f"{name}-0.1/{path}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    content = written.getvalue()
    sha256 = hashlib.sha256(content).hexdigest()
    file = LockedSdist(name=name, version="0.1", filename=f"{name}-0.1.tar.gz", sha256=sha256, size=len(content))
    folder = store.entry("downloads", sha256)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file.filename).write_bytes(content)
    return file


@pytest.fixture(scope="module")
def plan(ctx: Context) -> Plan:
    """The shipped recipe with these projects alone; their tools are resolved as its own."""
    shipped, old = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    tools = tuple(dict.fromkeys((*shipped.tools, *(tool for own in TOOLS.values() for tool in own))))
    bare = shipped.model_copy(update={"wheels": {}, "sources": {}, "patches": (), "tools": tools})
    lock = resolve_lock(bare, old, store=ctx.store, env=ctx.env)
    whole = {"method": "library", "replaces": "nvidia-nvtx", "commands": COMMANDS, "files": {NVTX: "lib/libtiny.so.1"}}
    wheels = {
        name: WheelBuild.model_validate(
            {
                **(whole if name == "library" else {"method": "package"}),
                "source": name,
                "tools": own,
                "headers": HEADERS,
            }
        )
        for name, own in TOOLS.items()
    }
    recipe = shipped.model_copy(
        update={
            "repository": "gb10/test",
            "wheels": wheels,
            "sources": {name: Source(sdist=f"{name}==0.1") for name in TOOLS},
            "patches": (),
        }
    )
    lock = lock.model_copy(update={"sdists": {name: source_archive(ctx.store, name) for name in TOOLS}})
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build=build_architecture())
    return plan_image(recipe, lock, ctx.catalog.toolkit, options)


def compiled(ctx: Context, plan: Plan, name: str) -> Wheel:
    alone = replace(plan, steps=tuple(step for step in plan.steps if step.kind != "wheel" or step.name == name))
    return build_wheels(ctx, alone, lambda: connect_or_start(ctx.env, ctx.store), rebuild=())[0]


def extension(wheel: Wheel, folder: Path) -> Path:
    """The extension of a wheel, by the name that the image's Python looks for."""
    assert "-cp313-cp313-manylinux_2_" in wheel.path.name
    assert wheel.path.name.endswith("_aarch64.whl")
    with zipfile.ZipFile(wheel.path) as archive:
        return Path(archive.extract("tiny.cpython-313-aarch64-linux-gnu.so", folder))


@pytest.mark.parametrize("name", ["scikit", "meson"])
def test_each_backend_compiles_for_the_arch_alone(
    ctx: Context, plan: Plan, cuda_tools: Path, tmp_path: Path, name: str
) -> None:
    library = extension(compiled(ctx, plan, name), tmp_path)
    text = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(library)])
    assert {line.split("=")[1].strip() for line in text.splitlines() if line.startswith("arch =")} == {"sm_121a"}


def test_setuptools_compiles_what_has_no_gpu_code(ctx: Context, plan: Plan, tmp_path: Path) -> None:
    (library,) = scan_path(extension(compiled(ctx, plan, "plain"), tmp_path).parent).binaries
    assert (library.machine, library.error, library.codes) == ("aarch64", "", {})


def test_a_library_goes_into_the_locked_wheel(ctx: Context, plan: Plan) -> None:
    made = compiled(ctx, plan, "library")
    assert installable(plan, [made]) == ()
    (graft,) = make_grafts(ctx, plan, [plan.step("graft-nvidia-nvtx")])
    with zipfile.ZipFile(made.path) as ours, zipfile.ZipFile(graft.path) as wheel:
        assert wheel.read(NVTX) == ours.read(NVTX)
        assert len(wheel.namelist()) > 10
    before = parse_wheel_filename(plan.step("graft-nvidia-nvtx").files[0].filename)[3]
    assert {one.platform for one in before} == {"manylinux2014_aarch64", "manylinux_2_17_aarch64"}
    assert {one.platform for one in parse_wheel_filename(graft.path.name)[3]} == {"manylinux_2_38_aarch64"}


def test_what_wants_to_download_is_one_error(ctx: Context, plan: Plan) -> None:
    with pytest.raises(BuildError, match="the package wants to download while it is built") as caught:
        compiled(ctx, plan, "online")
    assert "environment in the recipe" in (caught.value.hint or "")
