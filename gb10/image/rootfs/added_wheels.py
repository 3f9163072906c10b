"""Wheels that are added to an image of others: unpacked where its Python looks first. Its bytes are in the key."""

import hashlib
import os
import shutil
import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

import uv

from gb10.core import proc
from gb10.errors import BuildError
from gb10.image.recipe.base_image import BaseImage
from gb10.inside.install.install import remove_uv_notes

LONGEST_START: Final = 127
"""Bytes of the first line of a script."""


def unpack_wheels(wheels: Path, root: Path, base: BaseImage, *, uv_platform: str, cache: Path) -> None:
    """Unpack a folder of wheels with its requirements.txt for the first folder of packages of ``base``, below ``root``.

    That folder must lie below the root. Raises BuildError.
    """
    site = root / base.site_packages[0].strip("/")
    site.mkdir(parents=True)
    argv = [uv.find_uv_bin(), "pip", "install", "--no-config", "--offline", "--no-index", "--no-deps"]
    argv += ["--require-hashes", "--only-binary", ":all:", "--cache-dir", str(cache), "--target", str(site)]
    argv += ["--python", sys.executable, "--python-version", base.python, "--python-platform", uv_platform]
    argv += ["--find-links", str(wheels), "-r", str(wheels / "requirements.txt")]
    try:
        proc.capture(argv)
    except proc.CommandFailedError as error:
        raise BuildError("uv cannot unpack the added wheels", where=error.tail) from error
    remove_uv_notes(site)
    _move_programs(site, root / programs_of(base.site_packages[0]).strip("/"), base.interpreter)


def _move_programs(site: Path, folder: Path, interpreter: str) -> None:
    """Move the programs that uv put beside the packages, start them by another Python, and correct each RECORD.

    Raises BuildError for one that still names the Python of this machine.
    """
    moved = dict[bytes, bytes]()
    for script in sorted((site / "bin").glob("*")):
        text = script.read_bytes()
        own = next((begin for begin in started_by(sys.executable) if text.startswith(begin)), b"")
        if own:
            text = script_start(interpreter) + text.removeprefix(own)
        if sys.executable.encode() in text and sys.executable not in interpreter:
            raise BuildError(
                f"the program {script.name!a} of an added wheel names the Python of this machine",
                hint="leave the wheel out, or run gb10 from a folder with a plain name",
            )
        script.write_bytes(text)
        folder.mkdir(parents=True, exist_ok=True)
        script.rename(folder / script.name)
        sha256 = urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
        place = Path(os.path.relpath(folder, site), script.name).as_posix()
        moved[f"bin/{script.name}".encode()] = f"{place},sha256={sha256},{len(text)}".encode()
    for listed in sorted(site.glob("*.dist-info/RECORD")):
        lines = listed.read_bytes().split(b"\n")
        listed.write_bytes(b"\n".join(moved.get(line.rsplit(b",", 2)[0], line) for line in lines))
    shutil.rmtree(site / "bin", ignore_errors=True)


def started_by(interpreter: str) -> tuple[bytes, bytes]:
    """The two ways in which a script of Python begins: plainly, and by a shell for a path that Linux does not take.

    Linux reads 127 bytes of a first line, and takes a space as its path's end.
    """
    quoted = interpreter.replace("'", "'\"'\"'")
    by_shell = f"#!/bin/sh\n'''exec' '{quoted}' \"$0\" \"$@\"\n' '''\n"
    return f"#!{interpreter}\n".encode(), by_shell.encode()


def script_start(interpreter: str) -> bytes:
    """The one of them that an interpreter needs."""
    plain, by_shell = started_by(interpreter)
    return by_shell if len(plain) > LONGEST_START or b" " in plain else plain


def programs_of(site: str) -> str:
    """Where the programs of a folder of packages lie: ``/opt/venv/bin`` of ``/opt/venv/lib/python3.12/…``."""
    prefix, found, _ = site.partition("/lib/python3")
    return "/usr/local/bin" if not found or prefix in ("/usr", "") else f"{prefix}/bin"
