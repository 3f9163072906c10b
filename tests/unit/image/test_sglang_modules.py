"""SGLang's build file for another machine: this machine's compilers, and files that have to be the image's."""

import shlex
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from gb10.inside.compile.compile_slots import memory_for
from tests.unit.engine_child import CHILD, fresh, stand_in

PACKAGE = "sglang.kernels.jit.utils.compile"

BUILD = """ninja_required_version = 1.3
cxx = c++
nvcc = /usr/local/cuda/bin/nvcc
cxxflags = -fPIC -std=c++20 -I/usr/lib/python3/tvm_ffi/include -I/image/usr/lib/python3/sglang/include
cudaflags = -Xcompiler -fPIC -gencode=arch=compute_121a,code=sm_121a -I/usr/lib/python3/tvm_ffi/include
ldflags = -shared -L/usr/lib/python3/tvm_ffi/lib -ltvm_ffi -L/usr/local/cuda/lib64 -lcudart

rule compile_cuda
  command = $nvcc -MD -MF "$out.d" $cudaflags -c "$in" -o "$out"

build cuda_0.o: compile_cuda cuda.cu
"""
WORK = Path("/caches/modules/sm121a/gemm/build-1/.work")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    stand_in(monkeypatch, f"{CHILD}.shared.kernel_calls", Noted=None)
    return fresh(monkeypatch, "sglang.jit_modules")


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    root = tmp_path / "image"
    (root / "usr/lib/gcc/aarch64-linux-gnu/14").mkdir(parents=True)
    return {
        "root": str(root),
        "toolkit": f"{root}/usr/lib/python3/nvidia/cu13",
        "home": "/tools/cu13",
        "cxx": "aarch64-linux-gnu-g++",
        "launch": "/rehearsal/launch.py",
    }


def test_compilers_are_this_machine_s_and_every_other_path_is_the_image_s(
    modules: ModuleType, image: dict[str, str]
) -> None:
    root = image["root"]
    lines = modules.crossed(image, BUILD.replace("/image", root), WORK).splitlines()
    given = dict(line.split(" = ", 1) for line in lines if " = " in line)
    assert given["cxx"].startswith("aarch64-linux-gnu-g++ -nostdinc ")
    assert " -IS /rehearsal/launch.py /tools/cu13/bin/nvcc -objtemp -ccbin aarch64-linux-gnu-g++ -X" in given["nvcc"]
    assert "-Xcompiler=-nostdinc++" in given["nvcc"]
    assert given["cudaflags"].count("sm_121a") == 1
    paths = [
        word[2:]
        for line in ("cxxflags", "cudaflags", "ldflags")
        for word in given[line].split()
        if word[:2] in ("-I", "-L")
    ]
    assert len(paths) == 5
    assert all(path.startswith(f"{root}/usr/") for path in paths)
    assert given["ldflags"].endswith(" -Wl,--strip-all")
    assert lines[-1] == "build cuda_0.o: compile_cuda cuda.cu"


def test_an_object_is_named_by_its_module_so_that_its_memory_is_known(
    modules: ModuleType, image: dict[str, str]
) -> None:
    lines = modules.crossed(image, BUILD, WORK).splitlines()
    (command,) = (line.partition(" = ")[2] for line in lines if line.startswith("  command = "))
    argv = shlex.split(command.replace("$out", "cuda_0.o"))
    costs = {"peaks": {"gemm": 8500}, "units": {}, "other": 1024}
    assert memory_for(costs, argv) == 8500
    assert memory_for({**costs, "peaks": {"rope": 8500}}, argv) == 1024


def test_headers_are_searched_as_the_image_s_compiler_does(modules: ModuleType, image: dict[str, str]) -> None:
    flags = modules.system_flags(Path(image["root"]))
    folders = [flag.removeprefix(f"-isystem{image['root']}") for flag in flags if flag.startswith("-isystem")]
    assert folders.index("/usr/local/include") == len(folders) - 3
    assert folders[0] == "/usr/include/c++/14"
    assert folders[-1] == "/usr/include"
    assert flags[:2] == ["-nostdinc", "-nostdinc++"]


def test_two_compilers_in_the_image_are_refused(modules: ModuleType, image: dict[str, str]) -> None:
    (Path(image["root"]) / "usr/lib/gcc/aarch64-linux-gnu/15").mkdir()
    with pytest.raises(ValueError, match="too many values"):
        modules.system_flags(Path(image["root"]))


def test_a_file_that_was_read_has_to_be_the_image_s(modules: ModuleType, image: dict[str, str], tmp_path: Path) -> None:
    own, theirs = tmp_path / "crt.h", Path(f"{image['root']}{tmp_path}/crt.h")
    theirs.parent.mkdir(parents=True)
    own.write_text("one")
    with pytest.raises(ValueError, match="the image's is another"):
        modules.twin(image, own)
    theirs.write_text("two")
    with pytest.raises(ValueError, match="the image's is another"):
        modules.twin(image, own)
    theirs.write_text("one")
    assert modules.twin(image, own) == theirs
    assert modules.twin(image, theirs) == theirs


def test_a_module_that_cannot_be_compiled_leaves_nothing_but_the_reason(
    modules: ModuleType, image: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*, spec: object, build_dir: Path, build_file: str) -> Path:
        build_dir.mkdir(parents=True)
        (build_dir / "cuda.cu").write_text("")
        raise RuntimeError("Failed to build\ncuda.cu(3): error: no such name\nninja: build stopped")

    engine = ModuleType(PACKAGE)
    engine.cache = SimpleNamespace()  # type: ignore[attr-defined]
    engine.ninja = SimpleNamespace(build=build, generate=lambda _: BUILD)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PACKAGE, engine)
    monkeypatch.setitem(sys.modules, "msgspec", ModuleType("msgspec"))
    scope, spec = tmp_path / "modules/sm121a/norm/build-1", SimpleNamespace(module_name="norm")
    modules.REQUESTED[scope] = spec
    modules.make(image)
    assert modules.LEFT == [{"what": "SGLang norm", "why": "RuntimeError: cuda.cu(3): error: no such name"}]
    assert (modules.MADE, list(scope.iterdir())) == ([], [])
    modules.LEFT.clear()
    modules.make({"unknown": "no g++ in the image"})
    assert modules.LEFT == [{"what": "SGLang norm", "why": "no g++ in the image"}]
