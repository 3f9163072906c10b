"""The journal of launches in a folder: opened, continued, and a line added for each launch that was measured."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from gb10.core.child_sessions import end_session, started
from gb10.core.files import digest
from gb10.core.journal import Journal
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.benchmark.launch_line import LaunchLine, Outcome, Result, leftover_server, read_launch
from gb10.serving.benchmark.launcher import MakeLauncher
from gb10.serving.benchmark.measuring import Measure, measure_launch
from gb10.serving.doctor.masking import masked

JOURNAL: Final = "launches.jsonl"
LOGS: Final = "logs"


def open_journal(ctx: Context, folder: Path, head: Mapping[str, object]) -> Journal:
    """The journal of this very job, begun or continued; a server that a killed run left is ended. Raises UsageError."""
    if any(masked(text) != text for text in _texts("", head)):
        raise UsageError(
            "a secret in the command line would be kept in the results",
            hint="export it as a variable, and name that in the command: sh -c 'vllm serve … --api-key \"$KEY\"'",
        )
    journal = Journal(folder / JOURNAL, {**head, "identity": digest([dict(head)])})
    ctx.reporter.say(f"results: {folder}; after an interruption run the same command with --out {folder}")
    left = leftover_server(journal.lines)
    if left and left.started and started(left.pid) == left.started:  # still the same process
        ctx.reporter.say(f"ending the server that an earlier run left behind (process {left.pid})")
        end_session(left.pid)
    return journal


def _texts(name: str, value: object) -> Iterator[str]:
    """The texts of a head, each with its name before it."""
    if isinstance(value, str):
        yield f"{name}={value}"
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(str(key), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(name, one)


def launches_of(journal: Journal) -> list[LaunchLine]:
    """The launches that it had when it was opened, in the order in which they were made."""
    return [one for line in journal.lines if (one := read_launch(line))]


def run_and_record(
    ctx: Context, make: Callable[[], MakeLauncher], measure: Measure, journal: Journal, *, name: str, number: int
) -> LaunchLine:
    """Launch, measure, end, and add the line. Settings that cannot be make a launch that failed. Raises FetchError."""
    boot = f"{name} {number}"
    try:
        outcome = measure_launch(ctx, make()(journal, f"{number}"), measure, boot)
    except UsageError as error:
        where = (error.where or error.hint or "").splitlines()
        outcome = Outcome(result=Result.FAIL, why=error.message, cause=where[0] if where else "", facts={})
    keep_texts(journal.path.parent / LOGS, f"{number}", outcome)
    line = outcome.line(name, 0, number)
    journal.append(line)
    found = read_launch(line)
    if found is None:
        raise AssertionError("a launch cannot be read back")
    levels = found.serve.levels if found.serve and found.result is Result.STABLE else []
    figures = ", ".join(f"{value:.4g} tok/s at {one.concurrency}" for one in levels if (value := one.figure("tok_s")))
    ctx.reporter.say(f"{found.result}: {figures or found.why}" + (f"\n  {found.cause}" if found.cause else ""))
    return found


def keep_texts(folder: Path, name: str, outcome: Outcome) -> None:
    """Keep beside the logs how the answers began, and the whole error."""
    texts = {"answers.txt": "\n".join(outcome.answers), "error.txt": outcome.error}
    for kind, text in texts.items():
        if text:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}-{kind}").write_text(f"{masked(text)}\n", encoding="utf-8")
