"""Inside a build stage: which paths differ between the roots of two images, and how.

    differ.py BEFORE AFTER > files.json

Each path is compared by what a layer keeps of it: its kind, content or target, mode, owner, time, extended attributes.
Nothing is followed out of a root. The document has the first MOST paths, in order, and the count of all.
"""

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

MOST = 1000
CHUNK = 1 << 20


def main() -> None:
    """``differ.py BEFORE AFTER``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    json.dump(differences(options.before, options.after), sys.stdout, ensure_ascii=True)


def differences(before: Path, after: Path) -> dict[str, object]:
    """Paths with the words for what differs of each."""
    found, count = list[dict[str, object]](), 0
    for path, words in differing(before, after, ""):
        count += 1
        if count <= MOST:
            found.append({"path": path, "differs": words, "size": size_of(before / path, after / path)})
    return {"files": found, "count": count}


def size_of(*paths: Path) -> int:
    """The larger size of two plain files; 0 where one is none."""
    found = [path.lstat() for path in paths if os.path.lexists(path)]
    plain = len(found) == len(paths) and all(stat.S_ISREG(one.st_mode) for one in found)
    return max(one.st_size for one in found) if plain else 0


def differing(before: Path, after: Path, folder: str) -> Iterator[tuple[str, list[str]]]:
    """Every path below a folder that differs; what is in one root alone is named once, without what is below it."""
    names = [{one.name for one in os.scandir(root / folder)} for root in (before, after)]
    for name in sorted(names[0] | names[1]):
        path = f"{folder}{name}"
        if name not in names[1] or name not in names[0]:
            yield path, ["only before" if name in names[0] else "only after"]
            continue
        words = differs(before / path, after / path)
        if words:
            yield path, words
        if all(stat.S_ISDIR((root / path).lstat().st_mode) for root in (before, after)):
            yield from differing(before, after, f"{path}/")


def differs(before: Path, after: Path) -> list[str]:
    """What differs between two paths, as words."""
    old, new = before.lstat(), after.lstat()
    if stat.S_IFMT(old.st_mode) != stat.S_IFMT(new.st_mode):
        return ["kind"]
    kinds = {
        "mode": old.st_mode != new.st_mode,
        "owner": (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid),
        "time": int(old.st_mtime) != int(new.st_mtime),
        "device": old.st_rdev != new.st_rdev,
        "attributes": attributes(before) != attributes(after),
        "content": content_differs(before, after, old, new),
    }
    return [word for word, other in kinds.items() if other]


def attributes(path: Path) -> dict[str, bytes]:
    """Extended attributes, a link's own."""
    names = os.listxattr(path, follow_symlinks=False)
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}


def content_differs(before: Path, after: Path, old: os.stat_result, new: os.stat_result) -> bool:
    """Whether two links lead elsewhere, or two files hold other bytes."""
    if stat.S_ISLNK(old.st_mode):
        return before.readlink() != after.readlink()
    if not stat.S_ISREG(old.st_mode):
        return False
    return old.st_size != new.st_size or not same_bytes(before, after)


def same_bytes(before: Path, after: Path) -> bool:
    with before.open("rb") as one, after.open("rb") as other:
        while block := one.read(CHUNK):
            if block != other.read(CHUNK):
                return False
    return True


if __name__ == "__main__":
    main()
