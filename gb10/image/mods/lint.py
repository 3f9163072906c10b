"""Check a mod's files against the contract. Pure."""

import posixpath
import re
from typing import Final

from gb10.core.folder_files import SCRIPT, Files
from gb10.errors import UsageError
from gb10.image.mods.declaration import RECORD, ModRecord, parse_record

LONGEST_LINK: Final = 1000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
INTERPRETERS: Final = ("bash", "sh", "dash", "python3")


def check_mod(name: str, files: Files) -> ModRecord | None:
    """The record of a mod, None without mod.yaml. Raises UsageError with all breaches of the contract."""
    problems = problems_of(name, files)
    if problems:
        hint = "a mod is a folder or a zip with run.sh at its top; docs/mods.md, Add one"
        raise UsageError(f"the mod {name} breaks the contract", where="\n".join(problems), hint=hint)
    if RECORD not in files:
        return None
    return parse_record(files[RECORD].content.decode("utf-8", "replace"), f"{name}/{RECORD}")


def problems_of(name: str, files: Files) -> list[str]:
    """Everything that breaks the contract, one sentence each."""
    found = []
    if not NAME.fullmatch(name):
        found.append(f"the name {name!r} cannot be a folder's name: letters, digits and . _ + -, at most 64")
    found += _script_problems(files)
    for path, file in files.items():
        if file.kind == "link":
            found += _link_problems(path, file.content.decode(errors="replace"))
        if any(files[above].kind == "link" for above in _above(path) if above in files):
            found.append(f"{path} is below a link")
    return found


def _link_problems(path: str, target: str) -> list[str]:
    if not target or not target.isprintable() or len(target) > LONGEST_LINK:
        return [f"the link {path} names no usable path: {target[:LONGEST_LINK]!a}"]
    return [] if _stays_inside(path, target) else [f"the link {path} leads out of the mod, to {target}"]


def _script_problems(files: Files) -> list[str]:
    script = files.get(SCRIPT)
    if script is None:
        below = [path for path in files if path.endswith(f"/{SCRIPT}")]
        return [f"{SCRIPT} is missing" + (f"; {below[0]} is not at the top" if below else "")]
    if script.kind == "folder":
        return [f"{SCRIPT} is a folder"]
    if b"\r\n" in script.content:
        return [f"{SCRIPT} has Windows line ends: the shell would look for 'bash\\r'"]
    return []


def remarks_of(files: Files) -> list[str]:
    """Warnings for the maintainer of a mod; the mod still runs."""
    first = files[SCRIPT].content.partition(b"\n")[0].decode(errors="replace")
    if not first.startswith("#!"):
        return [f"{SCRIPT} names no interpreter: bash runs it; begin it with #!/usr/bin/env bash"]
    words = [posixpath.basename(word) for word in first[2:].split()]
    program = next((word for word in words if word not in ("env", "-S")), "")
    if program not in INTERPRETERS:
        return [f"{SCRIPT} needs {program!r}; every image has {', '.join(INTERPRETERS)}"]
    return []


def _stays_inside(path: str, target: str) -> bool:
    if target.startswith("/"):
        return False
    return not posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).startswith("..")


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
