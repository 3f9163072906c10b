"""Inside a build stage, after install.py: leave out the files that rules name, and parts of libraries.

    slim.py --rules FILE --out ROOT --epoch SECONDS

FILE is a list of rules for the distributions of this layer. Each pattern must match a file of RECORD. RECORD then lists
what is left. No library that stays may need one that is left out. A rule that changes files names the licence that was
read: its text must be the same.
"""

import argparse
import base64
import csv
import hashlib
import io
import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from gb10.inside.install.install import BIN, SITE, clamp
from gb10.inside.scan.elf import ELF_MAGIC, LITTLE_64, DamagedError, Elf
from gb10.inside.slim.gpu_code import thinned
from gb10.inside.slim.symbols import stripped

BELOW = "**"
Rows = dict[str, list[str]]


def main() -> None:
    """Parse, apply each rule, check, clamp."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    gone = {name for rule in json.loads(options.rules.read_text(encoding="utf-8")) for name in apply(rule, options.out)}
    check_needed(options.out, gone)
    clamp(options.out, options.epoch)


def apply(rule: dict[str, Any], out: Path) -> set[str]:
    """Apply a rule to one distribution: the names of the files that it left out. Raises SystemExit."""
    record = find_record(out / SITE, rule["project"])
    rows = {row[0]: row for row in csv.reader(io.StringIO(record.read_text(encoding="utf-8"))) if row}
    names = matching(rule, rule["files"], rows)
    before = sum(installed_path(out, name).stat().st_size for name in names)
    if rule["action"] == "drop":
        after = drop_all(out, names, rows)
    else:
        check_licence(rule, rows, out)
        after = sum(change_file(installed_path(out, name), rows[name], change_for(rule)) for name in names)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows.values())
    record.write_text(text.getvalue(), encoding="utf-8")
    saved = f"{len(names)} files, {(before - after) / 1e6:.1f} MB less"
    print(f"slim: {rule['name']}: {rule['project']}: {saved}", flush=True)
    return {PurePosixPath(name).name for name in names} if rule["action"] == "drop" else set()


def find_record(site: Path, project: str) -> Path:
    """RECORD of an installed distribution; raises SystemExit unless there is exactly one."""
    found = [path for path in sorted(site.glob("*.dist-info/RECORD")) if canonical(path.parent.name) == project]
    if len(found) != 1:
        raise SystemExit(f"slim: {len(found)} installed releases of {project} in this layer, not one")
    return found[0]


def canonical(info: str) -> str:
    """The project's name by the name of its dist-info folder (PEP 503)."""
    return re.sub(r"[-_.]+", "-", info.split("-", maxsplit=1)[0]).lower()


def matching(rule: dict[str, Any], patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """The listed files that these patterns of a rule match; raises SystemExit for a pattern without a file."""
    listed, found = list(names), list[str]()
    for pattern in patterns:
        hits = [name for name in listed if matches(name, pattern)]
        if not hits:
            raise SystemExit(
                f"slim: the rule {rule['name']} matches nothing: {rule['project']} has no {pattern}\n"
                "correct the rule in recipes/slim.yaml, or remove it"
            )
        found += hits
    return list(dict.fromkeys(found))


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a path: ``*`` within one folder, ``**`` at the end for all below a folder."""
    parts, wanted = name.split("/"), pattern.split("/")
    if wanted[-1] == BELOW and len(parts) >= len(wanted):
        parts, wanted = parts[: len(wanted) - 1], wanted[:-1]
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def installed_path(out: Path, name: str) -> Path:
    """The path of an installed file by its name in RECORD. Raises SystemExit for a name that leaves its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SystemExit(f"slim: RECORD names {name}, which is outside of its folder")
    return out / (BIN if path.parts[0] == "bin" else SITE / path.parts[0]).joinpath(*path.parts[1:])


def drop_all(out: Path, names: list[str], rows: Rows) -> int:
    """Remove the files, their bytecode and the folders that are empty then; 0 bytes of them are left."""
    for name in names:
        path = installed_path(out, name)
        path.unlink()
        for cached in path.parent.glob(f"__pycache__/{path.stem}.*.pyc") if path.suffix == ".py" else ():
            cached.unlink()
        remove_empty_folders(path.parent, out / SITE)
        del rows[name]
    return 0


def remove_empty_folders(folder: Path, stop: Path) -> None:
    """Remove empty folders, upwards; ``__pycache__`` first."""
    cache = folder / "__pycache__"
    if cache.is_dir() and not any(cache.iterdir()):
        cache.rmdir()
    while stop in folder.parents and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def check_licence(rule: dict[str, Any], rows: Rows, out: Path) -> None:
    """Raise SystemExit unless the distribution has the licence that the rule was written for."""
    licence = rule["licence"]
    for name in matching(rule, [licence["file"]], rows):
        if hashlib.sha256(installed_path(out, name).read_bytes()).hexdigest() != licence["sha256"]:
            raise SystemExit(
                f"slim: {name} of {rule['project']} is not the licence that was read for the rule {rule['name']}\n"
                "read it, then correct licences in recipes/slim.yaml, or remove the rule"
            )


def change_for(rule: dict[str, Any]) -> Callable[[bytes], bytes]:
    """The function that changes each library of a rule."""
    if rule["action"] == "strip":
        return stripped
    return partial(thinned, capability=rule["capability"], hollow=rule["hollow"])


def change_file(path: Path, row: list[str], change: Callable[[bytes], bytes]) -> int:
    """Replace one library and its row of RECORD: its new size. Raises SystemExit when that saves nothing."""
    data = path.read_bytes()
    try:
        found = change(data)
    except DamagedError as error:
        raise SystemExit(f"slim: {path} cannot be changed: {error}") from None
    if len(found) >= len(data):
        raise SystemExit(f"slim: {path} would not be smaller: remove it from recipes/slim.yaml")
    fresh = path.with_name(f".{path.name}.slim")
    fresh.write_bytes(found)
    fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)
    value = base64.urlsafe_b64encode(hashlib.sha256(found).digest()).rstrip(b"=").decode()
    row[1:] = [f"sha256={value}", str(len(found))]
    return len(found)


def check_needed(out: Path, gone: set[str]) -> None:
    """Raise SystemExit when a library of this layer needs one that was left out, and no other file has that name."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and not path.is_symlink()]
    missing = gone - {path.name for path in files}
    users = [f"{path.relative_to(out)} needs {name}" for path in files for name in needed(path) if name in missing]
    if users:
        raise SystemExit("slim: a file that a rule leaves out is needed:\n" + "\n".join(sorted(users)))


def needed(path: Path) -> Iterator[str]:
    """The libraries that a file needs; none if it is no ELF."""
    with path.open("rb") as handle:
        if handle.read(6) == ELF_MAGIC + LITTLE_64:
            with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from Elf(data).dynamic()[0]


if __name__ == "__main__":
    main()
