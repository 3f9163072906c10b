"""What a release of an engine has new for GPUs of capability 12.x: read from its text, against the release before."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gb10.image.lock.moves import Demand, extras_of
from gb10.image.patches.places import harmless
from gb10.image.patches.source_tree import Tree
from gb10.models.lint.engine_words import ENGINES, EngineWords, read_engine

NAMED: Final = re.compile(
    r"(?<![a-z0-9])(sm_?12[01x](?!\d)|gb10(?![a-z0-9])|dgx[ _-]?spark|b12x|12\.[01][af](?![a-z0-9])|12\.x(?![a-z0-9]))"
    r"|capability(_family)?\(\s*\(?12[01]?\b|(?<!\d)\(12, ?[01]\)",
    re.IGNORECASE,
)
"""How upstream's text names a GPU of 12.x, or kernels for it."""
HINT: Final = re.compile(r"12|[gG][bB]10|[sS]park|SPARK")
"""What a line must hold for NAMED, which takes ten times as long."""
TEXTS: Final = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cmake", "CMakeLists.txt")
TESTS: Final = re.compile(r"(^|/)tests?/")
LARGEST: Final = 4 << 20
"""Bytes of a file that is read."""
LONGEST: Final = 100
"""Characters of a line that is shown."""
MOST: Final = 1000
"""Files that are kept, those with the most new lines first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A file with new lines that name 12.x: how many, and the first of them."""

    path: str
    new: bool
    lines: int
    first: str


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """``options``: new options and values; ``packages``: optional packages that changed."""

    options: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


def news(engine: str, old: Tree, new: Tree, demands: tuple[tuple[Demand, ...], tuple[Demand, ...]]) -> News:
    """What of the new tree names 12.x and is not in the old one; ``demands`` of both."""
    places = sorted(_places(old, new), key=lambda place: (-place.lines, place.path))
    words = tuple(_words(engine, tree) for tree in (old, new))
    return News(
        options=tuple(_options(*words)),
        environment=tuple(name for name in sorted(words[1].environment - words[0].environment) if NAMED.search(name)),
        packages=tuple(_packages(*demands)),
        places=tuple(places[:MOST]),
    )


def _words(engine: str, tree: Tree) -> EngineWords:
    """The options and names of an engine that is known; none of another, or of files that are not Python."""
    if engine not in ENGINES:
        return EngineWords()
    paths = (path for path in tree.paths() if path.endswith(".py") and path.startswith(f"{engine}/"))
    try:
        return read_engine(engine, {path: text for path in paths if (text := _text(tree, path)) is not None})
    except (SyntaxError, RecursionError, ValueError):  # the last: a NUL in the text
        return EngineWords()


def _options(old: EngineWords, new: EngineWords) -> Iterator[str]:
    """New options, and new values of options, that name 12.x."""
    for name, choices in sorted(new.options.items()):
        if name not in old.options and NAMED.search(f"{name} {' '.join(choices)}"):
            yield name
        fresh = [choice for choice in choices if name in old.options and choice not in old.options[name]]
        yield from (f"{name} {choice}" for choice in fresh if NAMED.search(choice))


def _packages(old: Iterable[Demand], new: Iterable[Demand]) -> Iterator[str]:
    """Optional packages that are new or have other requirements."""
    before = extras_of(old)
    for extra, requirements in sorted(extras_of(new).items()):
        fresh = [text for text in requirements if text not in before.get(extra, ())]
        if fresh and NAMED.search(" ".join((extra, *requirements))):
            yield f"[{extra}]: {', '.join(fresh)}"


def _places(old: Tree, new: Tree) -> Iterator[Place]:
    tops = {path.partition("/")[0] for path in old.paths()}
    for path in new.paths():
        if path.endswith(TEXTS) and path.partition("/")[0] in tops and not (harmless(path) or TESTS.search(path)):
            before, after = old.read(path), new.read(path)
            if after is not None and after != before:
                fresh = _lines_with_12x(after) - _lines_with_12x(before or b"")
                if fresh:
                    yield Place(path=path, new=before is None, lines=fresh.total(), first=next(iter(fresh))[:LONGEST])


def _lines_with_12x(content: bytes) -> Counter[str]:
    """The lines that name 12.x, without their indentation, in the order of the file."""
    lines = content.decode("utf-8", "replace").splitlines() if len(content) <= LARGEST else []
    return Counter(_shown(line) for line in lines if HINT.search(line) and NAMED.search(line))


def _shown(line: str) -> str:
    """A line as a terminal may show it."""
    return "".join(sign if sign.isprintable() else " " for sign in line).strip()


def _text(tree: Tree, path: str) -> str | None:
    content = tree.read(path)
    return content.decode("utf-8", "replace") if content is not None and len(content) <= LARGEST else None


def document(found: News) -> Mapping[str, object]:
    """The news as data."""
    return {
        "options": list(found.options),
        "environment": list(found.environment),
        "packages": list(found.packages),
        "files": [
            {"path": place.path, "new": place.new, "lines": place.lines, "first": place.first} for place in found.places
        ],
    }
