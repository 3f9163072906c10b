"""Our reader of GPU code against NVIDIA's: cuobjdump lists what scan.py lists, and ptxas made what scan.py says.

ptxas and fatbinary are called as nvcc calls them: nvcc itself wants a host compiler even for a cubin. What nvcc
made with one is in tests/unit/data/scan.
"""

import re
import struct
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.image.build.contexts import scanner_files
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import findings
from gb10.image.proof.reading import read_scan, scan_path
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.binary import scan_file

pytestmark = pytest.mark.integration

MADE_BY_NVCC = Path(__file__).parents[1] / "unit" / "data" / "scan"
ARCHES = ("90", "90a", "100a", "100f", "120", "120a", "120f", "121", "121a", "121f")
MODES = ("none", "default", "size", "speed", "balance")
LISTED = re.compile(r"\.sm_([0-9]+[af]?)\.(cubin|ptx)$", re.MULTILINE)


def ptx(arch: str) -> str:
    """A kernel that stores one number."""
    return (
        f".version 9.0\n.target sm_{arch}\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
        "{ .reg .b64 %a; .reg .f32 %f; ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a;"
        " mov.f32 %f, 0f3F800000; st.global.f32 [%a], %f; ret; }\n"
    )


def compiled(tools: Path, folder: Path, arch: str) -> tuple[Path, Path]:
    """The PTX and the cubin of that kernel."""
    source, cubin = folder / f"{arch}.ptx", folder / f"{arch}.cubin"
    source.write_text(ptx(arch))
    capture([str(tools / "bin" / "ptxas"), f"-arch=sm_{arch}", "-m64", str(source), "-o", str(cubin)])
    return source, cubin


def listed(tools: Path, path: Path) -> Counter[str]:
    """What cuobjdump lists, in our words; it says where it finds nothing of a kind on stderr, with status 0 or 255."""
    found: Counter[str] = Counter()
    text = "".join(capture([str(tools / "bin" / "cuobjdump"), "-all", flag, str(path)]) for flag in ("-lelf", "-lptx"))
    for arch, kind in LISTED.findall(text):
        found[("sm_" if kind == "cubin" else "compute_") + arch] += 1
    return found


def without_family(codes: dict[str, int]) -> Counter[str]:
    """cuobjdump calls a family's SASS by its plain name."""
    found: Counter[str] = Counter()
    for code, count in codes.items():
        found[code.removesuffix("f") if code.startswith("sm_") else code] += count
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_a_cubin_is_told_by_its_headers(arch: str, cuda_tools: Path, tmp_path: Path) -> None:
    _, cubin = compiled(cuda_tools, tmp_path, arch)
    assert scan_file(cubin, "k").codes == {f"sm_{arch}": 1}
    dump = capture([str(cuda_tools / "bin" / "cuobjdump"), "-elf", str(cubin)])
    assert f"-arch sm_{arch} " in dump or f"-arch=sm_{arch} " in dump
    assert f"sm={arch.removesuffix('f')}," in dump


@pytest.mark.parametrize("mode", MODES)
def test_a_fatbin_holds_what_went_in(mode: str, cuda_tools: Path, tmp_path: Path) -> None:
    images: list[str] = []
    for arch in ("90a", "120f", "121a"):
        source, cubin = compiled(cuda_tools, tmp_path, arch)
        images += [f"--image3=kind=elf,sm={arch},file={cubin}", f"--image3=kind=ptx,sm={arch},file={source}"]
    fatbin = tmp_path / "k.fatbin"
    capture([str(cuda_tools / "bin" / "fatbinary"), f"--create={fatbin}", "-64", f"--compress-mode={mode}", *images])
    binary = scan_file(fatbin, "k")
    assert binary.codes == {f"{kind}_{arch}": 1 for kind in ("compute", "sm") for arch in ("120f", "121a", "90a")}
    assert without_family(binary.codes) == listed(cuda_tools, fatbin)


@pytest.mark.parametrize("path", [*sorted(MADE_BY_NVCC.glob("*.o")), MADE_BY_NVCC / "libk.so"], ids=lambda p: p.name)
def test_an_object_of_nvcc(path: Path, cuda_tools: Path) -> None:
    codes = {code: count for code, count in scan_file(path, "k").codes.items() if not code.startswith("lto")}
    assert without_family(codes) == listed(cuda_tools, path)


def test_a_library_of_nvidia(cuda_tools: Path) -> None:
    library = cuda_tools / "lib" / "libnvjpeg.so.13"
    binary = scan_file(library, "k")
    assert binary.codes["sm_121"] > 0
    assert binary.versions["GLIBC"]
    assert without_family(binary.codes) == listed(cuda_tools, library)


@pytest.mark.parametrize("says", ["120", "121", "121a", "121f"])
@pytest.mark.parametrize("holds", ["120", "121", "121a", "121f"])
def test_a_fatbin_that_labels_a_cubin_for_another_arch(says: str, holds: str, cuda_tools: Path, tmp_path: Path) -> None:
    """fatbinary checks the number alone, so a wrong suffix is real output; a wrong number is patched in."""
    _, cubin = compiled(cuda_tools, tmp_path, holds)
    fatbin, number = tmp_path / "k.fatbin", holds.rstrip("af")
    label = number + says.lstrip("0123456789")
    create = [str(cuda_tools / "bin" / "fatbinary"), f"--create={fatbin}", "-64", "--compress-mode=none"]
    capture([*create, f"--image3=kind=elf,sm={label},file={cubin}"])
    content = bytearray(fatbin.read_bytes())
    struct.pack_into("<I", content, 16 + 28, int(says.rstrip("af")))
    fatbin.write_bytes(content)
    found = scan_path(fatbin).binaries[0]
    assert found.codes == ({f"sm_{holds}": 1} if says == holds else {})
    assert found.error == (
        "" if says == holds else f"the fatbin entry at 0x10 is for sm_{says}, its cubin for sm_{holds}"
    )


def test_compressed_cubins_with_another_label(cuda_tools: Path, tmp_path: Path) -> None:
    """Of a compressed cubin only the ``a`` is compared, as the help of verify says."""
    fatbin = tmp_path / "k.fatbin"
    for holds, says, error in (("121a", "121f", "its cubin for sm_121a"), ("121f", "121", "")):
        _, cubin = compiled(cuda_tools, tmp_path, holds)
        cubin.write_bytes(cubin.read_bytes() + bytes(1 << 16))  # so that compression pays
        create = [str(cuda_tools / "bin" / "fatbinary"), f"--create={fatbin}", "-64", "--compress-mode=size"]
        capture([*create, f"--image3=kind=elf,sm={says},file={cubin}"])
        assert fatbin.stat().st_size < cubin.stat().st_size / 2
        assert scan_file(fatbin, "k").error.endswith(error)
        assert bool(scan_file(fatbin, "k").error) == bool(error)


def test_a_library_of_two_archs_bears_out_a_claim_and_is_not_only_that(cuda_tools: Path, tmp_path: Path) -> None:
    images = []
    for arch in ("120", "121f"):
        _, cubin = compiled(cuda_tools, tmp_path, arch)
        images.append(f"--image3=kind=elf,sm={arch},file={cubin}")
    fatbin = tmp_path / "k.fatbin"
    capture([str(cuda_tools / "bin" / "fatbinary"), f"--create={fatbin}", "-64", *images])
    gb10 = parse_arch("12.1f")
    subject = Subject(scan=scan_path(fatbin), claims={"--claim": gb10})
    assert findings(subject) == []
    assert [check.name for check, _ in findings(replace(subject, only=gb10))] == ["only"]


def test_the_scanner_runs_as_one_file(cuda_tools: Path, tmp_path: Path) -> None:
    script = tmp_path / "scan.py"
    script.write_bytes(scanner_files(Catalog(ROOT).contents)[script.name])
    text = capture([sys.executable, "-I", str(script), str(cuda_tools)])
    found = {binary.path: binary for binary in read_scan(text, "scan.py").binaries}
    assert found["lib/libnvjpeg.so.13"].soname == "libnvjpeg.so.13"
    assert not any(binary.error for binary in found.values())
