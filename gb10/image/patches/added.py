"""The files that a patch adds: those in its own ``files/``, and those of our kernels that its record names."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gb10.errors import PatchError
from gb10.image.patches.diff import check_size


def added_files(patch: Path, checkout: Path, adds: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """Path in the source -> content; raises PatchError for a link, a name that means nothing, a file added twice."""
    found = [*_own(patch), *_of_kernels(checkout, adds, str(patch))]
    check_size(sum(path.stat().st_size for _, path in found), str(patch))
    twice = [place for place, number in Counter(place for place, _ in found).items() if number > 1]
    if twice:
        raise PatchError(f"{twice[0]} is added twice", where=str(patch))
    return {place: path.read_bytes() for place, path in sorted(found)}


def _own(patch: Path) -> Iterator[tuple[str, Path]]:
    """What lies in a folder's ``files/``."""
    folder = patch / "files"
    for path in _plain([patch, folder, *folder.rglob("*")]) if patch.is_dir() else ():
        yield path.relative_to(folder).as_posix(), path


def _of_kernels(checkout: Path, adds: Mapping[str, Sequence[str]], where: str) -> Iterator[tuple[str, Path]]:
    """Files of ``kernels/<set>``, laid flat into a folder of the source."""
    for folder, names in adds.items():
        for name in names:
            above = [checkout / part for part in Path(name).parents[:-1]]
            files = _plain([*above, *checkout.glob(name)])
            if not files:
                raise PatchError(f"adds: there is no {name}", where=where, hint="name files of the checkout's kernels/")
            for path in files:
                yield f"{folder}/{path.name}", path


def _plain(paths: Iterable[Path]) -> list[Path]:
    """The files among them; raises PatchError when one is a link."""
    known = list(paths)
    link = next((path for path in known if path.is_symlink()), None)
    if link:
        raise PatchError(f"{link.name} is a link: a patch adds plain files", where=str(link))
    return [path for path in known if path.is_file()]
