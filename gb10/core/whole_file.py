"""A small file that is written whole or not at all."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

from gb10.errors import UsageError


def write_whole(path: Path, text: str, what: str = "") -> None:
    """Write a file anew: a reader sees the old text or the new one. Raises UsageError.

    ``what`` names it in the error: ``the lock``.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(" ".join(filter(None, ("cannot write", what, str(path)))), where=str(error)) from error
