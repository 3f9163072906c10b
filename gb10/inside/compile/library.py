"""Inside a build stage: a project's libraries, for the image's machine and one arch, to replace those of a wheel.

    library.py …as package.py… --run '["make", "BUILDDIR=$PREFIX"]' --file nvidia/nccl/lib/libnccl.so.2 lib/libnccl.so.2
               [--licence Apache-2.0]

The commands run in the project's folder, one after the other, without a shell, with what package.py lays out. In their
words these are filled in: $PREFIX, the folder to install to; $JOBS; $CUDA_HOME; $CC and $CXX; $ARCH (121a); $GENCODE,
nvcc's flag; $MACHINE (aarch64). Writes OUT/<the wheel's file>, OUT/manifest.json, which has the licence, and
WORK/measured.json.
"""

import argparse
import json
import os
import string
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gb10.inside.compile import pack_package, package
from gb10.inside.compile.compilers import write_measured
from gb10.inside.compile.package_backend import refused


def main() -> None:
    """Parse, lay out, run, check what was installed."""
    parser = package.parser(__doc__)
    parser.add_argument("--run", type=json.loads, action="append", required=True, help="the words of a command, JSON")
    parser.add_argument("--file", nargs=2, action="append", required=True, metavar=("NAME", "INSTALLED"))
    parser.add_argument("--licence", default="", help="of the project, as the recipe has it")
    options = parser.parse_args()
    prefix = package.prepare(options)
    env = package.environment(options)
    for words in options.run:
        argv = filled(words, {"PREFIX": str(prefix), **values(options, env)})
        print("+", *argv, flush=True)
        run = subprocess.run(argv, cwd=options.source, env={**os.environ, **env}, check=False)
        if run.returncode:
            raise SystemExit(f"the build of the package exited with {run.returncode}")
    libraries = {name: installed(prefix, place) for name, place in options.file}
    options.built = options.out
    modules = {name: pack_package.module_of(name, content, options) for name, content in libraries.items()}
    pack_package.check_symbols(libraries, options.out / "libraries", options)
    for name, content in libraries.items():
        path = options.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manifest = {"set": "library", "arch": options.arch, "licence": options.licence, "modules": modules}
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    write_measured(options.work, lambda made: options.name)


def values(options: argparse.Namespace, env: Mapping[str, str]) -> dict[str, str]:
    """What commands may name, without the prefix."""
    return {
        "JOBS": str(options.jobs),
        "CUDA_HOME": env["CUDA_HOME"],
        "CC": env["CC"],
        "CXX": env["CXX"],
        "ARCH": env["CUDAARCHS"],
        "GENCODE": f"-gencode={options.gencode}",
        "MACHINE": options.machine,
    }


def filled(words: list[str], known: Mapping[str, str]) -> list[str]:
    """A command's words with what they name; raises SystemExit for a name that is not known."""
    try:
        return [string.Template(word).substitute(known) for word in words]
    except (KeyError, ValueError) as error:
        raise refused(
            f"the command {' '.join(words)!r} names {error}, which a stage does not fill in",
            f"known are ${', $'.join(known)}; a dollar itself is $$",
        ) from error


def installed(prefix: Path, place: str) -> bytes:
    """The content of a file below the prefix, by its links there; raises SystemExit when it is not there."""
    path = (prefix / place).resolve()
    if not path.is_relative_to(prefix) or not path.is_file():
        found = sorted(one.relative_to(prefix).as_posix() for one in prefix.rglob("*.so*"))
        listed = ", ".join(found[:10]) or "no library"
        raise refused(f"the commands installed no {place}", f"files in the recipe; below $PREFIX is {listed}")
    return path.read_bytes()


if __name__ == "__main__":
    main()
