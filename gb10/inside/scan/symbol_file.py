"""The symbols of a layer in a file: what each library offers and wants, links, the loader's cache. Packed by gzip."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gb10.inside.scan.linkage import Linkage

SCHEMA = "gb10/symbols/v1"


@dataclass(kw_only=True, slots=True)
class Symbols:
    """What the loader finds in the layers so far; paths are relative to the root. ``cache``: name -> files."""

    libraries: list[Linkage] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    cache: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the file, deterministic: same layer, same bytes."""
        libraries = sorted(self.libraries, key=lambda library: library.path)
        document = {
            "schema": SCHEMA,
            "libraries": [asdict(library) for library in libraries],
            "links": self.links,
            "cache": self.cache,
            "gone": list(self.gone),
        }
        path.write_bytes(gzip.compress(json.dumps(document, sort_keys=True).encode(), 6, mtime=0))


def read_symbols(path: Path) -> Symbols:
    """What such a file holds; raises ValueError, KeyError or TypeError for another one."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    if document["schema"] != SCHEMA:
        raise ValueError(f"{path} is no {SCHEMA} document")
    return Symbols(
        libraries=[Linkage(**{**one, "needed": tuple(one["needed"])}) for one in document["libraries"]],
        links=document["links"],
        cache={name: tuple(files) for name, files in document["cache"].items()},
        gone=tuple(document["gone"]),
    )


def merge_layers(layers: Sequence[Symbols]) -> Symbols:
    """The symbols of an image of these layers, lowest first: what a later one has at a path hides what lay there."""
    libraries: dict[str, Linkage] = {}
    links: dict[str, str] = {}
    cache: dict[str, tuple[str, ...]] = {}
    for layer in layers:
        hidden = {*layer.gone, *layer.links, *(library.path for library in layer.libraries)}
        libraries = {path: one for path, one in libraries.items() if path not in hidden}
        links = {path: target for path, target in links.items() if path not in hidden}
        libraries |= {library.path: library for library in layer.libraries}
        links |= layer.links
        cache = layer.cache or cache
    return Symbols(libraries=[libraries[path] for path in sorted(libraries)], links=links, cache=cache)
