"""Inside a build stage: what cmake_targets.py compiled: the GPU code that each library must hold, and what it cost."""

import argparse
import hashlib
import json
import re
import subprocess
from pathlib import Path

CODE = re.compile(r"code=(sm_(\d+)(\d)[af]?)\b")


def write_manifest(options: argparse.Namespace, targets: list[str], left_out: dict[str, str]) -> None:
    """OUT/manifest.json: of each library the GPU code that its compile commands ask for; no time, no place.

    What is left out, name and reason, is in it, so that a cache hit can print it, too.
    """
    modules = {}
    for target in targets:
        library = next(iter(sorted(options.out.rglob(f"{target}.*so"))), None)
        if library is None:
            raise SystemExit(f"the target {target} installed no library of its name")
        modules[target] = {
            "file": library.relative_to(options.out).as_posix(),
            "cubins": codes_of(options, target),
            "units": len(compile_commands(options.work, target)),
            "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
        }
    manifest = {"set": "targets", "arch": options.arch, "modules": modules, "left-out": left_out}
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_reads(options: argparse.Namespace, targets: list[str]) -> None:
    """OUT/reads.json: by target and unit, the files of the project that the compiler read: its own list, as ninja kept
    it."""
    listed = subprocess.run(
        ["ninja", "-C", str(options.work), "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    root, found = options.source.resolve(), dict[str, dict[str, list[str]]]()
    for made, read in read_lists(listed).items():
        target, _, unit = made.partition(".dir/")
        name = target.rpartition("/")[2]
        if name in targets:
            paths = {Path(options.work, path).resolve() for path in read}
            own = sorted(path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root))
            found.setdefault(name, {})[unit.rpartition(".")[0]] = own
    (options.out / "reads.json").write_text(json.dumps(found, sort_keys=True) + "\n", encoding="utf-8")


def read_lists(listed: str) -> dict[str, list[str]]:
    """``ninja -t deps``: a line for each object, then an indented one for each file that was read."""
    found: dict[str, list[str]] = {}
    made = ""
    for line in listed.splitlines():
        if line.startswith(" "):
            found[made].append(line.strip())
        elif line:
            made = line.partition(": #deps ")[0]
            found[made] = []
    return found


def codes_of(options: argparse.Namespace, target: str) -> list[str]:
    """The GPU code of a target: none, or some that the arch runs without compiling it; raises SystemExit.

    A device runs SASS of its own capability and of earlier minors of its major (CUDA C++ programming guide, "Binary
    compatibility").
    """
    found = {
        match[1]: (int(match[2]), int(match[3]))
        for command in compile_commands(options.work, target)
        for match in CODE.finditer(command)
    }
    major, minor = (int(part) for part in options.arch.rstrip("af").split("."))
    if found and not any(code[0] == major and code[1] <= minor for code in found.values()):
        raise SystemExit(
            f"the project compiles {target} for {', '.join(sorted(found))}: none of it runs on {options.arch}"
        )
    return sorted(found)


def compile_commands(work: Path, target: str) -> list[str]:
    """The compile commands of a target, as ninja would run them."""
    argv = ["ninja", "-C", str(work), "-t", "commands", target]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in listed if f"/{target}.dir/" in line and " -c " in line]


def target_of(made: str) -> str:
    """The target whose folder an object lies in; empty for what CMake tries out."""
    found = re.search(r"(\w+)\.dir/", made)
    return found[1] if found else ""
