"""One pass over a log: the few lines that a rule or a reader may care about, found by texts that such lines have. Pure.

A block of a log is in the processor's cache while every text is sought in it, so 50 MB take half a second.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.linear_regex import LinearMatch, LinearPattern
from gb10.core.log_words import FOLLOWS, is_remark, is_trouble
from gb10.serving.doctor.doctor_rule import DoctorRule, LogSign, specifier
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_exceptions import ExceptionReader, Raised
from gb10.serving.doctor.log_facts import FACT_TEXTS, FactReader, LogFacts
from gb10.serving.doctor.log_speech import ESCAPES, clean, speech
from gb10.serving.doctor.log_time import BEFORE, Moment, last_moment, moment_of, near
from gb10.serving.doctor.stages import StageMark, StageReader, Start

BLOCK: Final = 1 << 20
LONGEST: Final = 4096
"""Bytes of a line that are looked at."""
MANY: Final = 20_000
"""Lines with the same text that are looked at, each."""
CONTINUED: Final = 2000
"""Lines of trouble whose messages are read on."""
FEW: Final = 200
"""Lines of a block that are compared with all texts; where more have one, each text is sought in the rest of it."""
ASKED: Final = 2000
"""Lines without a word of trouble that are compared with the errors of tools."""
MORE: Final = 12
"""Lines of a message after its first."""
BRANCHES: Final = ("╰", "│", "├", "└", "Caused by", "Caused By", "caused by:")
"""How uv and pip draw what belongs to a message, and how programs in Rust begin the cause of an error."""
HINT: Final = re.compile(
    r"\s{0,8}(?:hint|help|tip|suggestion|(?:please )?(?:try|consider|set|use|run|install|check|increase|reduce)|please|"
    r"you (?:can|may|need|must|should)|to (?:fix|solve|resolve|avoid|work around)|did you)\b[: ]",
    re.IGNORECASE,
)
"""How a line begins that says what to do about the one before it."""
TAIL: Final = 4096
"""Bytes of the end of a log, for its progress bar."""
TROUBLE: Final = (b"rror", b"ERROR", b"xception", b"ailed", b"annot ", b"illed", b"fatal")
"""Parts of words that speak of trouble: a line that has one may be an error that no rule knows."""
TOOL_TEXTS: Final = (
    *(
        b"denied",
        b"E: ",
        b"Depends: ",
        b"does not match",
        b"but you have",
        b"is not installed",
        b"NVRM: ",
        b"NCCL WARN",
    ),
    *(b"Killed", b"oom", b"OOM", b"already in use", b"[code=", b"undefined reference", b"has no wheels", b"compiled "),
    *(
        b"code 137",
        b"status 137",
        b"code: 137",
        b"(137)",
        b"nodes are available",
        b"exceeds available",
        b"version mismatch",
        b"does not exist",
        b"Not building ",
    ),
    *(
        b"AER: ",
        b"soft lockup",
        b"not signed",
        b"FAILED",
        b"PUBKEY",
        b"status=",
        b"externally",
        b"tool choice",
        b"alternate",
    ),
    *(b"No solution found", b"Not found: ", b"ssh: ", b"not found", b"not available", b"Assertion", b"panicked at"),
    *(b"no instances", b"magic", b"missing tensor", b"cannot be larger", b"SIGSEGV", b" install ", b"core dumped"),
    *(b"Unable to", b"nable to create", b"refused", b"bad value", b"was not detected", b", needed by ", b"atible GPUs"),
    *(
        b"built for ",
        b"device code",
        b"device_kernel<",
        b"_forbidden'",
        b"Watchdog caught",
        b"mlx5_core ",
        b"ORTE ",
        b"nsupported ",
    ),
    *(b"mpirun ", b"TCP connection", b"earlyoom", b"inference compute"),
)
"""Texts of lines that may be a tool's error, though no word of them speaks of trouble."""
ENGINE_MARKS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "vllm": (b"vLLM API server version", b"Initializing a V1 LLM engine", b"(EngineCore", b"-packages/vllm/"),
    "sglang": (b"server_args=ServerArgs(", b"sglang.launch_server", b"-packages/sglang/", b"/sglang/srt/"),
    "trtllm": (b"[TRT-LLM]", b"trtllm-serve", b"-packages/tensorrt_llm/"),
}
"""Texts that only one engine prints: its banner, its processes, its files in a traceback. FlashInfer's kernels, which
vLLM and SGLang call, print ``[TensorRT-LLM]``, too."""
OF_AN_ANSWER: Final = re.compile(
    r"\b(?:WARNING|ERROR|CRITICAL) [^\[\n]{0,40}\[\w{0,40}(?:tool_?parser|reasoning_parser|function_call)\w{0,20}"
    r"\.py:\d{1,5}\] (?:Error\b|[^\n]{0,300}not well-formed)"
)
"""An error that a file which reads a model's answers calls a warning: an answer that was lost."""
SPOKEN: Final = re.compile(
    rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)(?:\x1b\[[\d;]{0,8}m)? \d\d-\d\d \d\d:\d\d:\d\d |"
    rb"\(EngineCore|\(APIServer|\(Worker|server_args=ServerArgs\(|\[TRT-LLM\]|\[TensorRT-LLM\]|NCCL (?:INFO|WARN)|"
    rb"Uvicorn running|NVRM:| kernel: |(?m:^\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)|(?m:^\[ {0,8}\d{1,9}\.\d{6}\])|"
    rb"(?m:^(?:\x1b\[[\d;]{0,8}m)?INFO(?:\x1b\[[\d;]{0,8}m)?: {5})"
)
"""What a line of an engine, of NCCL or of a kernel has, and a patch or a source file has not."""
VERSIONS: Final = re.compile(rb"(?:vLLM API server version|Initializing a V1 LLM engine \(v) ?(\d[\w.+]{2,40})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of a log: its number, counted from 1, its text without colours, and when it was written."""

    number: int
    text: str
    moment: Moment | None = None
    more: str = ""
    """Lines after it that are indented deeper: the rest of its message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A line that a rule is about; ``value`` is what it shows."""

    line: Line
    rule: DoctorRule
    value: str


@dataclass(frozen=True, slots=True)
class _Open:
    """A message that the next lines may go on with."""

    indentation: int
    left: int
    """Lines that may follow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What was found in a log. ``cut`` are the texts with more lines than were looked at."""

    hits: tuple[Hit, ...]
    trouble: tuple[Line, ...]
    """Lines that speak of trouble and that no rule is about, in their order."""
    repeats: Line | None = None
    """The first line that only repeats that something failed before."""
    size: int
    cut: tuple[str, ...] = ()
    raised: tuple[Raised, ...] = ()
    """Exceptions, in the order of their lines."""
    start: Start = field(default_factory=Start)
    """How far its last start came."""
    facts: LogFacts = field(default_factory=LogFacts)
    lines: int = 0
    last: Moment | None = None
    """The time of the last line that has one."""
    image: ImageRecord | None = None
    """The image that wrote it, where that is known."""
    spoken: bool = False
    """Whether a line is of an engine, of NCCL or of a kernel."""
    marked: str | None = None
    """The engine whose own lines the log has; None without one, and for several."""


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in blocks that end with a line, but for the last one."""
    pending = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if not end and len(pending) < BLOCK:
            pending += block
            continue
        yield pending + block[:end] if end else pending + block
        pending = block[end:] if end else b""
    if pending:
        yield pending


def last_lines_of(data: bytes, most: int) -> bytes:
    """The data; of more than ``most`` bytes the last whole lines."""
    if len(data) <= most:
        return data
    return data[len(data) - most :].partition(b"\n")[2]


class Scanner:
    """Looks for the signs of some rules; feed it the blocks of one log, in order, then take what it found."""

    def __init__(
        self,
        rules: Sequence[DoctorRule],
        missing: Callable[[str], str | None] = lambda library: None,
        marks: Sequence[StageMark] = (),
        image: ImageRecord | None = None,
        tools: Callable[[str], bool] = lambda text: False,
    ) -> None:
        """``missing``: what to say of a library that the image left out; None for another.

        ``tools``: whether a line is an error of a tool.
        """
        self._missing, self._image, self._tools = missing, image, tools
        self._open: _Open | None = None
        self._stages, self._exceptions, self._facts = StageReader(marks), ExceptionReader(), FactReader()
        self._tail = b""
        self._signs: dict[bytes, list[tuple[DoctorRule, LogSign]]] = {}
        for rule in rules:
            for sign in rule.log:
                self._signs.setdefault(sign.has.encode(), []).append((rule, sign))
        self._seen = dict.fromkeys((*self._signs, *TROUBLE, *TOOL_TEXTS, *self._stages.texts, *FACT_TEXTS), 0)
        served = {text.encode() for mark in marks if mark.stage == "serving" for text in mark.has}
        self._often = tuple(text for text in self._seen if text in served)  # in every line of a server that serves
        self._seek(text for text in self._seen if text not in served)
        self._hits: list[Hit] = []
        self._trouble: list[Line] = []
        self._repeats: Line | None = None
        self._asked = 0
        self._runs: dict[tuple[str, LogSign], list[Hit]] = {}
        self._last: Moment | None = None
        self._lines = 0
        self._size = 0
        self._engines: set[str] = set()
        self._version: str | None = None
        self._spoken = False

    def feed(self, block: bytes) -> None:
        """Look at whole lines."""
        self._go_on(block, 0)
        wanted = self._wanted(block)
        for engine, marks in ENGINE_MARKS.items():
            if engine not in self._engines and any(mark in block for mark in marks):
                self._engines.add(engine)
        if self._version is None and (banner := VERSIONS.search(block)):
            self._version = banner[1].decode()
        self._spoken = self._spoken or SPOKEN.search(block) is not None
        past = 0
        for (start, end), texts in sorted(wanted.items()):
            self._lines += block.count(b"\n", past, start)
            line = readable(block[start : min(end, start + LONGEST)])
            self._last = moment_of(line) or last_moment(block[max(past, start - BEFORE) : start]) or self._last
            past = start
            self._look(Line(number=self._lines + 1, text=line, moment=self._last), texts)
            if self._trouble and self._trouble[-1].number == self._lines + 1 and len(self._trouble) <= CONTINUED:
                self._open = _Open(_indentation(block[start:end]), MORE)
                self._go_on(block, end + 1)
        self._lines += block.count(b"\n", past)
        self._exceptions.feed(block)
        self._tail = (self._tail + block[-TAIL:])[-TAIL:]
        self._last = last_moment(block[-BEFORE:]) or self._last
        self._size += len(block)

    def _seek(self, rare: Iterable[bytes]) -> None:
        """From now on seek these texts, which few lines have: one expression finds the lines with any of them."""
        self._rare = tuple(rare)
        texts = "|".join(re.escape(text.decode("latin-1")) for text in self._rare)
        self._line_with_any = LinearPattern(f"(?:{texts})[^\\n]*") if texts else None

    def _wanted(self, block: bytes) -> dict[tuple[int, int], list[bytes]]:
        """By the begin and the end of a line, which texts it has; of each text its first MANY lines."""
        wanted: dict[tuple[int, int], list[bytes]] = {}
        found = self._line_with_any.finditer(block.decode("latin-1")) if self._line_with_any else ()
        end = 0
        for one in islice(found, FEW):
            start, end = block.rfind(b"\n", 0, one.start()) + 1, one.end()
            line = block[start:end]
            wanted[start, end] = [text for text in self._rare if text in line and self._seen[text] < MANY]
            for text in wanted[start, end]:
                self._seen[text] += 1
        rest = self._rare if len(wanted) == FEW else ()
        for text, begin in (*((text, end) for text in rest), *((text, 0) for text in self._often)):
            at = block.find(text, begin)
            while at >= 0 and self._seen[text] < MANY:
                start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
                end = len(block) if end < 0 else end
                wanted.setdefault((start, end), []).append(text)
                self._seen[text] += 1
                at = block.find(text, end)
        if any(self._seen[text] >= MANY for text in self._rare):
            self._seek(text for text in self._rare if self._seen[text] < MANY)
        return wanted

    def _look(self, line: Line, texts: Sequence[bytes]) -> None:
        self._stages.look(line.text, line.number, line.moment, texts)
        self._facts.look(line.text, texts)
        own = [pair for text in texts for pair in self._signs.get(text, ())]
        hits = [hit for rule, sign in own if (hit := self._hit(rule, sign, line))]
        if hits:
            return
        speaks_of_trouble = any(text in TROUBLE for text in texts)
        if (speaks_of_trouble and (is_trouble(line.text) or OF_AN_ANSWER.search(line.text))) or (
            any(text in TOOL_TEXTS for text in texts) and self._is_of_a_tool(line.text)
        ):
            self._trouble.append(line)
        elif speaks_of_trouble and self._repeats is None and FOLLOWS.search(line.text):
            self._repeats = line

    def _is_of_a_tool(self, text: str) -> bool:
        """Whether a line is a tool's error, for so many lines as may be asked about: each takes up to a millisecond."""
        self._asked += 1
        return self._asked <= ASKED and self._tools(text)

    def _go_on(self, block: bytes, at: int) -> None:
        """Read on in the message of the last line of trouble, as long as lines are indented deeper than it."""
        while self._open and at < len(block):
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            raw = block[at : min(end, at + LONGEST)]
            at = end + 1
            last = self._trouble[-1]
            body = speech(clean(raw)).body
            deeper = (
                _indentation(raw) > self._open.indentation
                or body.lstrip().startswith(BRANCHES)
                or HINT.match(body) is not None
            )
            if not body.strip() and block[at : at + 9] == b"Caused by":
                continue
            if not body.strip() or not deeper or len(last.more) > LONGEST:
                self._open = None
                return
            self._trouble[-1] = replace(last, more=f"{last.more}\n{body.strip()}")
            left = self._open.left - 1
            self._open = replace(self._open, left=left) if left else None

    def _hit(self, rule: DoctorRule, sign: LogSign, line: Line) -> Hit | None:
        """The match of a line, kept with those before it when enough follow each other."""
        found = sign.regex.search(line.text)
        value = self._value(sign, found) if found and numbers_hold(sign, found) else None
        run = self._runs.setdefault((rule.code, sign), [])
        if value is None or (run and not near(run[-1].line.moment, line.moment)):
            run.clear()
        if value is None:
            return None
        hit = Hit(line=line, rule=rule, value=value)
        run.append(hit)
        if len(run) >= sign.least:
            self._hits += run
            run.clear()
        return hit

    def _value(self, sign: LogSign, found: LinearMatch) -> str | None:
        """What a match shows: the group that is named ``value``, else all of it."""
        value = str(found.groupdict().get("value") or found[0])
        return self._missing(value) if sign.check == "left-out" else value

    def scan(self) -> Scan:
        """What was found, less what rules about another engine or release than the log shows have said of it."""
        cut = tuple(text.decode() for text, count in self._seen.items() if count >= MANY)
        hits = [hit for hit in self._hits if _can_be_about(hit.rule, self._engines, self._version)]
        judged = {(hit.line.number, hit.rule.code) for hit in hits}
        hits = [hit for hit in hits if (hit.line.number, hit.rule.unless) not in judged]
        hits = list({(hit.line.number, hit.rule.code): hit for hit in reversed(hits)}.values())
        explained = {hit.line.number for hit in hits}
        left = (hit.line for hit in self._hits if hit.line.number not in explained and is_trouble(hit.line.text))
        trouble = {line.number: line for line in (*self._trouble, *left)}
        start = self._stages.start(self._tail.decode("utf-8", "replace"))
        if start.is_ready:  # what was a warning before was none of a fault: vLLM for the CPU starts without Triton
            trouble = {
                number: line
                for number, line in trouble.items()
                if not is_remark(line.text) or OF_AN_ANSWER.search(line.text)
            }
        return Scan(
            hits=tuple(sorted(hits, key=lambda hit: hit.line.number)),
            trouble=tuple(trouble[number] for number in sorted(trouble)),
            repeats=self._repeats,
            size=self._size,
            cut=cut,
            raised=self._exceptions.found(),
            start=start,
            facts=self._facts.facts(),
            lines=self._lines,
            last=self._last,
            image=self._image,
            marked=next(iter(self._engines)) if len(self._engines) == 1 else None,
            spoken=self._spoken or bool(self._exceptions.found()) or bool(hits),
        )


def _can_be_about(rule: DoctorRule, engines: set[str], version: str | None) -> bool:
    """Whether a rule can be about a log of any of these engines; of a log that shows none, all but TensorRT-LLM's can.

    ``version`` is vLLM's, which prints its own.
    """
    if not engines:
        return rule.engines != ("trtllm",)
    return any(_is_about(rule, engine, version if engine == "vllm" else None) for engine in engines)


def _is_about(rule: DoctorRule, engine: str, version: str | None) -> bool:
    if rule.engines and engine not in rule.engines:
        return False
    if not rule.releases or any(name not in ENGINE_MARKS for name in rule.releases):
        return True  # the log does not show the releases of libraries
    if engine not in rule.releases:
        return False
    try:
        return version is None or specifier(rule.releases[engine]).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True


def _indentation(raw: bytes) -> int:
    """The blanks before what a line says."""
    body = speech(clean(raw[:LONGEST])).body
    return len(body) - len(body.lstrip())


def readable(raw: bytes) -> str:
    """The text of a line, without colours and what cannot be printed."""
    text = ESCAPES.sub("", raw.decode("utf-8", "replace")).strip()
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\t" else "\N{REPLACEMENT CHARACTER}" for one in text)


def numbers_hold(sign: LogSign, found: LinearMatch) -> bool:
    """Whether the numbers of a match are as the sign wants them."""
    for test in sign.where:
        value = _number(found, test.group)
        if test.per is not None:
            divisor = _number(found, test.per)
            value = value / divisor if value is not None and divisor else None
        if value is None or (test.above is not None and value <= test.above):
            return False
        if test.below is not None and value >= test.below:
            return False
    return True


def _number(found: LinearMatch, group: int) -> float | None:
    try:
        return float(found[group] or "")
    except (TypeError, ValueError, IndexError):
        return None


def scan_log(
    blocks: Iterable[bytes],
    rules: Sequence[DoctorRule],
    missing: Callable[[str], str | None] = lambda library: None,
    marks: Sequence[StageMark] = (),
    tools: Callable[[str], bool] = lambda text: False,
) -> Scan:
    """The findings of one log."""
    scanner = Scanner(rules, missing, marks, tools=tools)
    for block in whole_lines(blocks):
        scanner.feed(block)
    return scanner.scan()
