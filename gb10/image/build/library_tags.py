"""The tag of a locked wheel whose libraries are replaced: no older glibc than these need (PEP 600)."""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import BuildError
from gb10.image.lock.resolver import ALIASES
from gb10.inside.compile.pack_package import cxxabi_floor
from gb10.inside.compile.pack_wheel import glibc_minor, needed_versions


@dataclass(frozen=True, kw_only=True, slots=True)
class Tags:
    """The platform tags at the end of a wheel's file name, and its file WHEEL by name when they are new."""

    platform: str
    marks: Mapping[str, bytes]


def tags_with(wheel: Path, libraries: Mapping[str, bytes], machine: str, newest: int) -> Tags:
    """The tags of a locked wheel with these libraries in it.

    ``newest``: the N of the image's glibc 2.N. Raises BuildError when a library needs a newer one.
    """
    had, needed = wheel.stem.rpartition("-")[2], 0
    for name, library in libraries.items():
        minor = needed_glibc(name, library, machine)
        if minor > newest:
            raise BuildError(
                f"{name} needs glibc 2.{minor}, the image has 2.{newest}",
                hint="take another release of its project, or a newer base.suite in the recipe",
            )
        needed = max(needed, minor)
    platform = platform_with(had, needed, machine)
    if platform == had:
        return Tags(platform=had, marks={})
    with zipfile.ZipFile(wheel) as archive:
        name, mark = read_mark(archive)
    lines = [re.sub(r"^(Tag: \S+-\S+-)\S+$", rf"\g<1>{platform}", line) for line in mark.decode().splitlines()]
    return Tags(platform=platform, marks={name: "".join(f"{line}\n" for line in dict.fromkeys(lines)).encode()})


ALSO: Final = {
    **dict.fromkeys(("CXXABI_1.3.11", "GLIBCXX_3.4.23", "GLIBCXX_3.4.24", "GCC_7.0.0"), 27),
    **{"GCC_12.0.0": 35, "GLIBC_ABI_DT_RELR": 36, "GCC_14.0.0": 39},
}
"""By auditwheel's policies the least glibc beside these versions: pack_wheel.py's tables have none, or 2.26."""


def needed_glibc(name: str, library: bytes, machine: str) -> int:
    """The N of the first manylinux_2_N with all that an ELF file wants of glibc, libstdc++ and libgcc.

    Raises BuildError for what no known policy has.
    """
    try:
        versions = [*needed_versions(library)]
        return max(glibc_minor(library, machine), cxxabi_floor(versions), *(ALSO.get(one, 0) for one in versions))
    except SystemExit as error:
        raise BuildError(f"{name}: {error}") from error


def platform_with(platform: str, needed: int, machine: str) -> str:
    """A wheel's platform tags once a library in it needs glibc 2.``needed``: its own where they promise no older one.

    ``linux_aarch64`` promises none at all. Pure.
    """
    numbered = platform
    for minor, alias in ALIASES.items():
        numbered = numbered.replace(f"{alias}_", f"manylinux_2_{minor}_")
    promised = min(map(int, re.findall(r"manylinux_2_(\d+)_", numbered)), default=0)
    return platform if platform == f"linux_{machine}" or promised >= needed else f"manylinux_2_{needed}_{machine}"


def read_mark(archive: zipfile.ZipFile) -> tuple[str, bytes]:
    """The name and content of a wheel's file WHEEL; what it bundles of others may have more."""
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL") and name.count("/") == 1)
    return name, archive.read(name)
