"""Exceptions of a log, whole: type, message, frames, and the exceptions that they come from. Pure.

Ranks write into one stream, so lines of a traceback are told apart by their prefixes. A traceback may lack its head,
its end or its indentation: what is there is read.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from gb10.core.log_words import QUIET
from gb10.serving.doctor.log_speech import Speech, clean, speech
from gb10.serving.doctor.log_time import Moment, last_moment

LONGEST: Final = 4096
"""Bytes of a line that are looked at."""
CHUNK: Final = 1 << 20
AHEAD, BEHIND = 1 << 18, 1 << 16
"""Bytes after and before a line that may belong to its traceback."""
NEAREST: Final = 80
"""Lines after the head of a traceback in which its first frame is sought."""
ROWS: Final = 1500
"""Lines of a traceback with those of other ranks between them."""
FOREIGN: Final = 400
"""Lines of others, one behind the other, after which a traceback is at its end."""
PLAIN: Final = ("", None, "")
"""The source of a line without any prefix."""
FRAMES: Final = 60
MESSAGE: Final = 4000
CONTINUED: Final = 24
"""Lines of a message."""
CODE: Final = 200
"""Characters of a source line."""
FIRST, LAST = 300, 50
"""Exceptions of a log that are read: those that came first, and in windows of bytes the last."""
TRIES, LATE_TRIES = 1500, 40
"""Lines that may begin an exception and are looked at, in a log and in each window at its end."""
WINDOW: Final = 1 << 14
TRIGGERS: Final = (
    b"Traceback (most",
    b"Error",
    b"Exception",
    b"what():",
    b"Fatal Python error",
    b"OutOfResources",
    b"exc.",
)
HEAD: Final = "Traceback (most recent call last)"
FILE: Final = re.compile(
    r'\s{0,40}File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})(?:, in (?P<function>.{1,120}))?'
)
CHECKOUT: Final = re.compile(
    r"/(?P<name>[A-Za-z_]\w{1,40})(?:-[\w.+-]{1,60})?/(?P<package>(?P=name)/)|"
    r"/(?:vllm|sglang|TensorRT-LLM|flashinfer|lmcache|LMCache)(?:[-_][\w.+-]{1,60})?/(?:python/)?"
    r"(?P<known>(?:vllm|sglang|tensorrt_llm|flashinfer|lmcache)/)"
)
"""A file of a checkout or of a folder that is named like its package: ``/src/vllm/vllm/envs.py``."""
CARETS: Final = re.compile(r"\s*[\^~]+[\^~ ]*$")
LINK: Final = re.compile(
    r"\s{0,8}(?:(?P<direct>The above exception was the direct cause)|During handling of the above exception)"
)
NAME: Final = r"(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{1,80}(?:\(\w{1,80}\))?"
ANY: Final = re.compile(rf"(?P<type>{NAME})(?:: ?(?P<message>.*))?$")
STRICT: Final = re.compile(
    r"(?:[^:\"'()]{0,60}: |- |\s{0,8})?(?P<type>(?:(?:[A-Za-z_]\w{0,80}|<locals>)\.){0,12}"
    r"[A-Za-z_]\w{0,80}(?:Error(?:_\w{1,40})?|Exception|Exit|Interrupt|OutOfResources|Unsupported|NotFound|TimeoutExpired)(?:\(\w{1,80}\))?)"
    r": ?(?P<message>\S.*)$"
)
BARE: Final = re.compile(
    r"\s{0,8}(?P<type>(?:(?:[A-Za-z_]\w{0,80}|<locals>)\.){0,12}[A-Za-z_]\w{0,80}(?:Error|Exception))\s*$"
)
"""An exception without a message, such as that of an assertion: one only where frames stand before it."""
REPR: Final = re.compile(
    r"(?:[^:\"'()]{0,60}: |- |\s{0,8})?(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{0,80}(?:Error|Exception))"
    r"\((?P<quote>[\"'])(?P<message>.{3,3000})(?P=quote),?\)$"
)
"""An exception as Python writes it in a list or a log: ``ValueError('…')``."""
WHAT: Final = re.compile(r"\s{0,8}what\(\): {1,4}(?P<message>\S.*)$")
FATAL: Final = re.compile(r"(?P<type>Fatal Python error): (?P<message>\S.*)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a traceback."""

    file: str
    line: int
    function: str
    code: str = ""
    """Its source line, where the traceback shows it."""

    @property
    def package(self) -> str:
        """The package that it is of (``vllm``); empty for another file."""
        return _inside(self.file).split("/")[0].removesuffix(".py")

    @property
    def path(self) -> str:
        """The file inside of its site-packages."""
        return _inside(self.file) or self.file


def _inside(file: str) -> str:
    for folder in ("-packages/", "/workspace/sglang/python/", "/sgl-workspace/sglang/python/", "/python/"):
        _, found, inside = file.rpartition(folder)
        if found and not inside.startswith("cpython-"):  # uv's own Python is no package
            return inside
    checkout = CHECKOUT.search(file)
    return file[checkout.start("known" if checkout["known"] else "package") :] if checkout else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """An exception that a log shows."""

    type: str
    """As it is printed, with its module where that is."""
    message: str
    """Up to MESSAGE characters, its lines joined by line ends."""
    line: int
    """The number of its line, from 1."""
    head: str = ""
    """Its line, without what stands before it."""
    moment: Moment | None = None
    """When it was printed, or the time of a line before it."""
    who: str = ""
    place: str = ""
    frames: tuple[Frame, ...] = ()
    """The innermost is the last."""
    lines: frozenset[int] = field(default=frozenset(), compare=False)
    """The numbers of all lines of the chain."""
    cause: "Raised | None" = None
    direct: bool = False
    """Whether it was raised from ``cause``; else while that one was handled."""
    quiet: bool = False
    """Whether the program printed it as a warning or less."""

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def text(self) -> str:
        """Type and message."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def chain(self) -> tuple["Raised", ...]:
        """It and what it comes from; the first of all is the first."""
        found: list[Raised] = []
        one: Raised | None = self
        while one is not None:
            found.append(one)
            one = one.cause
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class _Row:
    offset: int
    number: int
    said: Speech


class ExceptionReader:
    """Reads the exceptions of one log; feed it blocks of whole lines in order, then take what it found."""

    def __init__(self, tries: int = TRIES) -> None:
        """``tries``: how many lines that may begin an exception are looked at."""
        self._tries = tries
        self._data = b""
        self._start = 0
        """The offset in the log where ``_data`` begins."""
        self._from = 0
        self._lines = 0
        """Line ends before ``_from``."""
        self._used: set[int] = set()
        self._found: list[Raised] = []
        self._late: deque[tuple[int, int, bytes]] = deque(maxlen=LAST if tries > LATE_TRIES else 0)
        """Lines before it, its offset and what follows, of the last tracebacks of a log with very many."""

    def feed(self, block: bytes) -> None:
        """Look at whole lines."""
        self._data += block
        if len(self._data) - self._from >= CHUNK + AHEAD:
            self._advance(self._data.rfind(b"\n", 0, len(self._data) - AHEAD) + 1)

    def found(self) -> tuple[Raised, ...]:
        """All exceptions, in the order of their lines."""
        self._advance(len(self._data))
        late: list[Raised] = []
        for lines, _, window in self._late:
            reader = ExceptionReader(LATE_TRIES)
            reader.feed(window)
            late += [_moved(one, lines) for one in reader.found()]
        return tuple(sorted((*self._found, *late), key=lambda one: one.line))

    def _advance(self, limit: int) -> None:
        """Look at the lines that begin before ``limit``."""
        starts: set[int] = set()
        for trigger in TRIGGERS:
            at = self._data.find(trigger, self._from, limit)
            while at >= 0:
                starts.add(self._data.rfind(b"\n", 0, at) + 1)
                end = self._data.find(b"\n", at)
                at = -1 if end < 0 else self._data.find(trigger, end, limit)
        past = self._from
        for start in sorted(starts):
            self._lines += self._data.count(b"\n", past, start)
            past = start
            if self._start + start not in self._used:
                self._look(start)
        if limit > past:
            self._lines += self._data.count(b"\n", past, limit)
        cut = max(0, limit - BEHIND)
        cut = self._data.rfind(b"\n", 0, cut) + 1 if cut else 0
        self._data, self._from, self._start = self._data[cut:], limit - cut, self._start + cut
        self._used = {one for one in self._used if one >= self._start}

    def _look(self, start: int) -> None:
        self._tries -= 1
        if len(self._found) >= FIRST or self._tries < 0:
            far = not self._late or self._start + start >= self._late[-1][1] + WINDOW
            if far and self._data.find(HEAD.encode(), start, start + LONGEST) >= 0:
                self._late.append((self._lines, self._start + start, self._data[start : start + WINDOW]))
            return
        row = self._row(start, self._lines + 1)
        text = row.said.body
        if HEAD in text:
            raised, used = _read_chain(self._rows(start, row.number))
        else:
            bare = BARE.match(text)
            found = STRICT.match(text) or WHAT.match(text) or FATAL.match(text) or REPR.match(text) or bare
            if found is None:
                return
            raised, used = self._alone(row, found)
            if bare and not raised.frames:
                return
        self._used |= used
        if raised is None:
            return
        end = self._data.find(b"\n", start) + 1 or len(self._data)
        raised = replace(raised, moment=last_moment(self._data[max(0, start - BEHIND) : min(end, start + LONGEST)]))
        self._found.append(raised)

    def _row(self, start: int, number: int) -> _Row:
        end = self._data.find(b"\n", start)
        end = len(self._data) if end < 0 else end
        raw = self._data[start : min(end, start + LONGEST)]
        return _Row(self._start + start, number, speech(clean(raw)))

    def _rows(self, start: int, number: int) -> Iterator[_Row]:
        for _ in range(ROWS):
            if start >= len(self._data):
                return
            yield self._row(start, number)
            end = self._data.find(b"\n", start)
            if end < 0:
                return
            start, number = end + 1, number + 1

    def _alone(self, row: _Row, found: re.Match[str]) -> tuple[Raised, set[int]]:
        """An exception without the head of its traceback: frames may stand before it."""
        parts = found.groupdict()
        kind = parts.get("type") or _thrown(self._before(row, 3)) or "C++ exception"
        frames: list[Frame] = []
        used, numbers, misses, code = {row.offset}, {row.number}, 0, ""
        for one in self._before(row, 120) if parts.get("type") else ():
            frame = FILE.match(one.said.body)
            if frame:
                frames.append(_frame(frame, code))
                code = ""
            elif not one.said.body.startswith("  "):
                misses += 1
            elif not CARETS.match(one.said.body):
                code = one.said.body
            if misses > 0 and not frame:
                break
            used.add(one.offset)
            numbers.add(one.number)
        rest = list(
            _message(islice(self._rows(row.offset - self._start, row.number), 1, None), row.said.source, row.said.body)
        )
        used |= {one.offset for one in rest}
        return (
            Raised(
                type=kind,
                message=_joined(parts.get("message") or "", rest),
                line=row.number,
                head=row.said.body.strip(),
                who=row.said.who,
                place=row.said.place,
                frames=tuple(reversed(frames[:FRAMES])),
                lines=frozenset(numbers | {one.number for one in rest}),
                quiet=row.said.level in QUIET,
            ),
            used,
        )

    def _before(self, row: _Row, most: int) -> Iterator[_Row]:
        """Lines of the same source before one, the nearest first."""
        at, number, place, found = row.offset - self._start, row.number, row.said.place.encode(), 0
        for _ in range(4 * most):
            if at <= 0 or found >= most:
                return
            end, at, number = at, self._data.rfind(b"\n", 0, at - 1) + 1, number - 1
            if self._start + at in self._used:
                return
            if place in self._data[at : min(end, at + LONGEST)]:  # reading a line whole costs a hundred times more
                one = self._row(at, number)
                if one.said.source == row.said.source:
                    found += 1
                    yield one


def _moved(raised: Raised, lines: int) -> Raised:
    """An exception of a window that begins after so many lines."""
    cause = _moved(raised.cause, lines) if raised.cause else None
    numbers = frozenset(one + lines for one in raised.lines)
    return replace(raised, line=raised.line + lines, lines=numbers, cause=cause)


def _thrown(before: Iterable[_Row]) -> str | None:
    for one in before:
        _, found, name = one.said.body.partition("after throwing an instance of '")
        if found:
            return name.rstrip("'")[:120]
    return None


def _frame(found: re.Match[str], code: str = "") -> Frame:
    return Frame(found["file"], int(found["line"]), (found["function"] or "").strip(), code.strip()[:CODE])


def _joined(first: str, rest: list[_Row]) -> str:
    return "\n".join((first, *(one.said.body.rstrip() for one in rest)))[:MESSAGE].strip()


def _message(rows: Iterator[_Row], source: tuple[str, str | None, str], first: str) -> Iterator[_Row]:
    """The lines that go on with a message; the first row is the one after its line ``first``.

    An exception that is set in, right behind a line that ends with a colon, is what that message quotes.
    """
    skipped = 0
    plain = source == PLAIN
    for count, row in enumerate(rows):
        if row.said.source != source:
            skipped += 1
            if plain or skipped > 40:
                return
            continue
        body = row.said.body
        if not body.strip() or count >= CONTINUED or HEAD in body or LINK.match(body) or FILE.match(body):
            return
        quoted = count == 0 and first.rstrip().endswith(":") and body[:1].isspace()
        if body.startswith(("frame #", '"""', "Process ", "usage:")) or FATAL.match(body):
            return
        if STRICT.match(body) and not quoted:
            return
        yield row


class _Following:
    """Rows, with a look at those that come next."""

    def __init__(self, rows: Iterator[_Row]) -> None:
        self._rows, self._seen = rows, deque[_Row]()

    def __iter__(self) -> Iterator[_Row]:
        while (row := self._seen.popleft() if self._seen else next(self._rows, None)) is not None:
            yield row

    def ahead(self) -> Iterator[_Row]:
        """The next rows, which stay where they are."""
        yield from tuple(self._seen)
        while (row := next(self._rows, None)) is not None:
            self._seen.append(row)
            yield row


def _source_of_frames(head: _Row, rows: list[_Row]) -> tuple[str, str | None, str]:
    """The source of a traceback's lines: that of its head, or none where a logger wrote the head alone."""
    frames = [one.said.source for one in rows if FILE.match(one.said.body)]
    if head.said.source in frames:
        return head.said.source
    own = (one for one in frames if one[0] == head.said.who)
    fewer = (one for one in frames if not one[0] or head.said.who.startswith(one[0]))
    return next(own, next(fewer, head.said.source))


class _ChainReader:
    """Reads the exceptions of one traceback, and of those that are linked to it, line by line."""

    def __init__(self, head: _Row, following: _Following, source: tuple[str, str | None, str]) -> None:
        self._head, self._following, self._source = head, following, source
        self._frames: list[Frame] = []
        self._code = False
        """Whether the next line may be the source line of a frame."""
        self._link: bool | None = None
        self._read = self._in_frames
        self.last: Raised | None = None
        self.rows = [head]

    def run(self) -> None:
        """Read to the end of the chain."""
        foreign = 0
        for row in self._following:
            if row.said.source != self._source:
                foreign += 1
                if foreign > FOREIGN or (self._source == PLAIN and self._read == self._after):
                    return
                continue
            foreign = 0
            if not self._read(row):
                return
            self.rows.append(row)

    def _in_frames(self, row: _Row) -> bool:
        body = row.said.body
        if frame := FILE.match(body):
            self._frames.append(_frame(frame))
            self._code = True
            return True
        if not body.strip():
            return not self._frames
        if self._code and self._frames and not CARETS.match(body):
            self._frames[-1] = replace(self._frames[-1], code=body.strip()[:CODE])
        if CARETS.match(body) or body.startswith(("  ", "\t")):
            self._code = self._code and CARETS.match(body) is not None
            return True
        if self._code and not STRICT.match(body):  # a code line whose indentation was lost
            self._code = False
            return True
        found = ANY.match(body)
        if found is None:
            return False
        rest = list(_message(self._following.ahead(), self._source, body))
        self.rows += rest
        self.last = Raised(
            type=found["type"],
            message=_joined(found["message"] or "", rest),
            line=row.number,
            head=body.strip(),
            who=row.said.who or self._head.said.who,
            place=row.said.place or self._head.said.place,
            frames=tuple(self._frames[-FRAMES:]),
            cause=self.last,
            direct=bool(self._link),
            quiet=self._head.said.level in QUIET,
        )
        self._read = self._after
        return True

    def _after(self, row: _Row) -> bool:
        found = LINK.match(row.said.body)
        if found:
            self._link, self._read = bool(found["direct"]), self._linked
            return True
        text = row.said.body.strip()
        return not text or text.startswith('"""') or any(row.offset == one.offset for one in self.rows)

    def _linked(self, row: _Row) -> bool:
        if HEAD in row.said.body:
            self._frames, self._code, self._read = [], False, self._in_frames
            return True
        return not row.said.body.strip()


def _read_chain(rows: Iterator[_Row]) -> tuple[Raised | None, set[int]]:
    """The exceptions of one traceback and of those that follow from it, and the offsets of their lines."""
    head, *ahead = islice(rows, NEAREST)
    reader = _ChainReader(head, _Following(chain(ahead, rows)), _source_of_frames(head, ahead))
    reader.run()
    if reader.last is None:
        return None, set()
    numbers = frozenset(one.number for one in reader.rows)
    return replace(reader.last, lines=numbers), {one.offset for one in reader.rows}
