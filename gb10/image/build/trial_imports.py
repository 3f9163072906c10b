"""Imports of an image's packages, by its own Python; of another machine's image by qemu."""

import re
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.utils import canonicalize_name

from gb10.containers.emulation import PROGRAMS, emulated, fetch_emulator
from gb10.containers.image_programs import TIMED_OUT, run_once
from gb10.errors import EngineError
from gb10.image.build.inspect import Inspected
from gb10.image.context import Context, build_architecture
from gb10.inside.installed import Distribution

SECONDS: Final = 600.0
"""vLLM takes some 160 s under qemu on an idle machine."""
PLACE: Final = re.compile(r"(.*)lib/python(3(?:\.\d+)?)/[a-z]+-packages")
SYSTEM: Final = ("usr/", "usr/local/")


def try_imports(ctx: Context, one: Inspected) -> tuple[tuple[str, str], ...]:
    """Each package that recipes/verify.yaml names and the image has, and what went wrong; nothing where all is well.

    Raises EngineError when this machine has no way to run the image's programs.
    """
    emulator = _emulator(ctx, one)
    modules = ctx.catalog.allowances.imports
    tried = []
    for package in one.found.scan.distributions:
        module = modules.get(canonicalize_name(package.name))
        if module:
            with ctx.reporter.task(f"import {module}"):
                tried.append((package.name, _imported(ctx, one, package, module, emulator)))
    return tuple(tried)


def _imported(ctx: Context, one: Inspected, package: Distribution, module: str, emulator: Path | None) -> str:
    programs = {binary.path for binary in one.found.scan.binaries}
    argv = (interpreter(package.site, programs), "-c", f"import {module}")
    code, output = run_once(one.engine, ctx.store, one.image, argv, emulator=emulator, seconds=SECONDS)
    if code == TIMED_OUT:
        return f"import {module} did not end within {SECONDS / 60:.0f} minutes"
    return f"import {module} ended with {code}: {last_line(output)}" if code else ""


def interpreter(site: str, programs: set[str]) -> str:
    """The Python that finds the packages of a folder: the system's, else that of the environment. Pure."""
    match = PLACE.fullmatch(site)
    prefix, version = (match[1], match[2]) if match else ("usr/", "3")
    places = [f"{place}bin/python{version}" for place in (SYSTEM if prefix in SYSTEM else ())]
    return "/" + next((place for place in places if place in programs), f"{prefix}bin/python3")


def last_line(output: str) -> str:
    """The last line that says something: of a traceback, the error. Pure."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")


def _emulator(ctx: Context, one: Inspected) -> Path | None:
    """The emulator to start the image's programs with; None where the machine or the kernel runs them."""
    architecture = PurePosixPath(one.image.platform).parts[1]
    if architecture == build_architecture() or (architecture in PROGRAMS and emulated(ctx.store, architecture)):
        return None
    if architecture not in PROGRAMS or one.engine.data is None:
        raise EngineError(
            f"nothing here runs programs of {one.image.platform}",
            where=one.engine.endpoint.host,
            hint="verify it on a machine of its own platform, or by an engine on this machine",
        )
    return fetch_emulator(ctx.store, ctx.env, PROGRAMS[architecture][0])
