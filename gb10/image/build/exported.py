"""What a stage may export: the files that its caller expects, each a regular one."""

import stat
from fnmatch import fnmatchcase
from pathlib import Path

from gb10.errors import BuildError


def check_exported(folder: Path, *expected: str) -> None:
    """Raise BuildError for any other name, a link or a folder: compiled code may write any file.

    The store reads and writes here with your rights, and would follow a link out of the folder.
    """
    wrong = [path.name for path in sorted(folder.iterdir()) if not _is_expected(path, expected)]
    if wrong:
        raise BuildError(
            f"the build stage exported {', '.join(map(ascii, wrong[:5]))}",
            where=f"expected only regular files: {', '.join(expected)}",
            hint="a patch or a source tree that the stage compiled may have written it: read them",
        )


def _is_expected(path: Path, expected: tuple[str, ...]) -> bool:
    named = any(fnmatchcase(path.name, pattern) for pattern in expected)
    return named and stat.S_ISREG(path.lstat().st_mode)
