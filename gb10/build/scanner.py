"""The scanner as one file that Python runs: an archive of a script of inside/ and of the modules that it imports."""

import io
import zipfile
from collections.abc import Mapping

from gb10.plan.steps import CHANGED

OLDEST = (1980, 1, 1, 0, 0, 0)


def scanner_files(contents: Mapping[str, bytes], *, mods: bool = False) -> dict[str, bytes]:
    """``scan.py``, and ``changed.py`` where mods are baked in, as the Dockerfiles name them."""
    modules = {name: content for name, content in contents.items() if name in CHANGED}
    scripts = ("scan", "changed") if mods else ("scan",)
    return {f"{script}.py": archive(script, modules) for script in scripts}


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
