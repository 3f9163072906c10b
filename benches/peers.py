"""What is compiled for A, B (A with a pull request), A, A for 12.1f, A for 12.1a: gb10 beside a peer.

    python3 -m bootstrap benches/peers.py --script build-and-copy.sh

The script is that of eugr/spark-vllm-docker, one that knows --gpu-arch; it is not ours, so bring it. It runs in a
folder of its own, where `docker` counts the compile stages that it is asked to run, and leaves what the script then
looks for; `curl` finds no prebuilt wheels but regular ones that are there. What the ccache of such a stage spares it is
not counted: the script calls the compiler anew, ccache may answer. gb10 compiles for real, one small module of
FlashInfer (the kernel set `smoke`), and units are counted that a compiler ran for; vLLM it has no row for, whose GPU
code it takes from upstream's wheel. Prints JSON.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benches.factory import READ, changed_header, small_recipe, wheels
from gb10.core.proc import capture

WHEELS = {"flashinfer": ("flashinfer_cubin", "flashinfer_jit_cache", "flashinfer_python"), "vllm": ("vllm",)}
DOCKER = (
    f"#!/usr/bin/env python3\nWHEELS = {WHEELS!r}\n"
    + """
import sys
from pathlib import Path

words = sys.argv[1:]
if "--target" in words:
    target = words[words.index("--target") + 1].removesuffix("-export")
    folder = Path(words[words.index("--output") + 1].partition("dest=")[2])
    (arch,) = {word.partition("=")[2] for word in words if word.startswith("FLASHINFER_CUDA_ARCH_LIST=")}
    for name in WHEELS[target]:
        (folder / f"{name}-1-py3-none-any.whl").touch()
    for name in {target, "deepgemm"}:
        (folder / f".{name}-commit").write_text("0" * 40)
    (folder / f".{target}-arch").write_text(arch)
    with open("compiles", "a") as log:
        print(target, arch, file=log)
"""
)
NO_CURL = "#!/bin/sh\nexit 22\n"
PINNED = ("--flashinfer-ref", "v0.7.2.post1", "--vllm-ref", "v0.33.0")
REQUEST = ("--apply-flashinfer-pr", "1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What is asked of both: a state of the sources, an arch."""

    name: str
    changed: bool
    arch: str


STEPS = (
    Step(name="A", changed=False, arch="12.1a"),
    Step(name="B: A with a pull request", changed=True, arch="12.1a"),
    Step(name="A again", changed=False, arch="12.1a"),
    Step(name="A for 12.1f", changed=False, arch="12.1f"),
    Step(name="A for 12.1a again", changed=False, arch="12.1a"),
)


def main() -> None:
    """Run the sequence by both, print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", type=Path, required=True)
    script = parser.parse_args().script
    with tempfile.TemporaryDirectory() as folder:
        counts = {
            "the script, releases pinned": the_script(script, Path(folder) / "pinned", PINNED),
            "the script, prebuilt wheels": the_script(script, Path(folder) / "prebuilt", ()),
            "gb10": ours(Path(folder)),
        }
    print(json.dumps({name: {**rows, "in all": total(rows)} for name, rows in counts.items()}, indent=1))


def total(rows: dict[str, dict[str, int]]) -> dict[str, int]:
    """Compiles by project, of all steps."""
    return dict(sum((Counter(row) for row in rows.values()), Counter()))


def the_script(script: Path, folder: Path, refs: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """What it asks docker to compile for each step."""
    for name, text in {"docker": DOCKER, "curl": NO_CURL}.items():
        path = folder / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    shutil.copy(script, folder / "build.sh")
    (folder / "autodiscover.sh").touch()  # finds other nodes
    lay_prebuilt(folder / ".wheel-cache")
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return {
        step.name: asked(folder, env, (*refs, *(REQUEST if step.changed else ()), "--gpu-arch", step.arch))
        for step in STEPS
    }


def lay_prebuilt(cache: Path) -> None:
    """Regular wheels for 12.1a."""
    for project, names in WHEELS.items():
        folder = cache / project / "regular"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}-1-py3-none-any.whl").touch()


def asked(folder: Path, env: dict[str, str], arguments: tuple[str, ...]) -> dict[str, int]:
    """One call of the script: compiles by project."""
    log = folder / "compiles"
    log.write_text("", encoding="utf-8")
    capture(["bash", "./build.sh", *arguments], cwd=folder, env=env)
    found = Counter(line.split()[0] for line in log.read_text(encoding="utf-8").splitlines())
    return {project: found[project] for project in WHEELS}


def ours(folder: Path) -> dict[str, dict[str, int]]:
    """A and B are patches that no store has seen."""
    recipe = small_recipe(folder)
    patches = {}
    for changed in (False, True):
        (folder / str(changed)).mkdir()
        patches[changed] = changed_header(folder / str(changed), READ)
    return {
        step.name: {"flashinfer": wheels(recipe, "--patch", patches[step.changed], "--arch", step.arch).units}
        for step in STEPS
    }


if __name__ == "__main__":
    main()
