"""Who says what in a line of a log: the process or rank, the level, and the text behind all prefixes. Pure.

A line may have several prefixes: Docker Compose's or Kubernetes' before a process's before a logger's.
"""

import re
from dataclasses import dataclass
from typing import Final

ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
RANK: Final = r"[A-Z]{2,3}\d{1,4}"
PARTS: Final = re.compile(
    r"(?P<pod>\[pod/[^\]\s]{1,200}\]) ?"
    r"|(?P<compose>[A-Za-z][\w.-]{0,60}) {1,6}\| ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) ?(?:std(?:out|err) [FP] )?"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2} \d\d:\d\d:\d\d [\w.-]{1,60}"
    r" [\w./-]{1,60}(?:\[\d{1,9}\])?: ?"
    r"|\((?P<process>[A-Za-z][\w.:-]{0,50}(?: [\w.-]{1,40})? ?pid=\d{1,9}[^()]{0,60}|pid=\d{1,9}[^()]{0,60})\) ?"
    r"|\[(?P<torch>(?:rank|default)\d{1,4})\]: ?"
    r"|\[\d{1,6},(?P<mpi>\d{1,4})\]<std\w{3,6}>: ?"
    rf"|\[\d{{4}}-\d\d-\d\d[T ][\d:.,]{{8,16}}(?P<sglang>(?: {RANK}){{0,4}})\] ?"
    r"|(?:#\d{1,4} )?\d{1,5}\.\d{3} (?=\S| {2})"
    r"|\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ?"
    r"|\[TRT-LLM\] ?|\[TensorRT-LLM\] ?|\[RANK (?P<trt>\d{1,4})\] ?|\[(?P<letter>[IWEFD])\] ?"
    r"|(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL) "
    r"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})? \[?(?P<place>[^\]\s]{1,100})\] ?"
    r"|\[?(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d{3,9}[^\]\n]{1,120}\] ?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: - | \| | )"
    r"|\[?(?P<plain>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\]?(?::[\w.]{1,60}:|:? {1,10}(?:- )?)"
)
"""One prefix. Each is tried at the beginning of what is left of a line."""
LEVELS: Final = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "D": "DEBUG", "WARN": "WARNING"}
MOST: Final = 6
"""Prefixes of a line."""
PROCESS: Final = re.compile(
    r"^[\w./:@ \[\]-]{1,160}? (?=\((?:APIServer|EngineCore|Worker)\w{0,20}[^()]{0,20} ?pid=\d{1,9}\))"
)
"""What a collector of logs put before the process of an engine: pods, containers, hosts, in a form of its own."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A line without its prefixes. ``body`` keeps its indentation."""

    who: str
    """The process or rank (``EngineCore pid=87``, ``TP0``); empty where the line names none."""
    level: str | None
    place: str
    """The engine's file and line that printed it (``core.py:1231``); empty where the line names none."""
    body: str

    @property
    def source(self) -> tuple[str, str | None, str]:
        """Lines of one record have the same."""
        return self.who, self.level, self.place


def clean(raw: bytes) -> str:
    """The text of a line with its indentation, without colours and what cannot be printed.

    A line that a progress bar wrote over has the last text alone.
    """
    text = ESCAPES.sub("", raw.decode("utf-8", "replace")).rstrip()
    if "\r" in text:
        text = text.rpartition("\r")[2]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\t" else "\N{REPLACEMENT CHARACTER}" for one in text)


def speech(text: str) -> Speech:
    """A line's parts."""
    who: list[str] = []
    level, place = None, ""
    unknown = PROCESS.match(text) if "pid=" in text[:240] and PARTS.match(text) is None else None
    at = unknown.end() if unknown else 0
    for _ in range(MOST):
        found = PARTS.match(text, at)
        if found is None or found.end() == at:
            break
        at = found.end()
        parts = found.groupdict()
        name = next(
            (parts[key] for key in ("pod", "compose", "process", "torch", "sglang", "mpi", "trt") if parts[key]), ""
        )
        if name:
            who.append(f"rank {name}" if parts["mpi"] or parts["trt"] else name.strip())
        given = parts["level"] or parts["plain"] or parts["letter"] or parts["glog"]
        level = LEVELS.get(given, given) if given else level
        place = parts["place"] or place
    return Speech(" ".join(who), level, place, text[at:])
