"""Diagnosis: one error from a compile's log: the unit, the compiler's first error, a hint. Pure.

It reads the output of ninja and the compilers. If it finds no cause in the log, the error stays as it was.
"""

import re
from pathlib import Path
from typing import Final

from gb10.errors import BuildError

STEP: Final = re.compile(r"^#\d+ ")
FAILED: Final = re.compile(r"^FAILED: (?:\[code=\d+\] )?(\S+)")
KILLED: Final = re.compile(
    r"^FAILED: \[code=(?:137|247)\]|^Killed$|Killed signal terminated program|died due to signal 9|exit code: 137$"
)
"""How ninja, a shell, gcc, nvcc and BuildKit report SIGKILL. Ninja shows Python's -9 as 247."""
COMPLAINT: Final = re.compile(r"\b(?:error|fatal)\s*:|undefined reference to")
KEPT: Final = "run the same command again: units in the compile cache are not recompiled"


def diagnosed(error: BuildError, log: Path, text: str, step: str) -> BuildError:
    """The error of a failed compile, from the text of its log; else ``error`` itself."""
    lines, unit = [STEP.sub("", line) for line in text.splitlines()], ""
    for number, line in enumerate(lines):
        failed = FAILED.match(line)
        unit = "/".join(Path(failed[1]).parts[-2:]) if failed else unit  # module and file
        if KILLED.search(line):
            return _killed(log, unit or step)
        if failed:
            begin = number + 2  # behind the command
            end = next((at for at in range(begin, len(lines)) if FAILED.match(lines[at])), len(lines))  # another's
            first = next((at for at in range(begin, end) if COMPLAINT.search(lines[at])), None)
            if first is not None and not any(KILLED.search(other) for other in lines[begin : first + 1]):
                return _refused(log, unit, lines[first : first + 3])
    return error


def _refused(log: Path, unit: str, said: list[str]) -> BuildError:
    """The compiler's message, the line of source, and the caret below it."""
    verb = "link" if unit.endswith(".so") else "compile"
    below = [line for line in said[1:] if line.startswith(" ")]
    return BuildError(
        f"{unit} does not {verb}: {said[0]}",
        where="\n".join([*below, f"log: {log}"]),
        hint=f"fix that line in your patch or checkout; without changes of yours it is a defect of the release\n{KEPT}",
    )


def _killed(log: Path, unit: str) -> BuildError:
    hint = "stop other programs, or compile fewer units at once: GB10_JOBS=1\nthe largest unit takes 15 GB; "
    return BuildError(
        f"the compiler of {unit} was killed, as Linux does when memory runs out",
        where=f"log: {log}",
        hint=f"{hint}--builder NAME compiles on another machine\n{KEPT}",
    )
