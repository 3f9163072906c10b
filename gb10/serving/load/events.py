"""Server-sent events from bytes, cut anywhere: between a line's two ends, inside a character, inside a field. Pure."""

import codecs
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 4 << 20
"""Characters of one event; a server that sends more is not one to listen to."""


class TooLongError(ValueError):
    """An event of more than LONGEST characters."""


class EventReader:
    """Feed it bytes as they arrive; it gives the ``data`` of each whole event (WHATWG HTML, 9.2.6)."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._waiting = 0
        self.strange = 0
        """Lines that are no field, no comment and not empty: no event stream has them."""

    def feed(self, block: bytes) -> Iterator[str]:
        """The events that ``block`` completes. Raises TooLongError."""
        yield from self._lines(self._decoder.decode(block))

    def end(self) -> Iterator[str]:
        """What the last line leaves when the stream ends: servers forget the blank line after the last event."""
        yield from self._lines(self._decoder.decode(b"", final=True) + "\n\n")

    def _lines(self, text: str) -> Iterator[str]:
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        if text:
            self._after_cr = text.endswith("\r")
        first, *lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest.append(first)  # joined once, when the line ends: a long line may arrive byte by byte
        self._waiting += len(first)
        if self._size + self._waiting > LONGEST:
            raise TooLongError(f"an event is longer than {LONGEST:,} characters")
        if lines:
            first, self._rest = "".join(self._rest), [lines.pop()]
            self._waiting = len(self._rest[0])
            for line in (first, *lines):
                yield from self._line(line)

    def _line(self, line: str) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
            self._data.clear()
            self._size = 0
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(value) + 1
        elif name not in ("", "event", "id", "retry"):
            self.strange += 1
