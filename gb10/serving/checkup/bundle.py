"""A bundle: what a maintainer needs to understand a machine, in one archive of bounded size, without secrets."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.serving.doctor.log_scan import last_lines_of

MOST: Final = 48 << 20
"""Bytes of all its files together."""
EACH: Final = 4 << 20
"""Bytes of one file: the end of it counts."""
CUT: Final = b"[the beginning is left out]\n"
README: Final = """\
What `./build.py doctor --bundle` read. Secrets are replaced by ***: look once more before you send it.

findings.json   what doctor found, schema gb10/doctor/v1
machines/       what each machine shows, as its scripts say it
containers/     what each container runs, its variables masked
plans/          the plan.json of each image
logs/           the end of each log
"""


def bundle(files: Mapping[str, bytes | str], known: Sequence[str] = (), *, most: int = MOST, each: int = EACH) -> bytes:
    """The archive of these files, each masked and cut to its end; the same for the same files. Pure.

    ``known`` are secrets that are masked wherever they stand.
    """
    out, left = io.BytesIO(), most
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in {"README": README, **files}.items():
            data = _bounded(content, min(each, left), known)
            left -= len(data)
            member = tarfile.TarInfo(f"gb10-doctor/{name}")
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _bounded(content: bytes | str, most: int, known: Sequence[str]) -> bytes:
    """The content without secrets; of a larger one the last whole lines: half a secret could not be known."""
    from gb10.serving.doctor.masking import masked  # noqa: PLC0415 - its patterns, for a bundle

    raw = content.encode() if isinstance(content, str) else content
    part = last_lines_of(raw, max(0, most))
    data = masked(part.decode("utf-8", "replace"), known).encode()
    if part is raw and len(data) <= most:
        return data
    left = most - len(CUT)
    return CUT + last_lines_of(data, left) if left > 0 else b""


def file_name(text: str) -> str:
    """A name of a file in the archive, of the name of anything. Pure."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-@") else "_" for one in text)[:100].lstrip(".")


def as_text(document: object) -> str:
    """A document as a text. Pure."""
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"


def write_bundle(path: Path, files: Mapping[str, bytes | str], known: Sequence[str] = ()) -> str:
    """Write the archive whole, readable by its owner alone; returns its sha256. Raises UsageError."""
    content = bundle(files, known)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - no mode
            out.write(content)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write {path}: {reason}", hint="choose another file for --bundle") from error
    return hashlib.sha256(content).hexdigest()
