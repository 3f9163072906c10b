"""Why a package could not be built, from the log of its stage: what it asks for that a build stage has not."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gb10.errors import BuildError

REFUSED: Final = re.compile(r"^package: (.+)")
"""How inside/compile/package_backend.py begins an error; ``hint: `` begins what to do."""
HINT: Final = "hint: "
NO_TORCH: Final = re.compile(r"NotThereError: (torch[\w.]*) is asked")
"""As inside/compile/build_python.py says it."""
NO_NETWORK: Final = re.compile(
    r"urlopen error|name resolution|Name or service not known|Network is unreachable|Could not resolve host"
    r"|Failed to establish a new connection|unable to access 'https?:"
)
NO_MODULE: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'")
LISTED: Final = 20
"""Lines of an error."""


def package_error(log: Path, lines: Sequence[str]) -> BuildError | None:
    """The error of a package's stage; None for a log without a known cause. Pure."""
    place = f"log: {log}"
    for number, line in enumerate(lines):
        if found := REFUSED.match(line):
            return _stated(found[1], lines[number + 1 :], place)
        if found := NO_TORCH.search(line):
            return BuildError(
                f"the package asks {found[1]} while it is built, and a build stage has torch's files alone",
                where=place,
                hint="a variable of the package may give the answer: set it in environment in the recipe; or patch the "
                "question out (--patch NAME=FILE)",
            )
    if any(NO_NETWORK.search(line) for line in lines):
        return BuildError(
            "the package wants to download while it is built, and a build stage has no network",
            where="\n".join([*(line for line in lines if NO_NETWORK.search(line)), place][-3:]),
            hint="set the variable that makes it compile, in environment in the recipe: in many projects "
            "NAME_FORCE_BUILD, TRUE\nsources that it fetches come from git: {git: URL, commit: …, submodules: […]}",
        )
    missing = next((found[1] for line in lines if (found := NO_MODULE.match(line))), None)
    if missing:
        return BuildError(
            f"the package's build imports {missing}, which its stage lacks",
            where=place,
            hint="name its project in the tools of the package in the recipe, then lock it",
        )
    return None


def _stated(first: str, after: Sequence[str], place: str) -> BuildError:
    """The error that the stage itself states, in the lines up to its hint and the end of the step."""
    said, hint = [first], list[str]()
    for line in after[:LISTED]:
        if line.startswith(("the build of the package exited", "ERROR", "---", "+ ")) or not line.strip():
            break
        if line.startswith(HINT) or hint:
            hint.append(line.removeprefix(HINT))
        else:
            said.append(line)
    return BuildError(said[0].removesuffix(":"), where="\n".join([*said[1:], place]), hint="\n".join(hint))
