"""What a layer holds, as far as a base is read by it: its paths, links and whiteouts, and what a few files say."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gb10.image.base.layer_stream import Check, LayerStream, Member, damaged, members
from gb10.inside.scan.installed import cuda_of

FORMAT: Final = 1
"""Of the kept text: another one is read anew. Raise it with whatever changes what is kept of a layer."""
MOST_UNPACKED: Final = 128 << 30
"""Bytes of an unpacked layer, and of all layers of an image."""
MOST_FILES: Final = 1 << 20
MOST_NAMES: Final = 128 << 20
"""Characters of all paths and targets of a layer, and of all paths of an image."""
MOST_TEXT: Final = 32 << 20
"""Characters of all that is kept of files."""
HIDDEN: Final = ".wh."
OPAQUE: Final = ".wh..wh..opq"
FIELD: Final = re.compile(r"^(Name|Version):[ \t]*([^\r\n]{1,200})", re.IGNORECASE | re.MULTILINE)
GLIBC: Final = re.compile(rb"GNU C Library \([^)]{0,100}\) (?:stable|development) release version (\d\.\d{1,3})")
HEAD: Final = 1 << 16
"""Bytes of what is read by its begin: a METADATA, however large it is."""
WHOLE: Final = {
    "direct_url.json": 1 << 14,
    "pyvenv.cfg": 1 << 14,
    "os-release": 1 << 14,
    "passwd": 1 << 16,
}
"""Small files that are kept as they are, by name, and the most bytes of each."""
ENDINGS: Final = {".pth": 1 << 16, "_finder.py": 1 << 18}
"""The same by the end of the name. A model's weights may end in .pth, too: they are larger."""


def _name_and_version(head: bytes) -> str:
    fields = FIELD.findall(head.decode(errors="replace").replace("\r\n", "\n").partition("\n\n")[0])
    first = {name.lower(): value.strip() for name, value in reversed(fields)}
    return f"{first.get('name', '')}\n{first.get('version', '')}"


def _cuda(text: bytes) -> str:
    return cuda_of(text.decode(errors="replace"))


def _folders(text: bytes) -> str:
    return "dist-packages" if b'"dist-packages"' in text else "site-packages"


def _glibc(content: bytes) -> str:
    found = GLIBC.search(content)
    return found[1].decode() if found else ""


def _program(begin: bytes) -> str:
    if begin.startswith(b"\x7fELF") and len(begin) >= 20:
        return f"elf {int.from_bytes(begin[18:20], 'little' if begin[5] == 1 else 'big')}"
    return begin.decode(errors="replace")


SUSPECTS: Final = re.compile(
    r"METADATA|PKG-INFO|.+\.egg-info|(?:version|site)\.py|libc[.-].+|python[0-9.]*|vllm|sglang"
)
"""Names that one of the patterns of READERS may fit: most files are passed by one look."""
READERS: Final = (
    (r"[^/]+(?:\.dist-info/METADATA|\.egg-info/PKG-INFO|\.egg-info)", HEAD, _name_and_version),
    (r"torch/version\.py", HEAD, _cuda),
    (r"lib/python3\.\d+/site\.py", 4 * HEAD, _folders),
    (r"lib(?:32|64)?/(?:[\w-]+/)?libc(?:\.so\.6|-2\.\d+\.so)", 8 << 20, _glibc),
    (r"bin/(?:python[0-9.]*|vllm|sglang)", 1 << 10, _program),
)
"""By the end of a path: how many bytes of a file are read, and what is kept of them."""
PATTERNS: Final = tuple((re.compile(f"(?:.*/)?{end}", re.DOTALL), most, read) for end, most, read in READERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerIndex:
    """One layer. ``kinds`` has a letter for each of ``paths``: those of Member, ``w`` a whiteout of the path, ``o`` an
    opaque folder. ``targets`` of links and ``facts`` of files are by the number of the path.
    """

    digest: str
    diff_id: str
    size: int
    unpacked: int
    kinds: str
    paths: tuple[str, ...]
    targets: Mapping[int, str]
    facts: Mapping[int, str]
    """What a file says, by its name: see ``fact``."""

    def entries(self) -> Iterator[tuple[str, str, str, str | None]]:
        """Kind, path, target and fact of each, in the order of the layer."""
        for number, (kind, path) in enumerate(zip(self.kinds, self.paths, strict=True)):
            yield kind, path, self.targets.get(number, ""), self.facts.get(number)


def contents_of(
    blocks: Iterator[bytes], wanted: Mapping[int, str], most: int, check: Check | None = None
) -> tuple[dict[str, bytes], str]:
    """Whole files of a layer, by their numbers in its index, each under the name that is given for it; its digest.

    Raises VerifyError, also when they hold more than ``most`` bytes.
    """
    stream = LayerStream(blocks, MOST_UNPACKED, check=check)
    found, number = dict[str, bytes](), 0
    for member in members(stream):
        if not _as_change(member)[1]:
            continue
        if number in wanted:
            most -= member.size
            if most < 0:
                raise damaged(f"{ascii(member.path)[:200]} is larger than any file that is read of an image")
            found[wanted[number]] = stream.read(member.size)
        number += 1
    stream.drain()
    return found, stream.digest


def read_layer(blocks: Iterator[bytes], most: int | None = None, check: Check | None = None) -> LayerIndex:
    """Read a layer to its end. Raises VerifyError for one that is damaged, or unpacks to more than ``most`` bytes.

    ``check`` as for LayerStream.
    """
    stream = LayerStream(blocks, MOST_UNPACKED if most is None else most, check=check)
    kinds, paths = list[str](), list[str]()
    targets, facts = dict[int, str](), dict[int, str]()
    names = text = 0
    for member in members(stream):
        kind, path = _as_change(member)
        if not path:
            continue
        names += len(path) + len(member.target)
        if len(paths) >= MOST_FILES or names > MOST_NAMES:
            raise damaged(f"a layer has more than {MOST_FILES:,} files, or {MOST_NAMES >> 20} MiB of paths")
        if kind in "lh":
            targets[len(paths)] = member.target
        elif kind in "fx" and (found := fact(stream, member)) is not None:
            facts[len(paths)] = found
            text += len(found)
            if text > MOST_TEXT:
                raise damaged(f"a layer has more than {MOST_TEXT >> 20} MiB of metadata of packages")
        kinds.append(kind)
        paths.append(path)
    stream.drain()
    return LayerIndex(
        digest=stream.digest,
        diff_id=stream.diff_id,
        size=stream.size,
        unpacked=stream.unpacked,
        kinds="".join(kinds),
        paths=tuple(paths),
        targets=targets,
        facts=facts,
    )


def _as_change(member: Member) -> tuple[str, str]:
    """The kind and the path that a member means: ``.wh.NAME`` removes NAME of the layers below."""
    above, slash, name = member.path.rpartition("/")
    if not name.startswith(HIDDEN):
        return member.kind, member.path
    if name == OPAQUE:
        return "o", above or "/"
    if name.startswith(f"{HIDDEN}{HIDDEN}"):
        return "w", ""  # AUFS's own book-keeping
    return "w", f"{above}{slash}{name.removeprefix(HIDDEN)}"


def fact(stream: LayerStream, member: Member) -> str | None:
    """What a file says, if it is one of those that matter.

    Of METADATA name and version, a line each; of libc its version; of torch's version.py its CUDA; of site.py the name
    of the folders for packages; of a program of ELF ``elf MACHINE``, of a script its begin; of small files the text.
    """
    name = member.path.rpartition("/")[2]
    limit = WHOLE.get(name) or next((most for ending, most in ENDINGS.items() if name.endswith(ending)), 0)
    if limit:
        return stream.read(member.size).decode(errors="replace") if member.size <= limit else None
    if not SUSPECTS.fullmatch(name):
        return None
    for pattern, most, read in PATTERNS:
        if pattern.fullmatch(member.path):
            return read(stream.read(min(member.size, most)))
    return None


def packed_index(index: LayerIndex) -> bytes:
    """The kept form."""
    document = {"format": FORMAT, **{name: getattr(index, name) for name in index.__slots__}}
    return gzip.compress(json.dumps(document).encode(), compresslevel=1, mtime=0)


def unpacked_index(content: bytes) -> LayerIndex | None:
    """The index of its kept form; None for another format, or a file that was cut."""
    try:
        found: dict[str, Any] = json.loads(gzip.decompress(content))
        if found.pop("format") != FORMAT:
            return None
        for name in ("targets", "facts"):
            found[name] = {int(number): text for number, text in found[name].items()}
        return LayerIndex(**{**found, "paths": tuple(found["paths"])})
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError):
        return None
