"""Plan every release of the engines that one option names, and write the table of docs/build.md.

    python3 -m bootstrap scripts/release_table.py              # the releases of the index, from FIRST on
    python3 -m bootstrap scripts/release_table.py --only 0.30  # the rows of some releases, printed

Each row is one run of `./build.py plan --ref ENGINE=RELEASE`, and one of `./build.py patches status`. The package index
is asked. Nothing is compiled: BUILT names the releases whose image was built and proven, by hand.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from packaging.version import Version  # noqa: E402 - the checkout goes on the path first

from gb10.image.context import open_context  # noqa: E402
from gb10.image.lock.lockfile import load_recipe  # noqa: E402
from gb10.image.lock.offered import links_of  # noqa: E402
from gb10.image.patches.release_files import version_of  # noqa: E402

FIRST: Final = {"vllm": "0.25.0", "sglang": "0.5.10"}
BUILT: Final[Mapping[str, tuple[str, ...]]] = {"vllm": ("0.31.0", "0.29.0", "0.26.0"), "sglang": ("0.5.17",)}
"""Releases whose image was built from `--ref --kernels smoke` for 12.1f, and proven."""
PAGE: Final = ROOT / "docs/build.md"
BEGIN: Final = "<!-- made by scripts/release_table.py -->"
END: Final = "<!-- end -->"
LEFT_OUT: Final = re.compile(r"^(\S+(?:, \S+)*|the layer \S+) is left out:", re.MULTILINE)
WITHOUT: Final = re.compile(r"is without (\S+):")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One release."""

    engine: str
    release: str
    torch: str = ""
    flashinfer: str = ""
    left_out: str = ""
    patches: str = ""
    result: str = ""

    @property
    def line(self) -> str:
        """As the page has it."""
        cells = (self.engine, self.release, self.torch, self.flashinfer, self.left_out, self.patches, self.result)
        return f"| {' | '.join(cells)} |"


def releases(engine: str) -> list[str]:
    """The final releases of the index from FIRST on, the newest first."""
    ctx = open_context(os.environ, verbosity=0)
    recipe = load_recipe(ctx.catalog.recipe(engine))
    found = links_of(ctx, recipe, Version(recipe.version))
    versions = {version for link in found.links if not link.yanked and (version := version_of(link))}
    last = Version(recipe.version)
    kept = (version for version in versions if Version(FIRST[engine]) <= version <= last and not version.is_prerelease)
    return [str(version) for version in sorted(kept, reverse=True)]


def tried(engine: str, release: str) -> Row:
    """The row of one release."""
    ran = _run("plan", "--engine", engine, "--ref", f"{engine}={release}", "--json")
    left = (*LEFT_OUT.findall(ran.stderr), *WITHOUT.findall(ran.stderr))
    row = Row(engine=engine, release=release, left_out=", ".join(left) or "—", patches=patched(engine, release))
    if ran.returncode:
        error = next(line for line in ran.stderr.splitlines() if line.startswith("error: "))
        return replace(row, result=f"refused: {_reason(error.removeprefix('error: '), engine, release)}")
    files = [file for step in json.loads(ran.stdout)["steps"] for file in step["files"]]
    built = "planned, built and proven" if release in BUILT[engine] else "planned, not built"
    return replace(row, torch=_release(files, "torch"), flashinfer=_release(files, "flashinfer_python"), result=built)


def patched(engine: str, release: str) -> str:
    """How many of the engine's patches are for a release, and apply to it."""
    ran = _run("patches", "status", "--source", engine, "--ref", release, "--json")
    rows = [row for row in json.loads(ran.stdout)["cells"] if row["outcome"] != "not-applicable"]
    good = [row for row in rows if row["outcome"] == "applies"]
    return f"{len(good)} of {len(rows)}"


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, str(ROOT / "build.py"), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)


def _reason(message: str, engine: str, release: str) -> str:
    """The reason without the release, which has a cell of its own."""
    start = f"{engine} {release}"
    short = message.removeprefix(f"{start}: ").removeprefix(f"{start} ")
    found = re.search(r"(\S+==\S+) has no usable wheels", short)
    return f"the index has no wheel of {found[1]}" if found else short


def _release(files: Sequence[Mapping[str, Any]], project: str) -> str:
    names = (str(file["filename"]) for file in files)
    return next((name.split("-")[1] for name in names if name.startswith(f"{project}-") and name.endswith(".whl")), "")


def table(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    head = ("engine", "release", "torch", "FlashInfer", "left out", "patches that apply", "`plan --ref`")
    return "\n".join((f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(row.line for row in rows)))


def rows_of(only: str) -> Iterator[Row]:
    """Every row, each printed as it is made."""
    for engine in FIRST:
        for release in releases(engine):
            if release.startswith(only):
                row = tried(engine, release)
                print(row.line, flush=True)
                yield row


def main() -> None:
    """Parse, plan, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="START", help="print the releases that start so; write nothing")
    options = parser.parse_args()
    rows = tuple(rows_of(options.only))
    if not options.only:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
