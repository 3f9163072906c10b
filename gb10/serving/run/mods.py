"""Mods of a service: those that its image lacks run once in each container, as root, before the server starts."""

import io
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence

from gb10.containers.connection import Engine
from gb10.containers.docker_containers import put_archive, put_files, run_inside
from gb10.core.folder_files import Files
from gb10.core.proc import last_lines
from gb10.core.reporter import Reporter
from gb10.errors import ServeError
from gb10.image.mods.lookup import FoundMod
from gb10.image.plan.labels import NAMESPACE
from gb10.image.plan.options import short_label

PLACE = "/workspace/mods"
RUN = 'chmod +x run.sh && WORKSPACE_DIR="$1" ./run.sh'
MODES = {"file": 0o644, "executable": 0o755, "folder": 0o755, "link": 0o777}
TYPES = {"link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}
BAKE = "bake it instead, and see its whole log: ./build.py image --mod {name}"


def not_baked(mods: Iterable[FoundMod], labels: Mapping[str, str]) -> tuple[FoundMod, ...]:
    """The mods that an image does not hold in this very form. Pure."""
    baked = {value for name, value in labels.items() if name.startswith(f"{NAMESPACE}.mod.")}
    return tuple(mod for mod in mods if short_label(mod.name, mod.digest) not in baked)


def apply_mods(
    engine: Engine, container: str, host: str, workdir: str, mods: Sequence[FoundMod], *, reporter: Reporter
) -> None:
    """Run mods in a container that runs. Raises ServeError with the end of what a failing one printed."""
    for mod in mods:
        with reporter.task(f"{host}: the mod {mod.name}"):
            _apply(engine, container, host, workdir, mod)


def _apply(engine: Engine, container: str, host: str, workdir: str, mod: FoundMod) -> None:
    put_files(engine, container, {f"{PLACE}/{mod.name}/.keep": (b"", 0o644)})
    put_archive(engine, container, f"{PLACE}/{mod.name}", _packed(mod.files))
    argv = ["sh", "-c", RUN, "sh", workdir]
    code, output = run_inside(engine, container, argv, user="0", workdir=f"{PLACE}/{mod.name}")
    if code:
        raise ServeError(
            f"the mod {mod.name} failed on {host}: its run.sh exited with {code}",
            where=last_lines(output, 10),
            hint=BAKE.format(name=mod.path if os.sep in str(mod.path) else mod.name),
        )


def _packed(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, file in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.type = MODES[file.kind], TYPES.get(file.kind, tarfile.REGTYPE)
            member.linkname = os.fsdecode(file.content) if file.kind == "link" else ""
            member.size = len(file.content) if file.kind in ("file", "executable") else 0
            tar.addfile(member, io.BytesIO(file.content) if member.size else None)
    return out.getvalue()
