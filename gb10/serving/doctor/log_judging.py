"""The findings of the logs of one node or several: each cause once, with its echoes, in the order of time. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Final

from gb10.core.log_words import FOLLOWS, unprefixed
from gb10.serving.doctor.advice import BASE, advice_of
from gb10.serving.doctor.diagnosis import Finding, Verdict
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.error_case import LONGEST, Case
from gb10.serving.doctor.log_exceptions import STRICT, Frame, Raised
from gb10.serving.doctor.log_scan import Scan, Scanner
from gb10.serving.doctor.log_speech import speech
from gb10.serving.doctor.log_time import Moment
from gb10.serving.doctor.rule_files import is_tool_error, load_choices, load_doctor_rules, load_options, load_releases
from gb10.serving.doctor.stages import StageFile
from gb10.serving.doctor.stopped import stopped_starts

NUMBERS: Final = re.compile(
    r"(?P<code>Xid \([^)\n]{3,60}\): \d{1,3}\b|\b(?:error|errno|code|status|signal|HTTP)[ :=(\[]{1,3}-?\d{1,4}\b)"
    r"|0x[0-9a-f]+|\d+",
    re.IGNORECASE,
)
"""Numbers of a line. A ``code`` says which error it is; others only tell where and how much."""
DEVICE: Final = re.compile(r"\([^)]*\)")
SHAPE: Final = 120
MOST_UNKNOWN: Final = 12
"""Kinds of unknown errors that are shown: those that came first."""
MORE_UNKNOWN: Final = "unknown-more"
"""The code of the finding that counts the others."""
MOST_EACH: Final = 8
"""Causes of one code, each told by a number or name of its own, that are shown one by one: those that came first."""
MOST_KINDS: Final = 400
"""Kinds of lines of trouble that families look at, in each log."""
NEAR: Final = 60
"""Lines around a cause in which lines that only speak of trouble belong to it."""
POINTS_BELOW: Final = re.compile(
    r"\b(?:see|listed|shown|printed|reported|described)\b[^.\n]{0,40} below\b|\bfollowing (?:exceptions?|errors?)\b"
    r"|\b(?:exceptions?|errors?|tracebacks?|details|output) below\b",
    re.IGNORECASE,
)
"""What a wrapper says of errors that it prints behind its own: those are the cause."""
CONTAINED: Final = 24
"""Characters of a message that another one must have to be its echo."""
ENDS: Final = frozenset(
    (
        *("BrokenPipeError", "ConnectionResetError", "EOFError", "ChildFailedError", "ProcessRaisedException"),
        *("CancelledError", "SystemExit", "KeyboardInterrupt", "ActorDiedError", "ProcessExitedException"),
        *("EngineDeadError", "GeneratorExit"),
    )
)
"""What a process raises when another one went away, or when it is ended."""
STOPPED: Final = frozenset(("CancelledError", "KeyboardInterrupt", "GeneratorExit"))
"""What a process raises when it is ended, or asked to end; without an error before it that is no fault."""
LOST: Final = re.compile(
    r"[Cc]onnection (?:closed|reset) by peer|[Bb]roken pipe|recvValue failed|Watchdog caught collective|[Hh]eartbeat"
    r"|remote process (?:has )?exited|TCPStore|died unexpectedly|(?:worker|process|subprocess)\S{0,20} (?:died|exited)"
    r"|leaked (?:semaphore|shared_memory)|Application startup failed|Exit code: |terminated|SIG(?:QUIT|TERM)"
    r"|root cause|Root Cause|has been cancelled|Aborted|Fatal Python error"
)
"""What is printed when another process went away."""
AT_START: Final = re.compile(r"initialization failed|failed to start")
"""Repeats at a start. The processes of a server that is ended miss each other, too, and that is no fault."""
CAUSE_IS_ELSEWHERE: Final = Verdict(
    code="cause-is-elsewhere",
    meaning="This log only repeats that another process failed: the cause is not in it. It is in that process's own "
    "log, in lines that were cut off, or the process was ended from outside without a word.",
    action="Take the whole log from the start of the server (docker logs CONTAINER, all ranks; a launcher often keeps "
    "the engine's output in a file of its own), and `journalctl -k -g oom`: a process without a last word was mostly "
    "ended for memory.",
    evidence="lines that refer to a root cause above, with none above them; LocalAI#10722",
)
OF_A_CHILD: Final = frozenset(("CalledProcessError", "RetryError", "SubprocessError", "BackendCompilerFailed"))
"""What is raised because a program, or one more try, failed: what that printed says more."""
OF_A_PROGRAM: Final = re.compile(
    r"returned non-zero exit status|compilation terminated|build stopped: subcommand"
    r"|\bFAILED: (?:\[code=\d{1,3}\] )?\S+\.o\b"
)
NO_MODULE: Final = re.compile(r"No module named '([\w.]{3,80})'")
NO_MEMORY: Final = "driver-out-of-memory"
USED_UP: Final = (
    "memory-is-taken",
    "memory-guard-ended-it",
    "memory-does-not-fit",
    "kernel-ended-it",
    "cache-does-not-fit",
)
"""Findings by which memory ran out: only then the driver's own line is an error."""
QUOTED: Final = re.compile(
    r"\b(?:failed|died|exited|terminated) with (?:the )?(?:error|exception|message)[: "
    r"]{1,3}['\"](?P<inner>.{8,1800})['\"](?:[,.]|$)",
    re.DOTALL,
)
"""What a parent says of a worker's error: the worker's own words are the error."""
WRAPS: Final = ("RayTaskError(", "UserCodeException")
LOOKUPS: Final = frozenset(
    ("KeyError", "AttributeError", "StopIteration", "ModuleNotFoundError", "IndexError", "LookupError")
)
"""What programs catch to try something else: an error that is raised while one is handled says more."""


@dataclass(frozen=True, slots=True)
class _Event:
    """An error of one log, or a line that a rule knows."""

    log: str
    number: int
    moment: Moment | None
    rule: DoctorRule | Verdict | None
    value: str
    head: str = ""
    chain: tuple[str, ...] = ()
    raised_at: str = ""
    note: str = ""
    raised: Raised | None = None
    lines: frozenset[int] = field(default=frozenset())

    @property
    def kind(self) -> str:
        """Events of one kind are one finding."""
        if self.rule:
            each = self.rule.each if isinstance(self.rule, Verdict) else ""
            return f"{self.rule.code} {each}".strip()
        return f"?{shape(self.head or self.value)}"

    @property
    def is_error(self) -> bool:
        """Whether it is one, and no warning or note of a rule."""
        return self.rule is None or self.rule.level == "error"


def shape(text: str) -> str:
    """A line without its prefix and its numbers, but with those that say which error it is."""
    return NUMBERS.sub(lambda found: DEVICE.sub("", found["code"]) if found["code"] else "0", unprefixed(text))[
        :SHAPE
    ].strip()


def root_of(raised: Raised) -> Raised:
    """The exception of a chain that says what is wrong.

    That is the first one. What was raised while a failed look-up was handled says more than the look-up; what wraps
    another process's exception says nothing.
    """
    chain = [one for one in raised.chain if not one.name.startswith(WRAPS)] or list(raised.chain)
    at = 0
    while (
        at + 1 < len(chain) and chain[at].name in LOOKUPS and not chain[at + 1].direct and not _repeats(chain[at + 1])
    ):
        at += 1
    return chain[at]


def _repeats(raised: Raised) -> bool:
    return FOLLOWS.search(raised.text) is not None or raised.name in ENDS


def judge_logs(
    scans: Mapping[str, Scan], stages: StageFile | None = None, live: Set[str] = frozenset()
) -> tuple[Finding, ...]:
    """What the logs show, by log; the first of each kind, in the order of time over all of them.

    With ``stages``, a start that stopped before it was ready is a finding, too. ``live``: logs of processes that run.
    """
    placed = [one for log, scan in scans.items() for one in _placed(_events(log, scan))]
    own, echoes = _without_echoes([event for _, event in sorted(placed, key=itemgetter(0))])
    kinds: dict[str, list[_Event]] = {}
    for event in own:
        kinds.setdefault(event.kind, []).append(event)
    kinds = _with_few_of_a_code(kinds)
    known = [kind for kind in kinds if not kind.startswith("?")]
    unknown = list(islice((kind for kind in kinds if kind.startswith("?")), MOST_UNKNOWN))
    chosen = {*known, *unknown}
    found = [
        _seen(events, echoes.get(kind, 0), scans[events[0].log]) for kind, events in kinds.items() if kind in chosen
    ]
    found += _not_shown([kinds[kind] for kind in kinds if kind not in chosen])
    if any(one.code in USED_UP and one.level == "error" for one in found):
        found = [_as_error(one) if one.code == NO_MEMORY else one for one in found]
    found += () if any(one.level == "error" for one in found) else _repeats_alone(scans)
    if stages is not None:
        found += stopped_starts(scans, stages, {one.where for one in found if one.level == "error"}, live)
    return tuple(found)


def _with_few_of_a_code(kinds: Mapping[str, list[_Event]]) -> dict[str, list[_Event]]:
    """The kinds of events; of each code only the first causes stay apart, and the rest are one kind with its count."""
    few: dict[str, list[_Event]] = {}
    causes: dict[str, int] = {}
    for kind, events in kinds.items():
        rule = events[0].rule
        if not isinstance(rule, Verdict) or not rule.each:
            few[kind] = events
            continue
        of_code = f"{rule.code} ({rule.level})"
        causes[of_code] = causes.get(of_code, 0) + 1
        few.setdefault(kind if causes[of_code] <= MOST_EACH else of_code, []).extend(events)
    for of_code, count in causes.items():
        if count > MOST_EACH:
            first, *others = few[of_code]
            few[of_code] = [replace(first, rule=_rest(first.rule, count - MOST_EACH)), *others]
    return few


def _rest(rule: DoctorRule | Verdict | None, count: int) -> DoctorRule | Verdict | None:
    """What is said of the causes of a code that are not shown one by one."""
    if not isinstance(rule, Verdict):
        return rule
    meaning = (
        f"And {count} more of this kind, each with another number or name; they are counted here, from this line on."
    )
    return replace(rule, meaning=meaning, action="Mend those that are shown first, then look at the whole log.")


def _not_shown(rest: Sequence[Sequence[_Event]]) -> Iterator[Finding]:
    """One finding that counts the kinds of unknown errors beyond those that are shown, at the first of them."""
    if rest:
        first = rest[0][0]
        lines = sum(map(len, rest))
        verdict = Verdict(
            code=MORE_UNKNOWN,
            meaning=f"And {len(rest)} more kinds of errors that no rule knows, {lines} lines, from this one on.",
            action="Mend those that are shown first, then look at the rest of the log.",
            evidence="the first kinds come first in time",
        )
        yield Finding(
            rule=verdict, place="log", where=first.log, value=first.value, line=first.number, moment=first.moment
        )


def _repeats_alone(scans: Mapping[str, Scan]) -> Iterator[Finding]:
    """A finding for logs that only repeat that a start failed."""
    for log, scan in scans.items():
        line = scan.repeats
        if line and AT_START.search(line.text):
            yield Finding(
                rule=CAUSE_IS_ELSEWHERE, place="log", where=log, value=line.text, line=line.number, moment=line.moment
            )
            return


def _as_error(one: Finding) -> Finding:
    """A note of the driver that is an error, because memory also ran out."""
    if not isinstance(one.rule, DoctorRule):
        return one
    rule = one.rule
    verdict = Verdict(code=rule.code, meaning=rule.meaning, action=rule.action, evidence=rule.evidence)
    return replace(one, rule=verdict)


def _events(log: str, scan: Scan) -> list[_Event]:
    """The errors of one log. A line counts once: as the rule's that knows it, else as its exception's, else alone."""
    hits = [_Event(log, hit.line.number, hit.line.moment, hit.rule, hit.value) for hit in scan.hits]
    by_rule = {event.number: event for event in hits if event.is_error}
    noted = {event.number for event in hits if not event.is_error}
    errors: list[_Event] = []
    taken: set[int] = set()
    for raised in scan.raised:
        numbers = raised.lines or frozenset((raised.line,))
        taken |= numbers
        if raised.quiet:
            continue
        event = _of_exception(log, scan, raised)
        rules = {by_rule[number].kind for number in numbers if number in by_rule}
        if (rules and event.kind not in rules) or (event.rule is None and raised.line in noted):
            continue  # a rule knows this very error
        if rules:
            hits = [hit for hit in hits if hit.number not in numbers or hit.kind != event.kind]
        errors.append(event)
    ruled = {event.number for event in hits}
    verdicts: dict[str, tuple[Verdict | None, str]] = {}
    for line in scan.trouble:
        if line.number in taken or line.number in ruled:
            continue
        head = _head(line.text)
        kind = shape(head)
        if kind not in verdicts:  # lines of one kind are one finding, which the first of them makes
            text = Raised(type="", message=f"{line.text}{line.more}", line=line.number, place=speech(line.text).place)
            verdict = _judged(text, (text,), scan) if len(verdicts) < MOST_KINDS else None
            verdicts[kind] = verdict, "" if verdict else advice_of(_case(text, (text,), scan))
        known, note = verdicts[kind]
        errors.append(_Event(log, line.number, line.moment, known, line.text, head=head, note=note))
    return _once_near([*hits, *errors])


def _judged(raised: Raised, chain: tuple[Raised, ...], scan: Scan) -> Verdict | None:
    from gb10.serving.doctor.families import verdict_of  # noqa: PLC0415 - for a log that has errors

    return verdict_of(_case(raised, chain, scan))


def _case(raised: Raised, chain: tuple[Raised, ...], scan: Scan) -> Case:
    quoted = QUOTED.search(raised.message[:LONGEST]) if raised.type or "'" in raised.message else None
    short = replace(raised, message=quoted["inner"] if quoted else raised.message[:LONGEST])
    return Case(
        raised=short,
        chain=chain,
        scan=scan,
        releases=load_releases(),
        options=load_options(),
        sglang_options=load_options("sglang"),
        choices=load_choices(),
    )


def _head(text: str) -> str:
    """What makes two lines of trouble the same kind: an exception by itself, else the line."""
    found = STRICT.search(text)
    return text[found.start("type") :] if found else text


def _of_exception(log: str, scan: Scan, raised: Raised) -> _Event:
    root = root_of(raised)
    verdict, about = None, root
    for one in dict.fromkeys((root, *raised.chain)):
        verdict = _judged(one, raised.chain, scan)
        if verdict:
            about = one
            break
    others = tuple(one.text.partition("\n")[0][:300] for one in raised.chain if one is not about)
    at = _place(about.frames[-1]) if about.frames else ""
    own = next((one for one in reversed(about.frames) if one.package not in BASE), None)
    if own and own is not about.frames[-1]:
        at = f"{at}, called by {_place(own)}"
    note = "" if verdict else advice_of(_case(about, (about,), scan))
    return _Event(
        log, about.line, raised.moment, verdict, about.text, head=about.text, chain=others, raised_at=at, note=note,
        raised=raised, lines=raised.lines,
    )  # fmt: skip


def _place(frame: Frame) -> str:
    return f"{frame.path}:{frame.line}{f' in {frame.function}' if frame.function else ''}"


def _once_near(events: list[_Event]) -> list[_Event]:
    """Lines that only speak of trouble around an error with a cause are its words."""
    causes = sorted(
        event.number for event in events if event.is_error and (event.raised or event.rule) and not _is_echo(event)
    )
    kept = []
    for event in events:
        alone = event.rule is None and event.raised is None and not STRICT.search(event.value)
        if alone and any(abs(event.number - number) <= NEAR for number in causes):
            continue
        kept.append(event)
    return kept


def _placed(events: Sequence[_Event]) -> Iterator[tuple[tuple[bool, Moment, int, bool], _Event]]:
    """The events of one log with their places: by the clocks of the nodes, a log without times last, then by lines.

    Lines before the first one with a time came no later than that. A line that only points to errors behind it takes
    the place after the first of them that is known.
    """
    first = min((one for one in events if one.moment), key=lambda one: one.number, default=None)
    causes = sorted(
        (one for one in events if one.rule and one.is_error and not _is_echo(one)), key=lambda one: one.number
    )
    for event in events:
        points = _is_echo(event) or (event.rule is None and POINTS_BELOW.search(event.value))
        near = (one for one in (causes if points else ()) if 0 < one.number - event.number < NEAR)
        cause = next(near, None)
        at = cause or event
        moment = at.moment or (first.moment if first else None)
        yield (moment is None, moment or Moment(0, 0, 0.0), at.number, cause is not None), event


def _is_echo(event: _Event) -> bool:
    return isinstance(event.rule, Verdict) and event.rule.echo


def _without_echoes(events: Sequence[_Event]) -> tuple[list[_Event], dict[str, int]]:
    """The events that are no echo of an earlier error, and how many echoes the first error has."""
    own: list[_Event] = []
    echoes: dict[str, int] = {}
    texts: dict[str, str] = {}
    first: _Event | None = None
    for event in events:
        repeats = event.rule is None and event.raised is not None and FOLLOWS.search(event.value)
        ends = event.rule is None and event.raised is not None and root_of(event.raised).name in STOPPED
        if first is None and (repeats or ends):
            continue  # its cause is not in the log: the server was ended, or the beginning is cut off
        cause = _echo_of(event, first, texts) if event.is_error else None
        if cause is not None:
            echoes[cause] = echoes.get(cause, 0) + 1
            continue
        own.append(event)
        if event.is_error:
            first = first or event
            if event.raised and len(texts) < MOST_UNKNOWN * 4:
                for one in event.raised.chain:
                    if len(one.message) >= CONTAINED:
                        texts.setdefault(one.message.partition("\n")[0][:400], event.kind)
    return own, echoes


def _echo_of(event: _Event, first: _Event | None, texts: Mapping[str, str]) -> str | None:
    """The kind of the error that an event only repeats; None for an error of its own."""
    raised = event.raised
    if first is None or isinstance(event.rule, DoctorRule):
        return None
    text = event.value
    if _is_echo(event):
        return first.kind if first.kind != event.kind else None
    module = NO_MODULE.search(text)
    if module and event.log == first.log and 0 <= event.number - first.number < NEAR and module[1] in first.value:
        return first.kind  # the next way to import what failed before
    if event.rule is None:
        name = raised.name if raised else ""
        near = event.log == first.log and 0 <= event.number - first.number < NEAR
        pointed = POINTS_BELOW.search(text) and event.log == first.log and 0 < first.number - event.number < NEAR
        child = near and first.kind != event.kind and (name in OF_A_CHILD or OF_A_PROGRAM.search(text))
        if pointed or child:
            return first.kind
        if name in ENDS or name.startswith(WRAPS) or FOLLOWS.search(text) or LOST.search(text):
            return first.kind if first.kind != event.kind else None
    return next((kind for part, kind in texts.items() if part in text and kind != event.kind), None)


def _seen(events: list[_Event], echoes: int, scan: Scan) -> Finding:
    """The finding of events of one kind, at the first of them; where that has no traceback, told by one that has."""
    first = events[0]
    logs: dict[str, int] = {}
    for event in events:
        logs[event.log] = logs.get(event.log, 0) + 1
    bare = first.raised is not None and not first.raised.frames
    told = next((one for one in events if bare and one.raised and one.raised.frames), first)
    last = scan.start.last
    during = last.stage if last and last.line < first.number else ""
    return Finding(
        rule=told.rule,
        place="log",
        where=first.log,
        value=first.value,
        line=first.number,
        moment=first.moment,
        count=logs.pop(first.log),
        others=logs,
        chain=told.chain,
        echoes=echoes,
        stage=during,
        raised_at=told.raised_at,
        note=told.note,
    )


def remedy_of(lines: Iterable[str]) -> str | None:
    """What the first error means that a rule knows, and what to do; None when no rule knows one."""
    scanner = Scanner(load_doctor_rules(), tools=is_tool_error)
    scanner.feed("".join(f"{line}\n" for line in lines).encode())
    for one in judge_logs({"log": scanner.scan()}):
        if one.rule and one.level == "error":
            return f"{one.words(one.rule.meaning)}\n{one.words(one.rule.action)}"
    return None
