"""Words by which a log speaks of an error, and lines that only repeat that something failed before. Pure."""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

RAISED: Final = re.compile(r"(?:^|[\s)])[\w.]*(?:Error|gaierror|Exception|Interrupt|Exit)(?:: ?\S|\([\"'])")
SAYS: Final = re.compile(
    r"\b(?:error|fatal|failed|cannot|out of memory|killed|segmentation fault|not found|unrecognized arguments)\b", re.I
)
PLAIN: Final = re.compile(r"^(?:#\d{1,4} )?(?:\d{1,5}\.\d{1,3} )?ERROR: [A-Z]")
"""What pip and Docker begin an error with, whatever its words are."""
FOLLOWS: Final = re.compile(
    r"root cause above|Engine core initialization failed|EngineCore (?:failed to start|encountered a fatal)"
    r"|EngineDeadError|output_handler failed|engine core proc \S+ died|ChildProcessError"
    r"|Engine process failed to start|WorkerProc initialization failed",
    re.I,
)
"""Lines that only repeat that something failed before."""
PREFIX: Final = re.compile(
    r"^(?:\S+ \| |[\w./:@ -]{1,160}? (?=\((?:APIServer|EngineCore|Worker)))?(?:\([^)]{1,60}\) "
    r"?)?(?:\[?\d{4}-\d\d-\d\d[T ][^\]\s]*(?: [A-Z]\w*)*\]? ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b:?"
    r"(?: \d\d-\d\d \d\d:\d\d:\d\d)?(?: \[[^\]]{1,80}\])?)?"
    r"(?:\[(?P<letter>[IWEF])\d{4} \d\d:[^\]]{1,120}\])?"
    r"(?:\d+\.\d\d\.\d{3}\.\d{3} (?P<llama>[DIWE]) )?"
)
"""What stands before the text of a line: container, process, time, level, place; in C++ a letter is the level."""
WARNS: Final = re.compile(r"(?:^|\s)\w*Warning: ")
"""What Python's warnings module writes."""
NOTHING: Final = re.compile(r"[\"'](?:error|failed|exception|fatal)s?[\"']: ?(?:null|None|0|false|False)(?![\w.])")
"""A field that says that there is no error."""
JSON_LEVEL: Final = re.compile(
    r"^\{.{0,400}?\"(?:level|levelname|level_name|log\.level|severity|lvl)\": ?\"(?P<level>\w{1,10})\"", re.IGNORECASE
)
"""The level of a line that a logger wrote as JSON."""
NAMES: Final = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL"
ELSEWHERE: Final = re.compile(
    rf"(?:^|[\s\[(|<])(?:level|lvl|severity)=[\"']?(?P<field>\w{{1,10}})|\[(?P<bracket>{NAMES}) {{0,4}}\]|"
    rf"[|] {{0,2}}(?P<pipe>{NAMES}) {{0,6}}[|]| - (?P<dash>{NAMES}) - |\[(?P<onnx>[VIWEF]):\w{{2,20}}:|"
    r"^(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d",
    re.IGNORECASE,
)
"""Where other loggers write the level of a line: as a field (logfmt), in brackets, between bars or dashes, as a
letter."""
AHEAD: Final = 160
"""Characters of a line in which its level is sought."""
QUIET: Final = ("TRACE", "NOTICE", "V", "DEBUG", "INFO", "WARNING", "WARN", "D", "I", "W")
LOUD: Final = ("ERROR", "CRITICAL", "FATAL")
LEAST_WORDS: Final = 4
"""Words of a line that tell what is wrong."""
FRAMES: Final = ("  ", " File ", "File ", "Traceback ", " Traceback ", "^", "During handling", "The above exception")


def is_trouble(line: str) -> bool:
    """Whether a line tells of an error of its own: no remark, no frame of a traceback, no echo of another error."""
    rest = _loud(line)
    if rest is None or FOLLOWS.search(line):
        return False
    if RAISED.search(rest) or _by_llama(line):
        return True
    return not rest.startswith(FRAMES) and bool(SAYS.search(rest) or PLAIN.match(line) or _by_level(line, rest))


def _by_level(line: str, rest: str) -> bool:
    """Whether the program itself calls a line an error, whatever its words are, and the line has words."""
    before = PREFIX.match(line)
    return before is not None and before["level"] in LOUD and len(rest.split()) >= LEAST_WORDS


def first_error(lines: Iterable[str]) -> str | None:
    """The first exception that no other caused, else the first line that speaks of an error; None without one.

    An error of llama.cpp itself comes before both: what Python raises after it names no reason. Lines that a server
    wrote as a warning or less count only when they quote an exception, and nothing else does.
    """
    own = [line for line in lines if not FOLLOWS.search(line)]
    raised = [line for line in own if RAISED.search(line)]
    return next(chain(filter(_by_llama, own), filter(_loud, raised), filter(is_trouble, own), raised), None)


def _by_llama(line: str) -> bool:
    before = PREFIX.match(line)
    return before is not None and before["llama"] == "E"


def unprefixed(line: str) -> str:
    """What a line says behind its time, its level and its place."""
    before = PREFIX.match(line)
    return line[before.end() :] if before else line


def is_remark(line: str) -> bool:
    """Whether the program that wrote a line calls it a warning or less."""
    before, json = PREFIX.match(line), JSON_LEVEL.match(line)
    level = json["level"].upper() if json else next(filter(None, before.groups()), None) if before else None
    raised = RAISED.search(line)
    said = raised.start() if raised else len(line)  # a level behind an exception is one that it quotes
    other = ELSEWHERE.search(line[:AHEAD]) if level is None else None
    if other and other.start() < said and not SAYS.search(line[: other.start()]):
        level = next(filter(None, other.groups())).upper()
    return " NCCL INFO " in line[:said] or level in QUIET


def _loud(line: str) -> str | None:
    """The text of a line that is no remark; None for one that is."""
    rest = unprefixed(line)
    return None if is_remark(line) or WARNS.search(rest) else NOTHING.sub("", rest)
