"""The engine of an image, its release, and its tuned files for a GB10: read from the layers, nothing of it runs."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, read_folders
from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.image.moe.input_files import Batch, input_file
from gb10.image.moe.release_lookups import SITE, Judge, open_judge
from gb10.image.moe.tuned_name import SPELLED, EngineTable, Home, read_table

PYTHONS: Final = tuple(f"3.{minor}" for minor in range(14, 9, -1))
PLACES: Final = (
    *(f"/usr/local/lib/python{version}/dist-packages" for version in PYTHONS),
    *(f"/usr/local/lib/python{version}/site-packages" for version in PYTHONS),
    *(f"/opt/venv/lib/python{version}/site-packages" for version in PYTHONS),
    "/sgl-workspace/sglang/python",
)
"""Where images have their engine: ours, Debian's, venvs, and SGLang's own images."""
ENGINES: Final = ("vllm", "sglang")
NUMBER: Final = re.compile(r"""^(?:__version__|version)\b.*?=\s*['"]([^'"]{1,64})['"]""", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class InImage:
    """What an image holds: the judge of its release, its files, and what to say of them."""

    judge: Judge
    batch: Batch
    site: str
    remarks: tuple[str, ...]


def read_image(host: Host, root: Path, engine: Engine, image: ImageInfo, reference: str) -> InImage:
    """An image's tuned files, and its release's look-ups. Raises UsageError for an image without a known engine."""
    site, name, version = _find(host, engine, image, reference)
    table = read_table(root, name)
    found, folders = read_folders(engine, host.store, image, [f"{site}/{path}" for path in _paths(table)])
    files = {path.removeprefix(f"{site}/"): content for path, content in found.items()}
    triton = _number(_read(host, engine, image, [f"{place}/triton/__init__.py" for place in (site, *PLACES)]))
    judge = open_judge(host, root, name, version, triton)
    tuned = {
        path: files[path]
        for path in sorted(files)
        if path.endswith(".json") and SPELLED.lower() in path.rpartition("/")[2].lower()
    }
    below = tuple(folder.removeprefix(f"{site}/") for folder in folders)
    batch = Batch(tuple(input_file(path, content) for path, content in tuned.items()), below, "image")
    return InImage(judge=judge, batch=batch, site=site, remarks=tuple(_remarks(judge, files)))


def _find(host: Host, engine: Engine, image: ImageInfo, reference: str) -> tuple[str, str, str]:
    """Site-packages, engine and release of an image."""
    paths = {
        f"{place}/{name}/{file}": (place, name)
        for place in PLACES
        for name in ENGINES
        for file in ("_version.py", "version.py")
    }
    found = read_folders(engine, host.store, image, paths)[0]
    for path, content in found.items():
        number = _number([content])
        if number:
            try:
                return (*paths[path], Version(number).public)
            except InvalidVersion:
                continue
    raise UsageError(f"{reference} has no engine that moe knows", hint=f"it looks for {' and '.join(ENGINES)}")


def _read(host: Host, engine: Engine, image: ImageInfo, paths: Iterable[str]) -> list[bytes]:
    found = read_folders(engine, host.store, image, paths)[0]
    return [found[path] for path in paths if path in found]


def _number(texts: Iterable[bytes]) -> str | None:
    found = (NUMBER.search(text.decode("utf-8", "replace")) for text in texts)
    return next((match[1] for match in found if match), None)


def _paths(table: EngineTable) -> list[str]:
    return [path for home in table.families.values() for module in home.modules for path in _of(home, module)]


def _of(home: Home, module: str) -> tuple[str, str]:
    return module, f"{module.rpartition('/')[0]}/{home.folder}"


def _remarks(judge: Judge, files: Mapping[str, bytes]) -> list[str]:
    """Modules that are not those of the release: patched, or another build."""
    changed = []
    for family in judge.families:
        path = judge.module(family) or ""
        own = (judge.files / SITE / path).read_bytes()
        if path in files and hashlib.sha256(files[path]).digest() != hashlib.sha256(own).digest():
            changed.append(f"{path} of the image is not that of {judge.engine} {judge.version}: the release's is asked")
    return changed
