"""Statements of many releases, found by the words of a line or by a frame of a traceback. Facts only. Pure.

For each statement the index has hashes of its words, its file, its lines by release, its exception and the names of
options and variables around it: no sentence and no code. Its text comes from the release itself, when asked for.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from gb10.serving.doctor.printed_statements import CPP, WORD, Statement, word_hash

SCHEMA: Final = "gb10/messages/v1"
ENOUGH: Final = 0.75
"""Share of a statement's words that a line must have."""
LEAST: Final = 3
NEARLY_ALL: Final = 0.9
NOT_CUDA: Final = re.compile(r"rocm|xpu|tpu|hpu|ascend|npu|(?<![a-z])cpu(?![a-z])")
"""Files for other hardware: of two statements with the same words the other one is meant."""
RARE: Final = 150
"""A word of so many statements at most tells one from others; a match has two of them."""
CANDIDATES: Final = 400
"""Statements that are compared."""
LONGEST, WORDS = 2000, 300
"""Characters and words of a message that are looked at."""
CHANGED: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The archive that a release's statements were read from."""

    url: str
    sha256: str
    size: int
    prefix: str = ""
    """The folder of its files in the archive (``vllm-0.33.0/``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One statement over all releases. ``lines`` is by the number of the release; absent ones have no entry."""

    file: str
    exception: str
    """Empty where C++ throws what Python names in its own way."""
    hashes: tuple[int, ...]
    names: tuple[str, ...]
    lines: Mapping[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A statement that a line is of, with what the releases say of it."""

    engine: str
    row: Row
    here: tuple[str, ...]
    """The releases that have it, the oldest first."""
    gone: str | None = None
    """The first release after the log's that has it no more."""
    changed: bool = False
    """Whether that release has one with about the same words at its place."""


@dataclass(frozen=True, kw_only=True)
class MessageIndex:
    """The statements of one engine."""

    engine: str
    releases: tuple[str, ...]
    sources: Mapping[str, Source]
    rows: tuple[Row, ...]

    @cached_property
    def _by_word(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, row in enumerate(self.rows):
            for one in row.hashes:
                found.setdefault(one, []).append(number)
        return found

    @cached_property
    def _by_file(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.file, []).append(row)
        return found

    def find(self, message: str, exception: str = "", file: str = "") -> tuple[Row, float] | None:
        """The statement that a message is of, and how well it fits: the share of its words that the message has, and
        more where the file and the exception are the same.

        Statements of the message's rarest words are compared; another exception than the message's is another
        statement. Without an exception nearly all words must agree.
        """
        own = {word_hash(word.lower()) for word in WORD.findall(message[:LONGEST])[:WORDS]}
        lists = sorted((numbers for one in own if (numbers := self._by_word.get(one))), key=len)
        candidates: dict[int, None] = {}
        for numbers in lists:
            if candidates and len(candidates) + len(numbers) > CANDIDATES:
                break
            candidates.update(dict.fromkeys(numbers))
        enough = ENOUGH if exception else NEARLY_ALL
        best: tuple[float, int, int] | None = None
        for number in candidates:
            row = self.rows[number]
            same = [one for one in row.hashes if one in own]
            share = len(same) / len(row.hashes)
            here = bool(file) and row.file == file
            if share < enough or len(same) < (2 if here else LEAST):
                continue
            if exception and row.exception != exception and row.exception[:1].isupper():
                continue
            whole = share == 1.0 and len(same) > LEAST and row.exception in ("", exception)
            if not here and not whole and sum(len(self._by_word[one]) <= RARE for one in same) < 2:
                continue
            fits = share + 0.2 * here + 0.1 * (row.exception == exception) - 0.05 * bool(NOT_CUDA.search(row.file))
            candidate = (fits, len(same), number)
            best = max(best, candidate) if best else candidate
        return (self.rows[best[2]], best[0]) if best else None

    def known(self, row: Row, release: str | None) -> Known:
        """A statement with what the releases say of it; ``release`` is the log's."""
        here = tuple(self.releases[number] for number in sorted(row.lines))
        start = self.releases.index(release) if release in self.releases else max(row.lines)
        gone = next((number for number in range(start + 1, len(self.releases)) if number not in row.lines), None)
        changed = gone is not None and any(
            gone in other.lines and other.exception == row.exception and _same(other, row) >= CHANGED
            for other in self._by_file.get(row.file, ())
            if other is not row
        )
        return Known(
            engine=self.engine,
            row=row,
            here=here,
            gone=self.releases[gone] if gone is not None else None,
            changed=changed,
        )


def _same(one: Row, other: Row) -> float:
    return len(set(one.hashes) & set(other.hashes)) / max(1, min(len(one.hashes), len(other.hashes)))


@dataclass(slots=True)
class IndexBuilder:
    """Collects the statements of releases, the oldest first."""

    engine: str
    options: frozenset[str]
    """Names that are options of the engine, as Python spells them."""
    releases: list[str] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    _twins: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    """The file of each statement of C++: a check that a thousand generated files repeat has one row."""
    _rows: dict[tuple[str, str, tuple[int, ...]], tuple[dict[str, None], dict[int, int]]] = field(default_factory=dict)

    def add(self, release: str, source: Source, statements: Iterable[Statement]) -> None:
        """The statements of one release."""
        number = len(self.releases)
        self.releases.append(release)
        self.sources[release] = source
        twins: dict[tuple[str, tuple[int, ...]], list[Statement]] = {}
        for one in statements:
            if one.kind == "log" and one.exception in ("debug", "info"):
                continue
            hashes = tuple(word_hash(word) for word in one.words)
            if one.file.endswith(CPP):
                twins.setdefault((one.exception, hashes), []).append(one)
            else:
                self._note(one, hashes, number)
        for key, same in twins.items():
            files = {one.file: one for one in reversed(same)}
            file = self._twins.get(key, "")
            if file not in files:
                file = self._twins[key] = min(files, key=lambda one: (len(one), one))
            self._note(files[file], key[1], number)

    def _note(self, one: Statement, hashes: tuple[int, ...], number: int) -> None:
        names, lines = self._rows.setdefault((one.file, one.exception, hashes), ({}, {}))
        names.update(dict.fromkeys(option_names(one, self.options)))
        lines.setdefault(number, one.line)

    def document(self) -> dict[str, Any]:
        """The index as data."""
        files, exceptions, words = _Table(), _Table(), _Table()
        rows = []
        for (file, exception, hashes), (names, lines) in sorted(self._rows.items()):
            flat = [value for number in sorted(lines) for value in (number, lines[number])]
            rows.append(
                [
                    files.number(file),
                    exceptions.number(exception),
                    list(hashes),
                    [words.number(one) for one in names][:8],
                    flat,
                ]
            )
        return {
            "schema": SCHEMA,
            "engine": self.engine,
            "releases": self.releases,
            "sources": {
                release: {"url": one.url, "sha256": one.sha256, "size": one.size, "prefix": one.prefix}
                for release, one in self.sources.items()
            },
            "files": files.texts,
            "exceptions": exceptions.texts,
            "names": words.texts,
            "rows": rows,
        }


def option_names(one: Statement, options: frozenset[str]) -> Iterator[str]:
    """The options and variables that are named around a statement, those of its conditions first."""
    for name in one.names:
        if name in options:
            yield f"--{name.replace('_', '-')}"
        elif name.isupper() and "_" in name and len(name) > 6:
            yield name


class _Table:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def read_index(document: Mapping[str, Any]) -> MessageIndex:
    """The index of its data, which is ours: recipes/messages."""
    files, exceptions, names = document["files"], document["exceptions"], document["names"]
    return MessageIndex(
        engine=document["engine"],
        releases=tuple(document["releases"]),
        sources={release: Source(**one) for release, one in document["sources"].items()},
        rows=tuple(
            Row(
                file=files[file],
                exception=exceptions[exception],
                hashes=tuple(hashes),
                names=tuple(names[one] for one in own),
                lines=dict(zip(flat[::2], flat[1::2], strict=True)),
            )
            for file, exception, hashes, own, flat in document["rows"]
        ),
    )
