"""The distributions that a Python of an image finds, as importlib.metadata finds them; editable ones, too. Pure."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from gb10.image.base.file_tree import File, FileTree, Folder
from gb10.image.base.pythons import Python, homes_of, without_dots
from gb10.image.recipe.base_image import Installed

MOST_FOLDERS: Final = 512
"""Folders on ``sys.path``."""
MOST: Final = 1 << 14
"""Distributions."""
NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?", re.ASCII)
VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,99}", re.ASCII)
MAPPING: Final = re.compile(r"^MAPPING(?::[^=\n]{0,80})? = (\{.*\})$", re.MULTILINE)
FINDER: Final = re.compile(r"__editable___(?P<name>.+)_finder\.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a Python finds: the folders of ``sys.path`` that hold packages, in order, and what lies in them."""

    search: tuple[str, ...]
    installed: Mapping[str, Installed]
    """By normalized name."""
    remarks: tuple[str, ...]
    """What a person should know: what cannot be read, what is there twice."""


def distributions(tree: FileTree, python: Python, environment: Mapping[str, str], user: str) -> Found:
    """All distributions; of two with one name the first on ``sys.path`` counts, as for Python itself."""
    search = tuple(_search(tree, python, environment, user))
    finders = _finders(tree, search)
    installed = dict[str, Installed]()
    remarks = list[str]()
    for folder in search:
        here = dict[str, Installed]()
        for path in _metadata(tree, folder):
            one = _described(tree, folder, path, (search, finders))
            if one is None:
                remarks.append(f"{path} has no name or version that can be read: left out")
                continue
            name = canonicalize_name(one.name)
            if name in here and here[name].version != one.version:
                remarks.append(f"{folder} holds two releases of {name}: {here[name].version} and {one.version}")
            here.setdefault(name, one)
            if len(installed) + len(here) > MOST:
                return Found(search=search, installed=installed, remarks=(f"more than {MOST:,} distributions",))
        installed = here | installed
    return Found(search=search, installed=installed, remarks=tuple(dict.fromkeys(remarks)))


def _search(tree: FileTree, python: Python, environment: Mapping[str, str], user: str) -> Iterator[str]:
    """PYTHONPATH, the user's own folder, site-packages; each one followed by what its .pth files add.

    What is there under two names counts once.
    """
    seen = set[str | None]()
    first = [part for part in environment.get("PYTHONPATH", "").split(":") if part.startswith("/")]
    own = [
        f"{home.rstrip('/')}/.local/lib/python{python.version}/site-packages"
        for home in homes_of(tree, user, environment)
        if not python.isolated and not environment.get("PYTHONNOUSERSITE")
    ]
    first_own = [one for one in python.site_packages if python.environment and one.startswith(f"{python.prefix}/")]
    sites = [*first_own, *own, *(one for one in python.site_packages if one not in first_own)]
    rows = [*((folder, False) for folder in first), *((folder, True) for folder in sites)]
    for folder, is_site in rows:
        added = [folder, *(_added(tree, folder) if is_site else ())]
        for one in added:
            real = tree.real(one)
            if real not in seen and tree.is_folder(one) and len(seen) < MOST_FOLDERS:
                seen.add(real)
                yield without_dots(tree, one)


def _added(tree: FileTree, folder: str) -> Iterator[str]:
    """The folders that the .pth files of a folder add: each line that is a path; lines of code are not run."""
    for name in tree.names(folder):
        if name.endswith(".pth") and not name.startswith("."):
            for line in (tree.fact(f"{folder}/{name}") or "").splitlines():
                text = line.strip()
                if text and not text.startswith(("#", "import ", "import\t")):
                    yield text if text.startswith("/") else f"{folder}/{text}"


def _finders(tree: FileTree, search: Sequence[str]) -> dict[str, str]:
    """What setuptools' finders lead to: the folder above each package, by the package's name."""
    found = dict[str, str]()
    for folder in search:
        for name in tree.names(folder):
            if FINDER.fullmatch(name):
                for package, place in _mapping(tree.fact(f"{folder}/{name}") or "").items():
                    above = without_dots(tree, str(PurePosixPath(place).parent))
                    if tree.is_folder(above):
                        found.setdefault(package, above)
    return found


def _mapping(text: str) -> dict[str, str]:
    """The packages of a finder and where they lie. A literal is read, nothing is run."""
    match = MAPPING.search(text)
    try:
        found = ast.literal_eval(match[1]) if match else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {str(name): place for name, place in found.items() if isinstance(place, str) and place.startswith("/")}


def _metadata(tree: FileTree, folder: str) -> Iterator[str]:
    """The path of each distribution's METADATA or PKG-INFO in a folder. pip's leftovers (``~ame``) are none."""
    for name in tree.names(folder):
        path = f"{folder.rstrip('/')}/{name}"
        if name.startswith(("~", ".")):
            continue
        if name.endswith(".dist-info") and isinstance(tree.find(f"{path}/METADATA"), File):
            yield f"{path}/METADATA"
        elif name.endswith(".egg-info"):
            inner = f"{path}/PKG-INFO" if isinstance(tree.find(path), Folder) else path
            if isinstance(tree.find(inner), File):
                yield inner


def _described(
    tree: FileTree, folder: str, path: str, where: tuple[Sequence[str], Mapping[str, str]]
) -> Installed | None:
    """The distribution of a METADATA; None without a name or a version."""
    name, _, version = (tree.fact(path) or "").partition("\n")
    if not NAME.fullmatch(name) or not VERSION.fullmatch(version):
        return None
    checkout = without_dots(tree, _checkout(tree.fact(f"{PurePosixPath(path).parent}/direct_url.json") or ""))
    if checkout:
        place = _place(tree, name, checkout, where)
        return Installed(name=name, version=version, folder=place, editable=True, metadata=path)
    outside = not folder.endswith("-packages") and ".egg-info" in path
    return Installed(name=name, version=version, folder=folder, editable=outside, metadata=path)


def _checkout(text: str) -> str:
    """The folder of an editable install, by its direct_url.json; empty for any other."""
    try:
        found = json.loads(text)
        editable = found["dir_info"]["editable"] is True
        url = urlsplit(found["url"]) if editable and isinstance(found["url"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    path = unquote(url.path) if url and url.scheme == "file" and url.netloc in ("", "localhost") else ""
    return path.rstrip("/") if path.startswith("/") and path.isprintable() else ""


def _place(tree: FileTree, name: str, checkout: str, where: tuple[Sequence[str], Mapping[str, str]]) -> str:
    """The folder with the packages of a checkout: what its finder or a .pth says, else the checkout itself."""
    search, finders = where
    package = canonicalize_name(name).replace("-", "_")
    below = [one for one in search if f"{one}/".startswith(f"{checkout}/")]
    places = [*([finders[package]] if package in finders else []), *below, checkout]
    return next((one for one in places if tree.find(f"{one}/{package}") is not None), places[0])
