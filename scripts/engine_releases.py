"""Write recipes/doctor/releases.json: when releases of the engines came out, what they require, what was newest before.

    python3 -m bootstrap scripts/engine_releases.py

For each release of an engine and each package that `doctor` compares: the release's own requirement, and the newest
release of that package a week before the engine's came out. Facts of the package index alone: dates, names,
specifiers. Nothing is downloaded but pages.
"""

import email.parser
import io
import json
import re
import sys
import zipfile
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "recipes/doctor/releases.json"
INDEX = "https://pypi.org/simple"
ENGINES = {"vllm": "0.25.0", "sglang": "0.5.10", "sglang-kernel": "0.4.1", "flashinfer-python": "0.6.7"}
"""Engines, and from which release on."""
PACKAGES = (
    *("torch", "transformers", "triton", "flashinfer-python", "sglang-kernel", "huggingface-hub", "tokenizers"),
    *("compressed-tensors", "xgrammar", "numpy", "pydantic", "nvidia-cutlass-dsl", "apache-tvm-ffi", "mistral-common"),
)
"""Packages that engines and each other are too new or too old for."""
PREPARED = 7
"""Days before a release from which on its dependencies do not change any more."""
JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}


@cache
def files(project: str) -> list[dict[str, Any]]:
    """The files of a project on the index."""
    found: list[dict[str, Any]] = requests.get(f"{INDEX}/{project}/", headers=JSON, timeout=60).json()["files"]
    return [one for one in found if not one.get("yanked")]


def version_of(name: str) -> Version | None:
    """The release that a file is of."""
    try:
        return parse_wheel_filename(name)[1] if name.endswith(".whl") else parse_sdist_filename(name)[1]
    except ValueError:
        return None


@cache
def releases(project: str) -> dict[Version, str]:
    """The day on which each final release came out."""
    found: dict[Version, str] = {}
    for one in files(project):
        version = version_of(one["filename"])
        if version is not None and not version.is_prerelease:
            day = one["upload-time"][:10]
            found[version] = min(day, found.get(version, day))
    return found


class Remote(io.RawIOBase):
    """A file of the index, of which only what is read is downloaded."""

    def __init__(self, url: str, size: int) -> None:
        """``size`` in bytes, as the index has it."""
        self.url, self.size, self.at = url, size, 0

    def seekable(self) -> bool:
        """As zipfile wants it."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self.at = (0, self.at, self.size)[whence] + offset
        return self.at

    def tell(self) -> int:
        """The place."""
        return self.at

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        end = self.size if size < 0 else min(self.size, self.at + size)
        if end <= self.at:
            return b""
        reply = requests.get(self.url, headers={"Range": f"bytes={self.at}-{end - 1}"}, timeout=120)
        reply.raise_for_status()
        self.at = end
        return reply.content


def metadata(wheel: dict[str, Any]) -> str:
    """The METADATA of a wheel."""
    if wheel.get("core-metadata"):
        reply = requests.get(f"{wheel['url']}.metadata", timeout=60)
        reply.raise_for_status()
        return reply.text
    with zipfile.ZipFile(Remote(wheel["url"], wheel["size"])) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def requirements(project: str, version: Version) -> dict[str, str]:
    """What a release requires of PACKAGES on a Linux of any CPU."""
    wheels = [
        one for one in files(project) if one["filename"].endswith(".whl") and version_of(one["filename"]) == version
    ]
    wheels.sort(key=lambda one: ("aarch64" not in one["filename"], one["filename"]))
    found = {}
    for line in email.parser.Parser().parsestr(metadata(wheels[0])).get_all("Requires-Dist") or ():
        wanted = Requirement(line)
        name = str(canonicalize_name(wanted.name))
        machine = {"platform_machine": "aarch64", "python_version": "3.12", "extra": "", "sys_platform": "linux"}
        if name in PACKAGES and (wanted.marker is None or wanted.marker.evaluate(machine)):
            found[name] = str(wanted.specifier)
    return found


def main() -> None:
    """Ask the index, write the file."""
    document: dict[str, Any] = {}
    for engine, first in ENGINES.items():
        rows = {}
        for version in sorted(releases(engine)):
            if version < Version(first):
                continue
            day = releases(engine)[version]
            before = (date.fromisoformat(day) - timedelta(days=PREPARED)).isoformat()
            newest = {
                name: str(max(known))
                for name in PACKAGES
                if name != engine and (known := [one for one, seen in releases(name).items() if seen <= before])
            }
            rows[str(version)] = {"date": day, "requires": requirements(engine, version), "newest": newest}
            print(engine, version, day, file=sys.stderr)
        document[engine] = rows
    text = json.dumps(document, indent=1, sort_keys=True)
    OUT.write_text(re.sub(r"\n {4,}", " ", text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
