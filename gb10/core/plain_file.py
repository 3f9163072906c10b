"""A file that the user names, read up to a size, whatever it turns out to be."""

import os
import stat
from pathlib import Path

from gb10.errors import UsageError


def read_plain_file(path: Path, most: int, hint: str | None = None) -> bytes:
    """The bytes of a plain file. Raises UsageError for another kind of file, one that cannot be read or is larger.

    ``most`` is in bytes. A pipe without a writer does not block.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123 - Path has no flags
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{path} is no plain file", hint=hint)
            content = stream.read(most + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error), hint=hint) from error
    if len(content) > most:
        raise UsageError(f"{path} is larger than {most >> 20} MiB", hint=hint)
    return content
