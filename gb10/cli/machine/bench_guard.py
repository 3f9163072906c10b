"""``bench guard``: saved streams judged."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import reported
from gb10.cli.verb import JsonOption, print_json, with_reporter
from gb10.core.files import read_plain_file
from gb10.core.reporter import Reporter
from gb10.errors import VerifyError
from gb10.serving.guard.finding import worst
from gb10.serving.load_generator.canary_batch import guard_limits
from gb10.serving.load_generator.saved import SavedStream, judge_saved

LARGEST_FILE: Final = 256 << 20
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The saved stream, or - for stdin.")]
SameOption = Annotated[bool, typer.Option("--same-prompt", help="All answers are to one prompt: they may be equal.")]
ForcedOption = Annotated[
    bool, typer.Option("--forced", help="The server had to go on after the answer's end (--exact-tg, ignore_eos).")
]


@with_reporter
def guard(
    file: FileArgument,
    *,
    reporter: Reporter,
    same_prompt: SameOption = False,
    forced: ForcedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge saved answers: OK, SUSPECT, CUT, EMPTY, LOOP, ERROR, GARBAGE.

    \b
    ./build.py bench guard stream.sse
    ./build.py bench guard answers.jsonl --json
    curl -sN … | ./build.py bench guard -

    FILE has the events of one stream (with or without `data:`), the progress of llama-benchy (--emit-progress), an
    answer a line ({"content": …} or {"text": …}), or text. Exit 9 when one is bad.
    """
    streams = judge_saved(read(file), guard_limits(), forced=forced, same_prompt=same_prompt)
    verdict = worst([stream.judgement.verdict for stream in streams])
    if as_json:
        print_json({"schema": "gb10/guard/v1", "verdict": str(verdict), "streams": [document(one) for one in streams]})
    else:
        for stream in streams:
            judgement = stream.judgement
            print(f"{judgement.verdict:8} {stream.name}, {judgement.characters:,} characters", end="")
            print(f": {judgement.why}" if judgement.why else "")
    with reported(as_json):
        if verdict.bad:
            bad = sum(stream.judgement.verdict.bad for stream in streams)
            raise VerifyError(f"{bad} of {len(streams)} streams are bad", hint="docs/guard.md says what each means")


def document(stream: SavedStream) -> dict[str, object]:
    """One stream as JSON."""
    judgement = stream.judgement
    return {
        "name": stream.name,
        "verdict": str(judgement.verdict),
        "characters": judgement.characters,
        "findings": [asdict(finding) for finding in judgement.findings],
    }


def read(file: str) -> str:
    """The file's text; what is no UTF-8 counts as U+FFFD. Raises UsageError."""
    if file == "-":
        return sys.stdin.buffer.read(LARGEST_FILE).decode("utf-8", "replace")
    content = read_plain_file(Path(file), LARGEST_FILE, "name a file with one stream or a few, or - for stdin")
    return content.decode("utf-8", "replace")
