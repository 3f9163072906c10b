"""What a package's stage does around its build: Python and torch answer for the target, the wheel is checked."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.inside.compile import pack_package, package, package_backend
from gb10.inside.compile.pack_package import Built, cxxabi_floor, local, placed, platform_tag, read_built
from gb10.inside.compile.pack_wheel import Wheel
from gb10.inside.compile.package_backend import build_system, check_requirements, check_torch, compile_on_import, load
from gb10.inside.scan.binary import Binary, Unit

SPEC = "gb10.inside.compile.build_python"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A torch as its wheel lays it out, which cannot be started."""
    torch = tmp_path / "site/torch"
    files = {
        "__init__.py": "raise SystemExit('torch was started')\n",
        "version.py": "__version__ = '2.14.0+cu130'\ncuda = '13.0'\nhip = None\n",
        "torch_version.py": "from torch.version import __version__\n",
        "_appdirs.py": "",
        "utils/__init__.py": "raise SystemExit('torch.utils was started')\n",
        "utils/cpp_extension.py": (
            "import os\nfrom torch._utils_internal import get_file_path\n"
            "HERE = get_file_path('torch')\n"
            "def _import_module_from_library(name, folder, is_module):\n    raise SystemExit('loaded')\n"
            "def load(name, sources, verbose=False):\n"
            "    folder = os.environ['TORCH_EXTENSIONS_DIR']\n"
            "    open(f'{folder}/{name}.so', 'wb').write(b'library')\n"
            "    return _import_module_from_library(name, folder, True)\n"
        ),
    }
    for name, text in files.items():
        path = torch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "site"


def answered(site: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A Python of a package's build."""
    target = {"machine": "aarch64", "capability": [12, 1], "site": str(site), "meson": ""}
    hook = f"from {SPEC} import answer_for_target; answer_for_target()\n"
    own = {"GB10_TARGET": json.dumps(target), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **env}
    return subprocess.run(
        [sys.executable, "-c", hook + code], env=own, cwd=site.parent, capture_output=True, text=True, check=False
    )


def test_python_and_torch_answer_for_the_target(site: Path) -> None:
    code = "\n".join(
        (
            "import os, platform, torch",
            "from torch.utils import cpp_extension",
            "print(os.uname().machine, platform.machine(), torch.__version__, torch.version.cuda)",
            "print(torch.cuda.is_available(), torch.cuda.get_device_capability(), torch._C._GLIBCXX_USE_CXX11_ABI)",
            "print(torch.utils.cmake_prefix_path, cpp_extension.HERE, torch.cuda.get_device_properties(0).major)",
        )
    )
    found = answered(site, code)
    torch = site / "torch"
    assert found.stdout.split() == [
        *("aarch64", "aarch64", "2.14.0+cu130", "13.0", "True", "(12,", "1)", "True"),
        *(f"{torch}/share/cmake", str(torch), "12"),
    ], found.stderr


@pytest.mark.parametrize("what", ["torch.zeros(1)", "torch.cuda.nccl", "torch.utils.data", "torch._C.no_such"])
def test_what_a_running_torch_alone_has_is_an_error_that_names_it(site: Path, what: str) -> None:
    found = answered(site, f"import torch\n{what}")
    assert found.returncode == 1
    assert f"NotThereError: {what.partition('(')[0]} is asked while the package is built" in found.stderr


def test_a_module_that_compiles_on_import_is_compiled_and_not_loaded(site: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "pkg/util").mkdir(parents=True)
    for name, text in {
        "pkg/__init__.py": "raise SystemExit('the package was started')\n",
        "pkg/util/__init__.py": "raise SystemExit('so was its part')\n",
        "pkg/util/flags.py": "SOURCES = ['a.cu']\n",
        "pkg/ext.py": "from torch.utils.cpp_extension import load\nfrom .util.flags import SOURCES\n"
        "made = load(name='pkg_ext', sources=SOURCES)\n",
        "pkg/plain.py": "",
        "pkg/lost.py": "import no_such_module\n",
    }.items():
        (project / name).write_text(text, encoding="utf-8")
    (tmp_path / "extensions").mkdir()

    def run(module: str) -> subprocess.CompletedProcess[str]:
        code = (
            f"import os; os.chdir({str(project)!r})\nfrom pathlib import Path\n"
            f"from gb10.inside.compile.package_backend import compile_on_import\n"
            f"compile_on_import({module!r}, Path({str(tmp_path / 'out')!r}))"
        )
        return answered(site, code, TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions"))

    found = run("pkg.ext")
    assert found.returncode == 0, found.stderr
    (library,) = (tmp_path / "out/unpacked").glob("pkg_ext.*.so")
    assert library.read_bytes() == b"library"
    assert (tmp_path / "out/unpacked/pkg/util/flags.py").exists()
    assert "package: importing pkg.plain compiled nothing" in run("pkg.plain").stderr
    assert "package: pkg.lost cannot be imported here: No module named 'no_such_module'" in run("pkg.lost").stderr


def test_a_project_without_a_build_system_is_setuptools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"package: the source has no pyproject\.toml and no setup\.py"):
        build_system(Path("pyproject.toml"))
    Path("setup.py").touch()
    assert build_system(Path("pyproject.toml"))["build-backend"] == "setuptools.build_meta:__legacy__"
    Path("pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "mesonpy"\n', encoding="utf-8")
    assert build_system(Path("pyproject.toml"))["build-backend"] == "mesonpy"


def test_a_backend_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"package: the package's build backend is poetry\.core\.masonry\.api"):
        load({"build-backend": "poetry.core.masonry.api"})
    with pytest.raises(SystemExit, match="backend mesonpy cannot be imported: No module named 'mesonpy'"):
        load({"build-backend": "mesonpy"})
    (tmp_path / "own_backend.py").write_text("class Hooks:\n    build_wheel = None\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found: object = load({"build-backend": "own_backend:Hooks", "backend-path": ["."]})
    assert getattr(found, "__name__", "") == "Hooks"


def test_build_requirements_that_the_stage_lacks_are_named_together() -> None:
    given = ["packaging>=20", "torch", "ninja", 'colorama; sys_platform == "win32"']
    check_requirements(given)
    with pytest.raises(SystemExit, match=r"built with no-such-a, No\.Such_B, which this stage lacks"):
        check_requirements([*given, "no-such-a>=1", "No.Such_B[extra]"])


@pytest.mark.parametrize(
    ("wanted", "fits"), [("", True), (">=2.6", True), ("(>=2.6)", True), ("==2.9.1", False), ("<2.14", False)]
)
def test_another_torch_is_an_error(wanted: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.version", argparse.Namespace(__version__="2.14.0+cu130"))
    if fits:
        check_torch(wanted, "requires")
        return
    with pytest.raises(SystemExit, match=r"the package requires torch.*, the image has torch 2\.14\.0"):
        check_torch(wanted, "requires")


@pytest.mark.parametrize(
    ("requires", "fits"),
    [
        ([], True),
        (["numpy<1", "torch>=2.6", "torch==2.9.1; extra == 'test'"], True),
        (["numpy", "Torch (==2.9.1)"], False),
    ],
)
def test_what_a_built_wheel_requires_of_torch(
    tmp_path: Path, requires: list[str], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.version", argparse.Namespace(__version__="2.14.0+cu130"))
    rows = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: x\nVersion: 1\n{rows}")
    if fits:
        package_backend.check_requires(tmp_path / "x.whl")
        return
    with pytest.raises(SystemExit, match=r"the package requires torch.*, the image has torch 2\.14\.0"):
        package_backend.check_requires(tmp_path / "x.whl")


METADATA = "Metadata-Version: 2.1\nName: conv\nVersion: 1.0\nRequires-Dist: torch\n"
WHEEL = "Wheel-Version: 1.0\nTag: cp313-cp313-linux_aarch64\n"
FILES = {"conv/__init__.py": "", "conv-1.0.dist-info/METADATA": METADATA, "conv-1.0.dist-info/WHEEL": WHEEL}


def wheel(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "conv-1.0-cp313-cp313-linux_aarch64.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return folder


def test_the_key_is_in_the_version_and_in_every_name(tmp_path: Path) -> None:
    built = read_built(wheel(tmp_path, {**FILES, "conv-1.0.data/scripts/tool": "", "conv-1.0.dist-info/RECORD": ""}))
    assert (built.name, built.version, built.tags) == ("conv", "1.0", ("cp313-cp313-linux_aarch64",))
    assert "conv-1.0.dist-info/RECORD" not in built.files
    made = Wheel(package=built.name, version=local(built.version, "be68a2f6"), tag="t")
    assert {placed(name, built, made) for name in built.files} == {
        *("conv/__init__.py", "conv-1.0+gb10.be68a2f6.data/scripts/tool"),
        *(f"conv-1.0+gb10.be68a2f6.dist-info/{name}" for name in ("METADATA", "WHEEL")),
    }
    assert local("1.6.5+cu130.torch2", "00000012") == "1.6.5+cu130.torch2.gb10.12"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"conv/manifest.json": "{}"}, r"has a manifest\.json of its own at its top"),
        ({"../conv.py": ""}, r"outside of its folder"),
        ({"/etc/conv": ""}, r"outside of its folder"),
        ({"other-1.0.dist-info/METADATA": METADATA}, "has 2 folders of metadata"),
        ({"conv-1.0.dist-info/METADATA": METADATA.replace("1.0", "2.0")}, "folder has version 1.0, its METADATA 2.0"),
    ],
)
def test_a_wheel_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, str], says: str) -> None:
    with pytest.raises(SystemExit, match=says):
        read_built(wheel(tmp_path, {**FILES, **change}))


def test_no_wheel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="package: the build wrote 0 wheels, not one"):
        read_built(tmp_path)


def of_machine(library: Path) -> argparse.Namespace:
    return argparse.Namespace(built=library.parent, machine=os.uname().machine, arch="12.1a", glibc=39)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A real library of this machine, without GPU code."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    path = tmp_path / "lib.so"
    text = 'int puts(const char*); int conv(void) { return puts(""); }\n'
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)], input=text, text=True, check=True)
    return path


def test_a_library_says_what_it_holds(library: Path) -> None:
    options, content = of_machine(library), library.read_bytes()
    found = pack_package.module_of("conv/lib.so", content, options)
    assert (found["file"], found["cubins"], found["units"]) == ("conv/lib.so", [], 0)
    options.machine = "aarch64" if options.machine == "x86_64" else "x86_64"
    with pytest.raises(SystemExit, match=r"package: conv/lib\.so is for .*\nhint: its build takes a compiler"):
        pack_package.module_of("conv/lib.so", content, options)


@pytest.mark.parametrize(
    ("codes", "noted", "says"),
    [
        (("sm_121a",), "", ""),
        (("sm_121a", "sm_100f"), "compute_100f sm_100f\n", ""),
        (("sm_121a", "sm_100f"), "", r"holds sm_100f, sm_121a, not sm_121a alone"),
        (("sm_121a", "compute_80"), "", r"holds compute_80, sm_121a, not sm_121a alone"),
        (("sm_90a",), "compute_90a sm_90a\n", r"holds sm_90a, nothing of which is for 12\.1a"),
        (("compute_80",), "", r"nothing of which is for 12\.1a"),
    ],
)
def test_it_holds_the_arch_and_others_only_where_the_project_says_so(
    library: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[str, ...], noted: str, says: str
) -> None:
    options, machine = of_machine(library), os.uname().machine
    units = tuple(Unit(codes={code: 1}, count=1) for code in codes)
    read = Binary(path="a.so", kind="elf", size=1, machine=machine, units=units)
    monkeypatch.setattr(pack_package, "scan_file", lambda path, name: read)
    if noted:
        (library.parent / package.FOREIGN).write_text(noted, encoding="utf-8")
    if says:
        with pytest.raises(SystemExit, match=says):
            pack_package.module_of("a.so", b"", options)
    else:
        assert pack_package.module_of("a.so", b"", options)["cubins"] == sorted(codes)


def test_the_tag_has_the_glibc_that_it_needs_and_a_newer_one_is_refused(library: Path) -> None:
    options = of_machine(library)
    files = {"conv/lib.so": library.read_bytes()}
    built = Built(name="conv", version="1.0", tags=(f"cp313-cp313-linux_{options.machine}",), files=files)
    assert platform_tag(built, options) == f"cp313-cp313-manylinux_2_17_{options.machine}"
    options.glibc = 5
    with pytest.raises(SystemExit, match=r"needs glibc 2\.17, the image has 2\.5"):
        platform_tag(built, options)


@pytest.mark.parametrize(
    ("versions", "minor"),
    [
        (("GLIBC_2.38", "GLIBCXX_3.4.30", "CXXABI_1.3.9", "CXXABI_1.3.15"), 39),
        (("CXXABI_1.3.9", "CXXABI_1.3", "CXXABI_FLOAT128"), 24),
        (("GLIBC_2.17",), 17),
    ],
)
def test_the_tag_rises_to_the_policy_that_has_its_cxxabi(versions: tuple[str, ...], minor: int) -> None:
    assert cxxabi_floor(versions) == minor


def test_a_cxxabi_newer_than_every_policy_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"CXXABI_1\.3\.16 is newer than every known"):
        cxxabi_floor(("CXXABI_1.3.16",))


def test_a_wheel_for_every_machine_gets_the_python_of_its_extension(library: Path) -> None:
    options = of_machine(library)
    files = {f"ext.cpython-313-{options.machine}-linux-gnu.so": library.read_bytes()}
    built = Built(name="conv", version="1.0", tags=("py3-none-any",), files=files)
    assert platform_tag(built, options).startswith("cp313-cp313-manylinux_2_")


def test_every_library_and_symbol_is_found_or_named(library: Path, tmp_path: Path) -> None:
    options = of_machine(library)
    options.site, options.image = tmp_path / "site", tmp_path / "image"
    base = options.image / f"usr/lib/{options.machine}-linux-gnu"
    base.mkdir(parents=True)
    content = {"lib.so": library.read_bytes()}
    with pytest.raises(SystemExit, match=r"lib\.so needs libc\.so\.6, which neither[\s\S]*nothing offers puts"):
        pack_package.check_symbols(content, tmp_path, options)
    source = "int puts(const char *text) { return text != 0; }\nvoid __cxa_finalize(void *one) {}\n"
    libc = [
        "cc",
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-Wl,-soname,libc.so.6",
        "-x",
        "c",
        "-",
        "-o",
        str(base / "libc.so.6"),
    ]
    subprocess.run(libc, input=source, text=True, check=True)
    pack_package.check_symbols(content, tmp_path, options)


def test_what_cmake_and_meson_are_told_names_the_wrappers(tmp_path: Path) -> None:
    options = argparse.Namespace(work=tmp_path, site=tmp_path / "site", machine="aarch64", arch="12.1a", jobs=3)
    package.write_build_files(options)
    chain = (tmp_path / "toolchain.cmake").read_text(encoding="utf-8")
    assert f'set(CMAKE_CUDA_COMPILER "{tmp_path}/cuda/bin/nvcc")' in chain
    assert ('set(CMAKE_SYSTEM_PROCESSOR "aarch64")' in chain) == (os.uname().machine != "aarch64")
    assert f"cpp = '{tmp_path}/bin/c++'" in (tmp_path / "machine.ini").read_text(encoding="utf-8")
    told = package.target(options)
    assert (told["machine"], told["capability"]) == ("aarch64", [12, 1])


def test_the_backends_own_names_are_all_that_is_imported() -> None:
    assert set(package_backend.BACKENDS) >= {"setuptools.build_meta", "scikit_build_core.build"}
    assert compile_on_import.__module__ == package_backend.__name__
