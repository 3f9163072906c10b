"""What ``moe check`` did not look at in a file, in a compile or in a log: each with its reason. Pure."""

from collections.abc import Iterator, Sequence

from gb10.core.checked import NotChecked
from gb10.image.moe.asked_names import Comparison
from gb10.image.moe.compiled_rows import COMPILES, Compiled
from gb10.image.moe.file_verdict import FileVerdict
from gb10.image.moe.tuned_name import TITLES


def left_out(
    verdicts: Sequence[FileVerdict], compiled: Sequence[Compiled] | None, names: Sequence[Comparison] | None
) -> Iterator[NotChecked]:
    """``compiled`` and ``names`` are None where nobody asked for a compile, or for a log to be read."""
    done = {row.path for row in compiled or ()}
    for one in verdicts:
        taken = [row for row in one.rows if row.use == "triton"]
        unknown = sum(row.shared is None for row in taken)
        if unknown:
            reason = f"the shared memory of {unknown} of {len(taken)} rows is not computed for this type"
            yield NotChecked(what="rows", reason=reason, where=one.path)
        if compiled is not None and one.family and one.family not in COMPILES:
            reason = f"--compile has no kernel of {TITLES[one.family]}"
            yield NotChecked(what="compiled", reason=reason, where=one.path)
        elif compiled is not None and one.verdict == "found" and taken and one.path not in done:
            yield NotChecked(what="compiled", reason="none of its rows was compiled", where=one.path)
    if names is not None and not names:
        yield NotChecked(what="log", reason="no line of it names a tuned file")
