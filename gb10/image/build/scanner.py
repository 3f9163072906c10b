"""The scanner as one file that Python runs: an archive of a script of inside/ and of the modules that it imports."""

import io
import zipfile
from collections.abc import Mapping

from gb10.image.plan.steps import CHANGED, LINKER, READER

OLDEST = (1980, 1, 1, 0, 0, 0)


def scanner_files(contents: Mapping[str, bytes], *, mods: bool = False) -> dict[str, bytes]:
    """``scan.py`` and ``linked.py``, and ``changed.py`` where mods are baked in, as the Dockerfiles name them."""
    scripts = {"scan": READER, "linked": LINKER} | ({"changed": CHANGED} if mods else {})
    return {f"{name}.py": archive(name, {file: contents[file] for file in files}) for name, files in scripts.items()}


def archive(script: str, modules: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same modules; the script's ``main`` is what runs."""
    start = f"from gb10.inside.{script} import main\n\nmain()\n".encode()
    packages = {"gb10/__init__.py": b"", "gb10/inside/__init__.py": b""}
    files = {"__main__.py": start, **packages, **{f"gb10/{name}": content for name, content in modules.items()}}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as target:
        for name, content in sorted(files.items()):
            target.writestr(zipfile.ZipInfo(name, OLDEST), content)
    return written.getvalue()
