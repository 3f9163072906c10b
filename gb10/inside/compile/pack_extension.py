"""Inside a build stage: what extension.py built becomes the installable wheel gb10-kernels.

    pack_extension.py --built DIR --key KEY8 --machine aarch64 --epoch SECONDS --out DIR

Archive, hashes and platform tag are pack_wheel.py's, which lies beside this file.
"""

import argparse
import json
from pathlib import Path

from gb10.inside.compile.pack_wheel import Wheel, glibc_minor, local_version, pack

PACKAGE = "gb10_kernels"


def main() -> None:
    """Parse, read the needs of the library, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    manifest = json.loads((options.built / "manifest.json").read_text(encoding="utf-8"))
    libraries = sorted(options.built.glob("*/*.so"))
    glibc = max(glibc_minor(library.read_bytes(), options.machine) for library in libraries)
    wheel = Wheel(
        package=PACKAGE,
        version=local_version(manifest["version"], options.key),
        tag=f"py3-none-manylinux_2_{glibc}_{options.machine}",
    )
    options.out.mkdir(parents=True, exist_ok=True)
    # torch may be newer than the one linked to: what is called is its stable ABI
    about = wheel.described("Kernels for NVIDIA GB10 as torch operators", f"torch>={manifest['torch']}")
    files = {**contents(options.built, libraries), **about}
    pack(options.out / wheel.filename, files, wheel, epoch=options.epoch)
    print(wheel.filename, flush=True)


def contents(built: Path, libraries: list[Path]) -> dict[str, bytes]:
    """Every file of the package, by its name in the archive."""
    return {
        **{f"{PACKAGE}/modules/{library.relative_to(built)}": library.read_bytes() for library in libraries},
        f"{PACKAGE}/__init__.py": Path(__file__).with_name("gb10_kernels.py").read_bytes(),
        f"{PACKAGE}/manifest.json": (built / "manifest.json").read_bytes(),
    }


if __name__ == "__main__":
    main()
