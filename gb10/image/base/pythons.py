"""The Pythons of an image: where each one lies, its version, the folders in which it finds packages. Pure."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gb10.errors import VerifyError
from gb10.image.base.file_tree import File, FileTree, Folder

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What an engine takes when a config has none."""
NAMES: Final = ("python3", "python")
NAMED: Final = re.compile(r"python(3(?:\.\d{1,2})?)?")
VERSIONED: Final = re.compile(r"python(3\.\d{1,2})")
MACHINES: Final = {"elf 183": "arm64", "elf 62": "amd64"}
"""ELF's numbers of machines, as the platform of an image is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Python:
    """A Python with its packages; ``program`` is the path that starts it, links not followed."""

    program: str
    version: str
    """``3.12``."""
    prefix: str
    """Of the environment: ``/usr``, ``/opt/venv``."""
    site_packages: tuple[str, ...]
    """In order; the first takes new packages, and need not be there yet."""
    environment: bool = False
    """Whether it is a venv."""
    isolated: bool = False
    """An environment that does not see the packages of the Python that it was made of."""


def without_dots(tree: FileTree, path: str) -> str:
    """A path without ``..``: one that has it is followed to the end of its links, as ``..`` is meant there."""
    if ".." not in path.split("/"):
        return path
    above, _, name = path.rpartition("/")
    real = tree.real(path) if name == ".." else tree.real(above)
    return posixpath.normpath(path if real is None else real if name == ".." else f"{real}/{name}")


def pythons_on_path(tree: FileTree, folders: Sequence[str]) -> Iterator[str]:
    """The programs ``python3`` and ``python`` in the folders, in order."""
    for folder in folders:
        for name in NAMES:
            if is_python(tree, f"{folder.rstrip('/')}/{name}"):
                yield f"{folder.rstrip('/')}/{name}"


def pythons_elsewhere(tree: FileTree) -> Iterator[str]:
    """Every other Python in a folder ``bin``: environments that PATH does not name."""
    bins = sorted(
        path for path, node in tree.walk() if isinstance(node, Folder) and path.endswith("/bin") and "python3" in node
    )
    for folder in bins:
        if is_python(tree, f"{folder}/python3"):
            yield f"{folder}/python3"


def is_python(tree: FileTree, path: str) -> bool:
    """Whether a path leads to a program of ELF by the name of Python: a script in front of one is none."""
    real = tree.real(path)
    found = tree.find(path)
    return (
        real is not None
        and NAMED.fullmatch(PurePosixPath(real).name) is not None
        and isinstance(found, File)
        and found.program
        and (found.fact or "").startswith("elf ")
    )


def check_machine(tree: FileTree, program: str, platform: str) -> None:
    """Raise VerifyError for a Python of another machine than the image says."""
    found = MACHINES.get(tree.fact(program) or "", "another machine")
    if found != platform.split("/")[1]:
        raise VerifyError(
            f"the image says that it is for {platform}, and its Python is for {found}",
            where=program,
            hint="its author built it wrong: take another image",
        )


def look_at(tree: FileTree, program: str) -> Python | None:
    """The Python that a program starts; None where it would not find its own library. Raises VerifyError.

    As CPython finds it: a pyvenv.cfg beside the program or a folder above makes an environment; the library is
    ``lib/python3.N`` above the program at the end of its links, or above ``home``.
    """
    above = str(PurePosixPath(program).parent)
    prefix = str(PurePosixPath(program).parent.parent)
    config = next((text for folder in (above, prefix) if (text := tree.fact(f"{folder}/pyvenv.cfg")) is not None), None)
    settings = _settings(config or "")
    own = tree.real(program)
    if own is None:
        return None
    homes = [without_dots(tree, settings["home"])] if settings.get("home", "").startswith("/") else []
    library = _library(tree, own, [str(PurePosixPath(own).parent), *homes])
    if library is None:
        return None
    base, version = library
    said = ".".join((settings.get("version") or settings.get("version_info") or version).split(".")[:2])
    if config is not None and said != version:
        raise VerifyError(
            f"the environment {prefix} says that it is of Python {said}, and its program is Python {version}",
            where=f"{prefix}/pyvenv.cfg, {own}",
            hint="its packages would not be found: make the environment anew, or take another image",
        )
    if config is None:
        return Python(program=program, version=version, prefix=base, site_packages=_folders(tree, base, base, version))
    inherits = settings.get("include-system-site-packages", "true").lower() == "true"
    folders = _folders(tree, prefix, base, version, environment=True)
    below = _folders(tree, base, base, version) if inherits else ()
    return Python(
        program=program,
        version=version,
        prefix=prefix,
        site_packages=(*folders, *(one for one in below if tree.is_folder(one))),
        environment=True,
        isolated=not inherits,
    )


def _settings(text: str) -> dict[str, str]:
    rows = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip().lower(): value.strip() for name, _, value in rows}


def _library(tree: FileTree, own: str, folders: Sequence[str]) -> tuple[str, str] | None:
    """The prefix and the version of a program: by its name, if ``lib/python3.N`` is there, else by the only one."""
    named = VERSIONED.fullmatch(PurePosixPath(own).name)
    for folder in folders:
        for above in (PurePosixPath(folder), *PurePosixPath(folder).parents):
            libraries = [
                match[1]
                for name in tree.names(f"{above}/lib")
                if (match := VERSIONED.fullmatch(name))
                and any(isinstance(tree.find(f"{above}/lib/{name}/{file}"), File) for file in ("os.py", "os.pyc"))
            ]
            if named:
                if named[1] in libraries:
                    return str(above), named[1]
            elif len(libraries) == 1:
                return str(above), libraries[0]
    return None


def _folders(tree: FileTree, prefix: str, base: str, version: str, *, environment: bool = False) -> tuple[str, ...]:
    """The folders for packages, as site.py makes them: Debian's own has other ones. What is not there is left out,
    but the one that pip installs to.
    """
    root = prefix.rstrip("/")
    name = f"python{version}"
    plain = f"{root}/lib/{name}/site-packages"
    if tree.fact(f"{base.rstrip('/')}/lib/{name}/site.py") != "dist-packages":
        wide = f"{root}/lib64/{name}/site-packages"
        both = (plain, wide) if tree.real(wide) not in (None, tree.real(plain)) else (plain,)
        return (plain, *(one for one in both[1:] if tree.is_folder(one)))
    debian = (f"{root}/local/lib/{name}/dist-packages", f"{root}/lib/python3/dist-packages")
    rest = (*debian, f"{root}/lib/{name}/dist-packages")
    first = plain if environment else rest[0]
    return (first, *(one for one in rest if one != first and tree.is_folder(one)))


def homes_of(tree: FileTree, user: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The home of an image's user: HOME, else what passwd says."""
    if environment.get("HOME", "").startswith("/"):
        return (environment["HOME"],)
    name = (user or "root").partition(":")[0]
    for line in (tree.fact("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and name in (fields[0], fields[2]) and fields[5].startswith("/"):
            return (fields[5],)
    return ()


def started_by(tree: FileTree, words: Sequence[str], folders: Sequence[str]) -> str | None:
    """The Python that a command starts: itself, or by the first line of an engine's own script. None if neither."""
    for word in words[:64]:
        program = _program(tree, word, folders)
        if program is None:
            continue
        if is_python(tree, program):
            return program
        found = _script_python(tree, program, folders)
        if found:
            return found
    return None


def _program(tree: FileTree, word: str, folders: Sequence[str]) -> str | None:
    if word.startswith("/"):
        return word if isinstance(tree.find(word), File) else None
    if "/" in word or not word:
        return None
    places = (f"{folder.rstrip('/')}/{word}" for folder in folders)
    return next((one for one in places if isinstance(node := tree.find(one), File) and node.program), None)


def _script_python(tree: FileTree, program: str, folders: Sequence[str]) -> str | None:
    """The Python in the first line of a script, or in the second where a path is too long for the first."""
    lines = (tree.fact(program) or "").splitlines()[:2]
    if not lines or not lines[0].startswith("#!"):
        return None
    words = lines[0].removeprefix("#!").split()
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
    elif words and PurePosixPath(words[0]).name == "sh" and len(lines) > 1:
        words = lines[1].replace("'''exec'", "").replace('"', "").split()
    found = _program(tree, words[0], folders) if words else None
    return found if found and is_python(tree, found) else None
