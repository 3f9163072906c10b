"""The machines that run or build an image, and their names in wheel tags. Pure."""

from collections.abc import Mapping
from typing import Final

from gb10.core.fields import Architecture
from gb10.errors import UsageError

MACHINES: Final[Mapping[Architecture, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
ARCHITECTURES: Final[Mapping[str, Architecture]] = {machine: name for name, machine in MACHINES.items()}
# Minor version of the newest manylinux_2_x that a suite loads; trixie has glibc 2.41, but uv ends at 2_40 and no
# wheel that we lock asks for more than 2_39.
GLIBC: Final[Mapping[str, int]] = {"bookworm": 36, "trixie": 39}


def glibc(suite: str) -> int:
    """The N of glibc 2.N for a Debian suite; raises UsageError for an unknown suite."""
    if suite not in GLIBC:
        raise UsageError(f"unknown Debian suite {suite!r}", hint=f"known: {', '.join(GLIBC)}")
    return GLIBC[suite]


def uv_platform(architecture: Architecture, minor: int) -> str:
    """The platform with glibc 2.``minor`` as ``uv --python-platform`` spells it."""
    return f"{MACHINES[architecture]}-manylinux_2_{minor}"
