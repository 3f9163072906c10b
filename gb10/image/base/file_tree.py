"""The files of an image, of all its layers together, as an engine would lay them on each other. Nothing is unpacked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gb10.image.base.layer_index import LayerIndex
from gb10.image.base.layer_stream import damaged, inside

MOST_FILES: Final = 1 << 21
"""Of all layers together."""
MOST_LAYERS: Final = 256
"""Engines take some 127."""
TOO_FAR: Final = "the image's links lead too far: they take longer to follow than any image needs"
HOPS: Final = 40
"""Links that are followed on the way to one file: Linux's own limit."""
MOST_STEPS: Final = 30_000_000
"""Parts of paths that are looked up, of one image: seconds. To lay the layers of 8 GB on each other takes 2 million."""


@dataclass(frozen=True, slots=True)
class File:
    """A file: whether it can be executed, what it says, if it was read, and where: the layer's number and its own."""

    program: bool
    fact: str | None
    layer: int
    number: int


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Special:
    """A device or a pipe."""


SPECIAL = Special()


class Folder(dict[str, "Node"]):
    """A folder: its files by name."""


Node = File | Link | Special | Folder


class FileTree:
    """The merged files. Paths are absolute; links are followed within the image."""

    def __init__(self, layers: Iterable[LayerIndex] = ()) -> None:
        """Lay the layers on each other, lowest first. Raises VerifyError where no engine could."""
        self.root = Folder()
        self.count = self.steps = 0
        for number, layer in enumerate(layers):
            if number >= MOST_LAYERS:
                raise damaged(f"the image has more than {MOST_LAYERS} layers")
            self._lay(number, layer)

    def find(self, path: str) -> Node | None:
        """What is at a path, at the end of its links; None for nothing, a dangling link, a loop."""
        found = self.real(path)
        return None if found is None else self._at(found)

    def real(self, path: str) -> str | None:
        """The path without links, if something is there."""
        parts = self._walk(path)
        return None if parts is None or self._at("/" + "/".join(parts)) is None else "/" + "/".join(parts)

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there."""
        return isinstance(self.find(path), Folder)

    def fact(self, path: str) -> str | None:
        """What the file at a path says, if it was read."""
        found = self.find(path)
        return found.fact if isinstance(found, File) else None

    def names(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted; none where there is no folder."""
        found = self.find(path)
        return tuple(sorted(found)) if isinstance(found, Folder) else ()

    def files(self, path: str) -> Iterator[str]:
        """The paths of all that is no folder below the folder at a path; links below it are not followed."""
        real, top = self.real(path), self.find(path)
        if real is not None and isinstance(top, Folder):
            yield from (place for place, node in self._below(real.rstrip("/"), top) if not isinstance(node, Folder))

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Every path with what is there, links not followed."""
        yield from self._below("", self.root)

    def _below(self, path: str, top: Folder) -> Iterator[tuple[str, Node]]:
        ahead: list[tuple[str, Folder]] = [(path, top)]
        while ahead:
            above, folder = ahead.pop()
            for name, node in folder.items():
                path = f"{above}/{name}"
                yield path, node
                if isinstance(node, Folder):
                    ahead.append((path, node))

    def _at(self, real: str) -> Node | None:
        """What is at a path without links."""
        node: Node | None = self.root
        for part in real.split("/"):
            if part:
                node = node.get(part) if isinstance(node, Folder) else None
        return node

    def _walk(self, path: str) -> list[str] | None:
        """The parts of a path without links; what is not there is taken as it is written. None for a loop.

        Raises VerifyError when the image has cost too many steps.
        """
        ahead, done, nodes, hops = path.split("/")[::-1], list[str](), list[Node | None]([self.root]), 0
        while ahead:
            part = ahead.pop()
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise damaged(TOO_FAR)
            if part in ("", "."):
                continue
            if part == "..":
                if done:
                    done.pop()
                    nodes.pop()
                continue
            above = nodes[-1]
            node = above.get(part) if isinstance(above, Folder) else None
            if isinstance(node, Link):
                hops += 1
                if hops > HOPS:
                    return None
                if node.target.startswith("/"):
                    done, nodes = [], [self.root]
                ahead += node.target.split("/")[::-1]
                continue
            done.append(part)
            nodes.append(node)
        return done

    def _lay(self, at: int, layer: LayerIndex) -> None:
        """One layer: what it removes goes first, of the layers below alone; then what it brings."""
        self._remove(layer)
        last: str | None = None
        folder = self.root
        for number, (kind, path, target, fact) in enumerate(layer.entries()):
            if kind in "wo":
                continue
            self.count += 1
            if self.count > MOST_FILES:
                raise damaged(f"the image has more than {MOST_FILES:,} files")
            parent, _, name = path.rpartition("/")
            if parent != last:
                last, folder = parent, self._made(parent)
            existing = folder.get(name)
            if kind == "d":
                if not isinstance(existing, Folder):
                    folder[name] = Folder()
                    last = None
                continue
            if isinstance(existing, (Folder, Link)) or kind == "l":
                last = None  # what a path leads to may be another folder now
            if kind in "fx":
                folder[name] = File(kind == "x", fact, at, number)
            else:
                folder[name] = self._brought(kind, path, target)

    def _remove(self, layer: LayerIndex) -> None:
        for kind, path, _, _ in layer.entries():
            if kind == "w" and (above := self._folder_of(path)) is not None:
                above.pop(path.rpartition("/")[2], None)
            elif kind == "o" and (found := self._existing(path)) is not None:
                found.clear()

    def _brought(self, kind: str, path: str, target: str) -> Node:
        if kind == "h":
            found = self._at_parent(inside(target))
            if found is None or isinstance(found, Folder):
                raise damaged(f"a hard link to no file: {ascii(path)[:200]}")
            return found
        return Link(target) if kind == "l" else SPECIAL

    def _at_parent(self, path: str) -> Node | None:
        """What is at a path whose last part is no link to be followed."""
        above = self._folder_of(path)
        return above.get(path.rpartition("/")[2]) if above is not None else None

    def _folder_of(self, path: str) -> Folder | None:
        return self._existing(path.rpartition("/")[0])

    def _existing(self, path: str) -> Folder | None:
        parts = self._walk(path)
        node = self._at("/".join(parts)) if parts is not None else None
        return node if isinstance(node, Folder) else None

    def _made(self, path: str) -> Folder:
        """The folder of a path, made where it is missing, at the end of links. Raises VerifyError."""
        parts = self._walk(path)
        if parts is None:
            raise damaged(f"a loop of links: {ascii(path)[:200]}")
        folder = self.root
        for part in parts:
            node = folder.get(part)
            if node is None:
                node = folder[part] = Folder()
            if not isinstance(node, Folder):
                raise damaged(f"a file below a file: {ascii(path)[:200]}")
            folder = node
        return folder
