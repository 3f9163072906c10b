"""Inside a build stage: what aot.py built becomes an installable flashinfer-jit-cache wheel.

    pack_wheel.py --built DIR --key KEY8 --machine aarch64 --epoch SECONDS --out DIR

The same input gives the same bytes. The platform tag is what the libraries really need of glibc and libstdc++.
"""

import argparse
import base64
import hashlib
import json
import struct
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "flashinfer_jit_cache"
MACHINES = {"aarch64": 183, "x86_64": 62}  # ELF e_machine
SHT_GNU_VERNEED = 0x6FFFFFFE
# The first manylinux policy whose libstdc++ has each GLIBCXX_3.4.N (PEP 600, auditwheel's policies).
LIBSTDCXX = {19: 17, 22: 24, 24: 26, 28: 31, 29: 34, 30: 35, 33: 39}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """The names of one wheel."""

    package: str
    version: str
    tag: str

    @property
    def info(self) -> str:
        """The wheel's dist-info directory."""
        return f"{self.package}-{self.version}.dist-info"

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return f"{self.package}-{self.version}-{self.tag}.whl"

    @property
    def marks(self) -> dict[str, bytes]:
        """Its WHEEL file."""
        text = f"Wheel-Version: 1.0\nGenerator: gb10\nRoot-Is-Purelib: false\nTag: {self.tag}\n"
        return {f"{self.info}/WHEEL": text.encode()}

    def described(self, summary: str, requirement: str) -> dict[str, bytes]:
        """Its WHEEL and METADATA files."""
        text = (
            f"Metadata-Version: 2.1\nName: {self.package.replace('_', '-')}\nVersion: {self.version}\n"
            f"Summary: {summary}\nLicense: Apache-2.0\nRequires-Python: >=3.10\nRequires-Dist: {requirement}\n"
        )
        return {**self.marks, f"{self.info}/METADATA": text.encode()}


def main() -> None:
    """Parse, read the needs of the libraries, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--machine", choices=sorted(MACHINES), required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    manifest = json.loads((options.built / "manifest.json").read_text(encoding="utf-8"))
    libraries = sorted(options.built.glob("*/*.so"))
    glibc = max(glibc_minor(library.read_bytes(), options.machine) for library in libraries)
    wheel = Wheel(
        package=PACKAGE,
        version=local_version(manifest["flashinfer"], options.key),
        tag=f"py3-none-manylinux_2_{glibc}_{options.machine}",
    )
    options.out.mkdir(parents=True, exist_ok=True)
    pack(
        options.out / wheel.filename,
        contents(wheel, manifest["flashinfer"], options.built, libraries),
        wheel,
        epoch=options.epoch,
    )
    print(wheel.filename, flush=True)


def local_version(version: str, key: str) -> str:
    """``0.7.2.post1+gb10.<key>``; a segment of digits alone loses its leading zeros (PEP 440)."""
    return f"{version}+gb10.{int(key) if key.isdigit() else key}"


def contents(wheel: Wheel, flashinfer: str, built: Path, libraries: list[Path]) -> dict[str, bytes]:
    """Every file of the wheel but RECORD, by its name in the archive."""
    files = {f"{PACKAGE}/modules/{library.relative_to(built)}": library.read_bytes() for library in libraries}
    files[f"{PACKAGE}/__init__.py"] = Path(__file__).with_name("jit_cache.py").read_bytes()
    files[f"{PACKAGE}/manifest.json"] = (built / "manifest.json").read_bytes()
    about = wheel.described("FlashInfer kernels compiled ahead of time", f"flashinfer-python=={flashinfer}")
    return {**files, **about}


def pack(path: Path, files: dict[str, bytes], wheel: Wheel, *, epoch: int) -> None:
    """Write the archive in name order, metadata last as PEP 427 asks, with one fixed time."""
    record = f"{wheel.info}/RECORD"
    rows = [f"{name},sha256={digest(data)},{len(data)}\n" for name, data in sorted(files.items())]
    names = sorted(files, key=lambda name: (name.startswith(wheel.info), name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in names:
            archive.writestr(entry(name, epoch), files[name])
        archive.writestr(entry(record, epoch), "".join((*rows, f"{record},,\n")))


def entry(name: str, epoch: int) -> zipfile.ZipInfo:
    """A plain file, readable by all."""
    info = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
    info.create_system = 3
    return info


def digest(data: bytes) -> str:
    """RECORD's spelling of a sha256."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def glibc_minor(elf: bytes, machine: str) -> int:
    """The N of the manylinux_2_N that offers every symbol version the library needs; raises SystemExit."""
    found = struct.unpack_from("<H", elf, 18)[0]
    if found != MACHINES[machine]:
        raise SystemExit(f"a library is of ELF machine {found}, {machine} is {MACHINES[machine]}")
    floor = 17
    for name in needed_versions(elf):
        library, _, version = name.partition("_")
        parts = version.split(".")
        if library == "GLIBC" and parts[0] == "2":
            floor = max(floor, int(parts[1]))
        elif library == "GLIBCXX" and len(parts) == 3:
            floor = max(floor, libstdcxx_floor(int(parts[2])))
    return floor


def libstdcxx_floor(patch: int) -> int:
    """The manylinux minor for GLIBCXX_3.4.<patch>; raises SystemExit for one that is newer than the table."""
    for known, minor in LIBSTDCXX.items():
        if patch <= known:
            return minor
    raise SystemExit(f"GLIBCXX_3.4.{patch} is newer than every known manylinux policy: use an older C++ compiler")


def needed_versions(elf: bytes) -> Iterator[str]:
    """The symbol versions in .gnu.version_r of a 64-bit little-endian ELF file (gABI, LSB: Elf64_Verneed)."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("not a 64-bit little-endian ELF file")
    start, size, count = (*struct.unpack_from("<Q", elf, 40), *struct.unpack_from("<HH", elf, 58))
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, start + size * index) for index in range(count)]
    for _, kind, _, _, place, _, link, entries, _, _ in headers:
        if kind == SHT_GNU_VERNEED:
            for offset in version_names(elf, place, entries):
                name = headers[link][4] + offset
                yield elf[name : elf.index(b"\0", name)].decode()


def version_names(elf: bytes, place: int, entries: int) -> Iterator[int]:
    """Offsets into the string table: each needed library (Verneed) lists the versions wanted of it (Vernaux)."""
    for _ in range(entries):
        _, wanted, _, first, following = struct.unpack_from("<HHIII", elf, place)
        need = place + first
        for _ in range(wanted):
            _, _, _, name, skip = struct.unpack_from("<IHHII", elf, need)
            yield name
            need += skip
        place += following


if __name__ == "__main__":
    main()
