"""Inside a build stage: what extension.py built becomes the installable wheel gb10-kernels.

    pack_extension.py --built DIR --key KEY8 --machine aarch64 --epoch SECONDS --out DIR

Archive, hashes and platform tag are pack_wheel.py's, which lies beside this file.
"""

import argparse
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "gb10_kernels"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """The names of one wheel: version and tag."""

    version: str
    tag: str

    @property
    def info(self) -> str:
        """The wheel's dist-info directory."""
        return f"{PACKAGE}-{self.version}.dist-info"

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return f"{PACKAGE}-{self.version}-{self.tag}.whl"


def main() -> None:
    """Parse, read the needs of the library, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    pack_wheel: Any = importlib.import_module("pack_wheel")
    manifest = json.loads((options.built / "manifest.json").read_text(encoding="utf-8"))
    libraries = sorted(options.built.glob("*/*.so"))
    glibc = max(pack_wheel.glibc_minor(library.read_bytes(), options.machine) for library in libraries)
    wheel = Wheel(
        version=pack_wheel.local_version(manifest["version"], options.key),
        tag=f"py3-none-manylinux_2_{glibc}_{options.machine}",
    )
    options.out.mkdir(parents=True, exist_ok=True)
    files = contents(wheel, manifest["torch"], options.built, libraries)
    pack_wheel.pack(options.out / wheel.filename, files, wheel, epoch=options.epoch)
    print(wheel.filename, flush=True)


def contents(wheel: Wheel, torch: str, built: Path, libraries: list[Path]) -> dict[str, bytes]:
    """Every file of the wheel but RECORD, by its name in the archive; torch may be newer than the one linked to."""
    metadata = (
        f"Metadata-Version: 2.1\nName: gb10-kernels\nVersion: {wheel.version}\n"
        "Summary: Kernels for NVIDIA GB10 as torch operators\nLicense: Apache-2.0\nRequires-Python: >=3.10\n"
        f"Requires-Dist: torch>={torch}\n"
    )
    return {
        **{f"{PACKAGE}/modules/{library.relative_to(built)}": library.read_bytes() for library in libraries},
        f"{PACKAGE}/__init__.py": Path(__file__).with_name("gb10_kernels.py").read_bytes(),
        f"{PACKAGE}/manifest.json": (built / "manifest.json").read_bytes(),
        f"{wheel.info}/METADATA": metadata.encode(),
        f"{wheel.info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: gb10\nRoot-Is-Purelib: false\nTag: {wheel.tag}\n"
        ).encode(),
    }


if __name__ == "__main__":
    main()
