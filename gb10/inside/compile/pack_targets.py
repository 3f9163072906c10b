"""Inside a build stage: what cmake_targets.py built as one archive, to be laid over the engine's upstream wheel.

    pack_targets.py --built DIR --project vllm --version 0.33.0 --key KEY8 --machine aarch64 --epoch SECONDS --out DIR

It is written like a wheel, so that it is kept, hashed and read back like one, and is no wheel to install: nothing but
the libraries is in it. Archive, hashes and platform tag are pack_wheel.py's, which lies beside this file.
"""

import argparse
import json
from pathlib import Path

from gb10.inside.compile.pack_wheel import Wheel, glibc_minor, local_version, pack


def main() -> None:
    """Parse, read the needs of the libraries, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=Path, required=True)
    for name in ("project", "version", "key", "machine"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    manifest = json.loads((options.built / "manifest.json").read_text(encoding="utf-8"))
    libraries = {entry["file"]: (options.built / entry["file"]).read_bytes() for entry in manifest["modules"].values()}
    glibc = max(glibc_minor(library, options.machine) for library in libraries.values())
    package = f"{options.project.replace('-', '_')}_targets"
    wheel = Wheel(
        package=package,
        version=local_version(options.version, options.key),
        tag=f"py3-none-manylinux_2_{glibc}_{options.machine}",
    )
    files = {
        **libraries,
        f"{package}/manifest.json": (options.built / "manifest.json").read_bytes(),
        **wheel.marks,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    pack(options.out / wheel.filename, files, wheel, epoch=options.epoch)
    print(wheel.filename, flush=True)


if __name__ == "__main__":
    main()
