"""Inside a build stage: the wheel that package.py built, checked, with a key in its version and bytes that repeat.

    pack_package.py --built DIR --site DIR --image DIR --arch 12.1a --key KEY8 --machine aarch64 --glibc MINOR
                    --epoch SECONDS --out DIR

Each ELF must be for the machine, hold GPU code for the arch alone or none, need no newer glibc than the image has, and
find its libraries and symbols in Python, the image's torch and CUDA (SITE) and its base (IMAGE). The manifest has what
each one holds. Archive, hashes and platform tag are pack_wheel.py's.
"""

import argparse
import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path

from gb10.inside.compile import package
from gb10.inside.compile.pack_wheel import MACHINES, Wheel, glibc_minor, local_version, needed_versions, pack
from gb10.inside.compile.package_backend import refused
from gb10.inside.scan.binary import mapped, scan_file
from gb10.inside.scan.elf import ELF_MAGIC, DamagedError
from gb10.inside.scan.linkage import Linkage, read_linkage

MANIFEST = "manifest.json"
INFO = re.compile(r"([^/]+)\.dist-info/")
BEFORE = ("libtorch_python.so", "libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch.so")
"""``import torch`` comes first; an extension that needs one of these finds the others, which that one needs."""
LISTED = 10
CXXABI = {7: 17, 10: 24, 11: 26, 12: 31, 13: 34, 15: 39}
"""The first manylinux policy whose libstdc++ has each CXXABI_1.3.N, as pack_wheel.py has it for GLIBCXX."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The files of a wheel by name, without those that are written anew."""

    name: str
    version: str
    tags: tuple[str, ...]
    files: dict[str, bytes] = field(repr=False)

    @property
    def libraries(self) -> dict[str, bytes]:
        """Its ELF files."""
        return {name: content for name, content in sorted(self.files.items()) if content[:4] == ELF_MAGIC}


def main() -> None:
    """Parse, read, check, write."""
    options = parse()
    built = read_built(options.built)
    work = options.built / "libraries"
    modules = {name: module_of(name, content, options) for name, content in built.libraries.items()}
    check_symbols(built.libraries, work, options)
    tag = platform_tag(built, options)
    wheel = Wheel(package=built.name, version=local(built.version, options.key), tag=tag)
    manifest = {"set": "package", "arch": options.arch, "modules": modules}
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    (options.built / MANIFEST).write_text(text, encoding="utf-8")
    files = {placed(name, built, wheel): content for name, content in built.files.items()}
    metadata = files[f"{wheel.info}/METADATA"]
    files[f"{wheel.info}/METADATA"] = re.sub(
        rb"(?m)^Version:.*$", f"Version: {wheel.version}".encode(), metadata, count=1
    )
    files |= {f"{wheel.info}/{MANIFEST}": text.encode(), **wheel.marks}
    options.out.mkdir(parents=True, exist_ok=True)
    pack(options.out / wheel.filename, files, wheel, epoch=options.epoch)
    print(wheel.filename, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("built", "site", "image", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--machine", choices=sorted(MACHINES), required=True)
    parser.add_argument("--glibc", type=int, required=True, help="N of the newest glibc 2.N that the image loads")
    parser.add_argument("--epoch", type=int, required=True)
    return parser.parse_args()


def read_built(folder: Path) -> Built:
    """The wheel that the backend wrote, or the unpacked one; raises SystemExit for none, several, or an odd one."""
    wheels = sorted(folder.glob("*.whl"))
    if (folder / "unpacked").is_dir():
        top = folder / "unpacked"
        files = {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}
    elif len(wheels) == 1:
        with zipfile.ZipFile(wheels[0]) as archive:
            files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    else:
        raise refused(f"the build wrote {len(wheels)} wheels, not one")
    outside = next((name for name in files if name.startswith("/") or ".." in name.split("/")), None)
    if outside is not None:
        raise refused(f"the wheel has the file {outside!r}, outside of its folder")
    infos = {match[1] for name in files if (match := INFO.match(name))}
    if len(infos) != 1:
        raise refused(f"the wheel has {len(infos)} folders of metadata, not one")
    info = infos.pop()
    if any(name.count("/") == 1 and name.endswith(f"/{MANIFEST}") for name in files):
        raise refused(f"the package has a {MANIFEST} of its own at its top: its wheel cannot declare what it holds")
    headers = Parser().parsestr(files[f"{info}.dist-info/METADATA"].decode(errors="replace"))
    marks = Parser().parsestr(files[f"{info}.dist-info/WHEEL"].decode(errors="replace"))
    kept = {name: content for name, content in files.items() if not name.startswith(f"{info}.dist-info/RECORD")}
    name, version = info.rsplit("-", 1)
    check_metadata(headers["Version"] or "", version)
    return Built(name=name, version=version, tags=tuple(marks.get_all("Tag") or ()), files=kept)


def check_metadata(stated: str, version: str) -> None:
    """Raise SystemExit when a wheel says two versions."""
    if stated.replace("-", "_") != version and stated != version:
        raise refused(f"the wheel's folder has version {version}, its METADATA {stated}")


def module_of(name: str, content: bytes, options: argparse.Namespace) -> dict[str, object]:
    """A library's entry in the manifest; raises SystemExit for another machine, other GPU code, or a damaged one."""
    path = options.built / "libraries" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    found, wanted = scan_file(path, name), f"sm_{options.arch.replace('.', '')}"
    if found.error:
        raise refused(f"{name} is damaged: {found.error}")
    if found.machine != options.machine:
        raise refused(
            f"{name} is for {found.machine}, not {options.machine}",
            "its build takes a compiler that is not CC or CXX: patch it, or set its own variable in environment",
        )
    code = {one for one in found.codes if one.startswith("sm_")}
    listed = ", ".join(sorted(found.codes))
    if found.codes and wanted not in code:
        raise refused(
            f"{name} holds {listed}, nothing of which is for {options.arch}",
            "it is for other GPUs; or set the project's own variable for GPUs in environment in the recipe",
        )
    others = {*found.codes} - {wanted} - foreign_code(options.built)
    if others:
        raise refused(
            f"{name} holds {listed}, not {wanted} alone",
            "its build takes an nvcc that is not CUDA_HOME's or PATH's, or brings compiled code along: patch it",
        )
    if code - {wanted}:
        print(f"{name}: files for other GPUs alone hold {', '.join(sorted(code - {wanted}))}", flush=True)
    digest = hashlib.sha256(content).hexdigest()
    return {"file": name, "cubins": sorted(code), "units": sum(one.count for one in found.units), "sha256": digest}


def foreign_code(built: Path) -> set[str]:
    """The code of files that the project compiles for other GPUs alone, as package_compiler.py noted it."""
    path = built / package.FOREIGN
    return {*path.read_text(encoding="utf-8").split()} if path.exists() else set()


def check_symbols(libraries: dict[str, bytes], work: Path, options: argparse.Namespace) -> None:
    """Raise SystemExit for a library or symbol that nothing of the image offers."""
    wrong = list[str]()
    known = files_by_name(options)
    own = {linkage.soname or Path(name).name: linkage for name in libraries if (linkage := linkage_of(work / name))}
    python = [
        linkage for path in sorted((options.image / "usr/bin").glob("python3.*")) if (linkage := linkage_of(path))
    ]
    read = dict[str, Linkage | None]()
    for name in libraries:
        library = linkage_of(work / name)
        if library is None:
            continue
        absent = [one for one in library.needed if one not in known and one not in own]
        wrong += [f"{name} needs {one}, which neither torch, CUDA nor the image's base has" for one in absent]
        scope = [*python, library, *closure(library, known, own, read)]
        offered = {line for one in scope for line in one.offers.split("\n")}
        plain = {line.partition("@")[0] for line in offered}
        lost = [line for line in wanted_of(library) if line not in offered and line.partition("@")[0] not in plain]
        wrong += [f"{name}: nothing offers {line}" for line in lost[:LISTED]]
        wrong += [f"{name}: and {len(lost) - LISTED} more"] if len(lost) > LISTED else []
    if wrong:
        raise refused(
            "the wheel does not fit the image's torch, CUDA and base:\n" + "\n".join(wrong),
            "name the image's wheels that have these libraries in headers in the recipe; or it is for another torch",
        )


def wanted_of(library: Linkage) -> list[str]:
    """The symbols that the loader looks up."""
    return sorted({line for part in (library.at_load, library.at_call) for line in part.split("\n") if line})


def files_by_name(options: argparse.Namespace) -> dict[str, Path]:
    """The image's libraries by file name: of torch, of the other wheels, of the base."""
    folders = (options.site / "torch/lib", options.site, options.image / "usr/lib" / f"{options.machine}-linux-gnu")
    found = dict[str, Path]()
    for folder in folders:
        for path in sorted(folder.rglob("*.so*")):
            found.setdefault(path.name, path)
    return found


def closure(
    library: Linkage, known: dict[str, Path], own: dict[str, Linkage], read: dict[str, Linkage | None]
) -> list[Linkage]:
    """What a library needs, and what that needs, as far as it is there; torch's other libraries with one of them."""
    names, found = list(library.needed), list[Linkage]()
    names += BEFORE if set(names) & {*BEFORE} else ()
    for name in names:
        if name not in read:
            read[name] = own.get(name) or (linkage_of(known[name]) if name in known else None)
        linkage = read[name]
        if linkage:
            found.append(linkage)
            names += [one for one in linkage.needed if one not in names]
    return found


def linkage_of(path: Path) -> Linkage | None:
    """What the loader reads of a file; None for what it does not load."""
    if not path.is_file():
        return None
    try:
        with mapped(path) as buffer:
            return read_linkage(buffer, str(path)) if buffer[:4] == ELF_MAGIC else None
    except (DamagedError, struct.error, ValueError) as error:
        raise refused(f"{path} cannot be read: {error}") from error


def platform_tag(built: Built, options: argparse.Namespace) -> str:
    """``cp313-cp313-manylinux_2_34_aarch64``: the Python and ABI that the backend named, the glibc that it needs."""
    if not built.tags:
        raise refused("the wheel names no tag")
    python, abi, platform = built.tags[0].split("-")
    if not built.libraries:
        return f"{python}-{abi}-{platform}"
    if (python, abi) == ("py3", "none") and any(".cpython-" in name for name in built.libraries):
        (version,) = {match[1] for name in built.libraries if (match := re.search(r"\.cpython-(\d+)", name))}
        python = abi = f"cp{version}"
    minor = max(
        max(glibc_minor(content, options.machine), cxxabi_floor(needed_versions(content)))
        for content in built.libraries.values()
    )
    if minor > options.glibc:
        raise refused(f"the wheel needs glibc 2.{minor}, the image has 2.{options.glibc}")
    if platform not in ("any", f"linux_{options.machine}"):
        raise refused(f"the wheel is for {platform}, not linux_{options.machine}")
    return f"{python}-{abi}-manylinux_2_{minor}_{options.machine}"


def cxxabi_floor(versions: Iterable[str]) -> int:
    """The least manylinux minor for the CXXABI among symbol versions; raises SystemExit for one newer than known."""
    patches = [int(name.rpartition(".")[2]) for name in versions if re.fullmatch(r"CXXABI_1\.3\.\d+", name)]
    newest = max(patches, default=0)
    for known, minor in CXXABI.items():
        if newest <= known:
            return minor
    raise SystemExit(f"CXXABI_1.3.{newest} is newer than every known manylinux policy: use an older C++ compiler")


def local(version: str, key: str) -> str:
    """The version with the key; what its project put behind the plus stays before it."""
    public, plus, own = version.partition("+")
    keyed = local_version(public, key)
    return f"{public}+{own}.{keyed.partition('+')[2]}" if plus else keyed


def placed(name: str, built: Built, wheel: Wheel) -> str:
    """The name of a file in the new wheel, whose folders of metadata have the version with the key."""
    old = f"{built.name}-{built.version}."
    return f"{built.name}-{wheel.version}.{name.removeprefix(old)}" if name.startswith(old) else name


if __name__ == "__main__":
    main()
