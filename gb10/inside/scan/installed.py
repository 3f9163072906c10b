"""Installed distributions by their METADATA and WHEEL, with the CUDA of torch; the package that a file belongs to."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from email.policy import compat32
from pathlib import Path, PurePosixPath

SITE = re.compile(r"(?:.*/)?lib/python3(?:\.\d+)?/(?:site|dist)-packages")
"""Where Python finds distributions. What others bundle below their own packages is none."""
DIST_INFO = ".dist-info/METADATA"
LARGEST, FIELDS, FIELD = 1 << 20, 1 << 10, 1 << 12
"""Limits: bytes of a file, lines of a field that repeats, characters of each."""
CUDA = re.compile(r"^cuda\b[^=\n]*=\s*(?:['\"]([0-9.]{1,16})['\"]|(None))", re.MULTILINE)
NO_CUDA = "none"
TORCH_VERSION = "torch/version.py"
EXTRA = re.compile(r";.*\bextra\b")
PACKAGES = re.compile(r"(?:.*/)?lib/python3(?:\.\d+)?/(?:site|dist)-packages/(?P<inside>.+)")
SHARED = ("nvidia",)
"""Folders that several distributions share: the package is what lies below."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """One distribution; ``path`` is its METADATA. ``cuda``: of torch, ``13.0``, or ``none`` for a build without."""

    path: str
    name: str
    version: str
    requires: tuple[str, ...] = ()
    """Its requirements, without those of extras."""
    tags: tuple[str, ...] = ()
    """The platforms of its wheel: ``cp313-cp313-manylinux_2_28_aarch64``."""
    licence: str = ""
    cuda: str = ""

    @property
    def site(self) -> str:
        """The folder that Python finds it in."""
        return str(PurePosixPath(self.path).parents[1])


def is_metadata(name: str) -> bool:
    """Whether a path is the METADATA of a distribution that Python finds."""
    return name.endswith(DIST_INFO) and SITE.fullmatch(str(PurePosixPath(name).parents[1])) is not None


def read_distribution(path: Path, name: str) -> Distribution:
    """The distribution of a METADATA file, which is reported as ``name``; what cannot be read stays empty."""
    texts = (read_head(one) for one in (path, path.with_name("WHEEL"), path.parents[1] / TORCH_VERSION))
    return described(name, *texts)


def described(name: str, metadata: str, wheel: str, torch: str) -> Distribution:
    """The distribution of the texts of METADATA, WHEEL and torch's version.py."""
    fields, tags = (HeaderParser(policy=compat32).parsestr(text) for text in (metadata, wheel))
    folder = PurePosixPath(name).parent.name
    project = str(fields.get("Name") or folder.partition("-")[0]).strip()
    return Distribution(
        path=name,
        name=project[:FIELD],
        version=str(fields.get("Version") or "").strip()[:FIELD],
        requires=tuple(one for one in _lines(fields.get_all("Requires-Dist") or ()) if not EXTRA.search(one)),
        tags=_lines(tags.get_all("Tag") or ()),
        licence=_licence(fields.get("License-Expression"), fields.get("License")),
        cuda=cuda_of(torch) if project == "torch" else "",
    )


def read_head(path: Path) -> str:
    """The first LARGEST bytes of a regular file as text, none where there is no such file."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(LARGEST).decode(errors="replace")
    except OSError:
        return ""


def cuda_of(text: str) -> str:
    """``13.0`` of torch's version.py, ``none`` for a build without CUDA, nothing where it does not say."""
    found = CUDA.search(text)
    return (found[1] or NO_CUDA) if found else ""


def _lines(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(" ".join(str(value).split())[:FIELD] for _, value in zip(range(FIELDS), values, strict=False))


def _licence(expression: object, text: object) -> str:
    """The expression; else a licence that is a name, and not its text."""
    found = str(expression or text or "").strip()
    return found if len(found) <= 100 and "\n" not in found and found != "UNKNOWN" else ""


def package_of(path: str) -> str:
    """``torch``, ``nvidia/cudnn``, ``usr/lib``: a Python package, or the first two folders."""
    match = PACKAGES.fullmatch(path)
    parts = match["inside"].split("/") if match else path.split("/")[:-1]
    depth = 2 if not match or (parts[0] in SHARED and len(parts) > 2) else 1
    return "/".join(parts[:depth]).removesuffix(".libs") or "/"
