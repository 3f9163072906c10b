"""Whether the loader finds every library and symbol of an image, from the symbols of its layers, lowest first.

    python3 linked.py [--search LD_LIBRARY_PATH] SYMBOLS... > linked.json

A library that is loaded into a program sees, in this order: the program, what that needs, itself, what it needs. What
it needs is searched as ld.so does: the RPATH of those that load it, LD_LIBRARY_PATH, its RUNPATH, the cache, the
default folders. Where that finds nothing, a library of this name that was loaded before serves it, as Python packages
arrange it by importing torch first. Plug-ins take symbols of the program that loads them. Nothing is run.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gb10.inside.scan.ld_so import Loader, split, wants
from gb10.inside.scan.symbol_file import Symbols, merge_layers, read_symbols

SCHEMA = "gb10/linked/v1"
LISTED = 1 << 14
"""Rows of a list; what is more is counted."""
EMBEDDED = ("libpython3", "libperl")
"""Interpreters that a program may embed, by the beginning of their file's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Absent:
    """A library that is needed and that no file of the image is."""

    path: str
    library: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unresolved:
    """A symbol that nothing in the image offers. ``when``: ``load`` or ``call``, the moment of the failure."""

    path: str
    symbol: str
    when: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """``count`` symbols without a version, of a library that this one does not need: somebody must load it before."""

    path: str
    by: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """What was found for the libraries and programs of an image's machine."""

    libraries: int = 0
    symbols: int = 0
    absent: tuple[Absent, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    more: int = 0
    """Rows beyond LISTED."""

    def to_json(self) -> str:
        """The document, deterministic."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)


def link(symbols: Symbols, search: Sequence[str] = ()) -> Linked:
    """Look up every library and symbol that the files of an image want."""
    loader = Loader(symbols, search)
    programs = [path for path, one in loader.libraries.items() if one.linkage.program]
    hosts = [*programs, *(path for path in loader.libraries if path.rpartition("/")[2].startswith(EMBEDDED))]
    absent, unresolved, elsewhere, count = list[Absent](), list[Unresolved](), list[Elsewhere](), 0
    for path, library in loader.libraries.items():
        scope, lacking = loader.scope(path)
        name = path[1:]
        absent += [Absent(path=name, library=one) for one in lacking]
        others: Counter[str] = Counter()
        for when, line in wants(library.linkage):
            count += 1
            if _first(loader, line, scope) or (not library.linkage.program and _first(loader, line, hosts)):
                continue
            by = "" if "@" in line else _first(loader, line, loader.libraries)
            if by:
                others[by] += 1
            else:
                unresolved.append(Unresolved(path=name, symbol=line, when=when))
        elsewhere += [Elsewhere(path=name, by=by[1:], count=number) for by, number in sorted(others.items())]
    more = sum(max(0, len(rows) - LISTED) for rows in (absent, unresolved, elsewhere))
    return Linked(
        libraries=len(loader.libraries),
        symbols=count,
        absent=tuple(absent[:LISTED]),
        unresolved=tuple(unresolved[:LISTED]),
        elsewhere=tuple(elsewhere[:LISTED]),
        more=more,
    )


def _first(loader: Loader, line: str, scope: Iterable[str]) -> str:
    name, version = split(line)
    return next((path for path in scope if loader.libraries[path].has(name, version)), "")


def main() -> None:
    """``linked.py SYMBOLS...``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", default="", help="the image's LD_LIBRARY_PATH")
    parser.add_argument("symbols", type=Path, nargs="+")
    options = parser.parse_args()
    layers = [read_symbols(path) for path in options.symbols]
    search = [folder for folder in options.search.split(":") if folder]
    sys.stdout.write(link(merge_layers(layers), search).to_json() + "\n")


if __name__ == "__main__":
    main()
