"""The folder of a self-test: evidence and reports without names of anybody, and a journal to go on from."""

import errno
import json
import os
import pwd
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gb10.core.document import mistakes_of
from gb10.core.files import digest
from gb10.core.journal import Journal, head_of
from gb10.errors import BuildError, UsageError
from gb10.serving.benchmark.pages import html
from gb10.serving.claims.selftest_report import StepOfReport
from gb10.serving.doctor.masking import secrets_of
from gb10.serving.selftest.cleaning import Cleaner
from gb10.serving.selftest.outcome import LONGEST, ImageFacts, MachineFacts, Report, StepReport, step_of
from gb10.serving.selftest.selftest_page import report_page, report_text

JOURNAL: Final = "steps.jsonl"
MOST: Final = 4 << 20
"""Characters of a file of evidence; of a longer one, the beginning and the end are kept."""
OTHER: Final = "begin anew in another folder: --out DIR"
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")
IDENTITIES: Final = (
    *("etc/hostname", "etc/machine-id", "proc/sys/kernel/random/boot_id"),
    *("sys/class/dmi/id/product_serial", "sys/class/dmi/id/board_serial", "sys/class/dmi/id/product_uuid"),
    *("sys/class/dmi/id/chassis_serial", "proc/device-tree/serial-number"),
)
"""Files of a machine that name it."""
USERS: Final = ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME")


def names_of_machine(env: Mapping[str, str], root: Path = Path("/")) -> Iterator[str]:
    """What this machine and its user are called."""
    yield socket.gethostname()
    yield from (env[name] for name in USERS if env.get(name))
    try:
        yield pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry, as in a container
        yield from ()
    for path in (root / one for one in IDENTITIES):
        try:
            text = path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
        except OSError:  # it has none, or root alone may read it: then nobody else printed it
            continue
        if text:
            yield text


def cleaner_of(env: Mapping[str, str], names: Iterable[str], root: Path = Path("/")) -> Cleaner:
    """The cleaner of this machine, and of these hosts."""
    return Cleaner((*names_of_machine(env, root), *(one.rpartition("@")[2] for one in names)), secrets_of(env))


class Folder:
    """Where a self-test writes. ``state`` names the job: a folder of another is refused when it goes on."""

    def __init__(self, path: Path | None, cleaner: Cleaner, job: Mapping[str, object]) -> None:
        """Make it, or open it again; without a path nothing is made, and nothing may be written.

        Raises UsageError for a folder of another job, BuildError when it is full.
        """
        self.path, self._cleaner = path or Path(os.devnull), cleaner
        self._running: str | None = None
        cleaned = self._values(job)
        if path is None:
            return
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(path / JOURNAL, {"identity": digest(cleaned), **cleaned})

    def earlier(self) -> tuple[dict[str, StepReport], dict[str, int]]:
        """The steps that ended before, and how often each was begun without an end.

        Raises UsageError for a line that is no step of ours.
        """
        done: dict[str, StepReport] = {}
        begun: Counter[str] = Counter()
        for number, line in enumerate(map(head_of, self._journal.lines), 2):
            if isinstance(name := line.get("begun"), str):
                begun[name] += 1
            elif isinstance(name := line.get("stopped"), str):
                begun[name] = max(0, begun[name] - 1)
            elif isinstance(found := line.get("step"), dict):
                step = self._step_of(found, number)
                done[step.id] = step
                begun[step.id] = max(0, begun[step.id] - 1)
        return done, +begun

    def _step_of(self, found: Mapping[str, Any], number: int) -> StepReport:
        """A step of the journal; those of older releases do not say that somebody asked for them."""
        document = {"asked": True, **found}
        if mistakes := mistakes_of(document, StepOfReport):
            at, text = mistakes[0]
            where = f"{'.'.join(map(str, at))}: {text}"
            raise UsageError(
                f"line {number} of {self.path / JOURNAL} is no step of a self-test", where=where, hint=OTHER
            )
        return step_of(document)

    def begin(self, step: str) -> None:
        """Note that a step runs: after a reboot one sees in which."""
        with _writing(self.path):
            self._journal.append_object({"begun": step})
        self._running = step

    def stop(self) -> None:
        """Note that the user stopped the step that runs, if one does: that says nothing about it."""
        if self._running is None:
            return
        with _writing(self.path):
            self._journal.append_object({"stopped": self._running})
        self._running = None

    def end(self, step: StepReport) -> None:
        """Note how it ended."""
        with _writing(self.path):
            self._journal.append_object({"step": self._step(step)})
        self._running = None

    def _values(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A part of ours without names: its keys stay, whatever a machine or a user is called."""
        return {key: self._cleaner.cleaned(value) for key, value in part.items()}

    def _step(self, step: StepReport) -> dict[str, Any]:
        """A step without names: ids and titles are ours, whatever a host is called.

        A word in a name's place may be longer than the name.
        """
        document = step.document
        claims = {
            one: {**found, "value": self._cleaner.cleaned(found["value"])} for one, found in document["claims"].items()
        }
        return {**document, "why": self._cleaner.clean(document["why"])[:LONGEST], "claims": claims}

    def keep(self, name: str, content: str | Mapping[str, Any] | list[Any]) -> str:
        """Write a file of evidence without names; returns its name."""
        if NAME.fullmatch(name) is None:
            raise AssertionError(name)
        if isinstance(content, str):
            half = MOST // 2  # whole lines: a name that a cut divides would not be known
            head, tail = content[:half].rpartition("\n")[0], content[-half:].partition("\n")[2]
            text = self._cleaner.clean(content if len(content) <= MOST else f"{head}\n…\n{tail}")
        else:
            text = json.dumps(self._cleaner.cleaned(content), indent=1)
        with _writing(self.path):
            (self.path / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        return name

    def write(self, report: Report) -> dict[str, Any]:
        """report.json, report.html and report.txt; returns the document."""
        document = report.document
        document["machine"] = self._values(document["machine"])
        document["image"] = self._values(document["image"]) if report.image else None
        document["steps"] = [self._step(one) for one in report.steps]
        clean = replace(
            report,
            machine=MachineFacts(**document["machine"]),
            image=ImageFacts(**document["image"]) if report.image else None,
            steps=[step_of(one) for one in document["steps"]],
        )
        page = report_page(clean)
        with _writing(self.path):
            (self.path / "report.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
            (self.path / "report.html").write_text(html(page), encoding="utf-8")
            (self.path / "report.txt").write_text(report_text(clean), encoding="utf-8")
        return document


class _writing:
    """An error of the disk becomes one that a user can act on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise BuildError(
                f"cannot write the results: {error.strerror}",
                where=str(self._path),
                hint="make room, and go on by --resume"
                if error.errno in FULL
                else "name a folder that can be made and written: --out DIR",
            ) from error
