"""Apply the diffs of this folder to installed packages: each text is found exactly once, or no file is written."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HEAD = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
HERE = Path(__file__).resolve().parent


def main() -> None:
    """Apply all diffs in the order of their names; one that is there already stays as it is."""
    texts: dict[Path, str] = {}
    said = []
    for diff in sorted(HERE.glob("*.patch")):
        found = [apply(texts, path, old, new) for path, old, new in hunks(diff)]
        if not found or len(set(found)) > 1:
            half = f"{diff.name}: {sum(found)} of its {len(found)} changes are there already"
            sys.exit(f"{half}: start from an untouched image")
        said.append(f"{diff.stem}: {'there already' if found[0] else 'applied'}")
    for path, text in texts.items():
        ast.parse(text, str(path))
    for path, text in texts.items():
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
    print("\n".join(said))


def apply(texts: dict[Path, str], path: Path, old: str, new: str) -> bool:
    """Change a file in ``texts``; whether the change was there already. Ends the program where it fits neither way."""
    text = texts[path] if path in texts else read(path)
    places, there = count(text, old), count(text, new)
    if (places, there) == (1, 0):
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    elif (places, there) != (count(new, old), 1):  # a text that is put before others leaves these
        sys.exit(f"{path} has another shape: found {places} times, not once:\n{old}")
    texts[path] = text
    return there == 1


def count(text: str, block: str) -> int:
    """How often whole lines stand in a text."""
    return f"\n{text}".count(f"\n{block}")


def hunks(diff: Path) -> Iterator[tuple[Path, str, str]]:
    """The file, the lines that must stand there, and the lines in their place, of each change of a unified diff."""
    lines = iter(diff.read_text(encoding="utf-8").splitlines(keepends=True))
    path = None
    for line in lines:
        if line.startswith("+++ b/"):
            path = installed(line[len("+++ b/") :].strip())
        head = HEAD.match(line)
        if head is None or path is None:
            continue
        before, after = (int(number or 1) for number in head.groups())
        old, new = [], []
        while len(old) < before or len(new) < after:
            kind, *rest = next(lines)
            old += ["".join(rest)] if kind in " -" else []
            new += ["".join(rest)] if kind in " +" else []
        yield path, "".join(old), "".join(new)


def installed(name: str) -> Path:
    """Where a file of a package lies, without importing it."""
    package, _, rest = name.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{package} is not installed here")
    return Path(next(iter(found.submodule_search_locations))) / rest


def read(path: Path) -> str:
    """A file of a package."""
    if not path.is_file():
        sys.exit(f"{path} is not there: this release has another layout")
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
