"""The ``--version`` text of a compiler in the image, without running it: the keys of caches contain that text."""

import re
import subprocess
from pathlib import Path

BUILT = re.compile(rb"\x00([A-Z][a-z]{2}_[A-Z][a-z]{2}_\d{1,2}_\d\d:\d\d:\d\d_[AP]M_[A-Z]{3,4}_\d{4})(?=\x00)")
"""When a program of the CUDA toolkit was built, as it prints it."""
RELEASE = re.compile(rb"\x00?(Build cuda_[\w./]+)")
PACKAGE = re.compile(r"\([^()\n]+\)(?= [0-9])")
"""A host compiler's package, before its version."""


class KeyUnknownError(Exception):
    """A program of the image, or a package, is not of the form that this module knows."""


def toolkit_text(program: Path, own: Path) -> str:
    """The text of a program of the CUDA toolkit: that of this machine's ``own`` release, with another build date.

    Raises KeyUnknownError for another release, or a program that does not say when it was built.
    """
    content = program.read_bytes()
    if set(RELEASE.findall(content)) != set(RELEASE.findall(own.read_bytes())):
        raise KeyUnknownError(f"{program} and {own} are different releases")
    text = _version(own)
    found = set(BUILT.findall(content))
    lines = [line for line in text.splitlines() if line.startswith("Built on ")]
    if len(found) != 1 or len(lines) != 1:
        raise KeyUnknownError(f"{program} does not say when it was built")
    return text.replace(lines[0], f"Built on {found.pop().decode()}")


def host_text(program: Path, own: str, cross: str) -> str:
    """The text of the host compiler: that of this machine's ``own``, which must be of the same package.

    ``cross``: the compiler that runs in its place. It is a package of its own in Debian, so its version must be equal.
    Raises KeyUnknownError.
    """
    text = _version(Path(own))
    found = PACKAGE.search(text)
    if found is None or found[0].encode() not in program.read_bytes():
        raise KeyUnknownError(f"{program} is not of the package of this machine's {own}")
    if _version(Path(own), "-dumpfullversion") != _version(Path(cross), "-dumpfullversion"):
        raise KeyUnknownError(f"{cross} and {own} are different versions")
    return text


def _version(program: Path, option: str = "--version") -> str:
    return subprocess.run([program, option], check=True, capture_output=True, text=True).stdout
