"""How ld.so finds libraries among the files of an image: search paths, links, the cache, what was loaded before."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gb10.inside.scan.linkage import Linkage
from gb10.inside.scan.symbol_file import Symbols

TRIPLETS = {183: "aarch64-linux-gnu", 62: "x86_64-linux-gnu", 243: "riscv64-linux-gnu"}
LINKS = 40
"""Links in one path, as Linux has it."""


@dataclass(eq=False, slots=True)
class Library:
    """A linkage, and what it offers of the names that anybody wants: versions by name."""

    linkage: Linkage
    offers: dict[str, set[str]] = field(default_factory=dict)

    def has(self, name: str, version: str) -> bool:
        """Whether it offers a symbol. A library without versions serves every version."""
        versions = self.offers.get(name)
        return versions is not None and (not version or version in versions or not self.linkage.versioned)


class Loader:
    """The libraries of one machine, and the way ld.so finds them."""

    def __init__(self, symbols: Symbols, search: Sequence[str] = ()) -> None:
        self.machine = _machine_of(symbols.libraries)
        own = [one for one in symbols.libraries if one.machine == self.machine]
        wanted = {split(line)[0] for one in own for _, line in wants(one)}
        self.libraries = {f"/{one.path}": Library(one, _offered(one, wanted)) for one in own}
        self.links = {f"/{path}": target for path, target in symbols.links.items()}
        self.cache, self.search = symbols.cache, search
        self.by_name: dict[str, list[str]] = defaultdict(list)
        for path, library in self.libraries.items():
            for name in {library.linkage.soname, path.rpartition("/")[2]} - {""}:
                self.by_name[name].append(path)
        triplet = TRIPLETS.get(self.machine, "")
        self.default = [f"/{top}/{triplet}" for top in ("lib", "usr/lib")] + [
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        ]

    def real(self, path: str) -> str:
        """Where a path leads, by the image's own links; nothing where they lead in a circle."""
        left, at, links = path.split("/")[::-1], "", 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            target = self.links.get(f"{at}/{part}")
            if target is None:
                at = f"{at}/{part}"
                continue
            links += 1
            if links > LINKS:
                return ""
            at = "" if target.startswith("/") else at
            left += target.split("/")[::-1]
        return at

    def find(self, name: str, chain: Sequence[str]) -> str:
        """The file of a library that the last of ``chain`` needs, the others having loaded it; nothing if none is."""
        if "/" in name:
            found = self.real(_at(name, chain[-1]))
            return found if found in self.libraries else ""
        for place in (*(f"{folder}/{name}" for folder in self._folders(chain)), *self.cache.get(name, ())):
            found = self.real(place)
            if found in self.libraries:
                return found
        places = (self.real(f"{folder}/{name}") for folder in self.default)
        return next((place for place in places if place in self.libraries), "")

    def _folders(self, chain: Sequence[str]) -> Iterator[str]:
        last = self.libraries[chain[-1]].linkage
        if last.inherited or not last.search:
            for path in reversed(chain):
                if self.libraries[path].linkage.inherited:
                    yield from _entries(self.libraries[path].linkage.search, path)
        yield from self.search
        if not last.inherited:
            yield from _entries(last.search, chain[-1])

    def loaded_before(self, name: str) -> str:
        """A library of this name that offers symbols: first one with this file name, then one with this soname."""
        found = [path for path in self.by_name.get(name, ()) if self.libraries[path].linkage.offers]
        return min(found, key=lambda path: (not path.endswith(f"/{name}"), path), default="")

    def scope(self, path: str) -> tuple[list[str], list[str]]:
        """A library and all that it needs, breadth first, as it is searched; and what it needs itself and is absent."""
        chains, waiting, absent = {path: [path]}, deque([path]), list[str]()
        loaded = {self.libraries[path].linkage.soname: path}
        while waiting:
            one = waiting.popleft()
            for name in self.libraries[one].linkage.needed:
                found = loaded.get(name) or self.find(name, chains[one]) or self.loaded_before(name)
                if not found and one == path:
                    absent.append(name)
                if found and found not in chains:
                    chains[found] = [*chains[one], found]
                    loaded |= {self.libraries[found].linkage.soname: found, name: found}
                    waiting.append(found)
        return list(chains), absent


def _machine_of(libraries: Iterable[Linkage]) -> int:
    """The machine of most programs, else of most libraries: an image may hold parts for others."""
    found = list(libraries)
    counted = Counter(one.machine for one in found if one.program) or Counter(one.machine for one in found)
    return max(counted, key=lambda machine: (counted[machine], machine), default=0)


def _offered(library: Linkage, wanted: set[str]) -> dict[str, set[str]]:
    offers: dict[str, set[str]] = defaultdict(set)
    for line in library.offers.splitlines():
        name, version = split(line)
        if name in wanted:
            offers[name].add(version)
    return dict(offers)


def wants(library: Linkage) -> Iterator[tuple[str, str]]:
    """The symbols that a library wants, each with the moment at which it must be there: ``load`` or ``call``."""
    yield from (("load", line) for line in library.at_load.splitlines())
    yield from (("call", line) for line in library.at_call.splitlines())


def split(line: str) -> tuple[str, str]:
    """Name and version of a symbol."""
    name, _, version = line.partition("@")
    return name, version


def _entries(search: str, path: str) -> Iterator[str]:
    return (_at(entry, path) for entry in search.split(":") if entry)


def _at(entry: str, path: str) -> str:
    """A folder of a search path of the library at ``path``."""
    origin = str(PurePosixPath(path).parent)
    return entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
