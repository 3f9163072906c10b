"""The third result of a check: "not checked", beside "wrong" and "nothing wrong". Every verb that checks uses it. Pure.

A verb lists in its help what it looks at. A part of that list that could not be looked at is a ``NotChecked``. It is
printed as a row, counted in the summary, and stands in ``--json`` as ``unchecked: [{what, reason}]``. When nothing
wrong was found in the rest, ``refuse_unchecked`` raises UncheckedError, unless the user allowed it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.core.printing import printable
from gb10.errors import UncheckedError

ALLOW: Final = "--allow-unchecked"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class NotChecked:
    """A part that was not looked at: which, why, and of which file, where one call looks at several.

    ``what`` is a part in the words of the verb's help ("values of options"), ``reason`` one clause without a full
    stop ("no wheel of vLLM 0.19.1 was read").
    """

    what: str
    reason: str
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return printable(f"{place}not checked: {self.what}: {self.reason}")

    @property
    def document(self) -> dict[str, str]:
        """``{what, reason}``, and ``where`` if it has one."""
        return {"what": self.what, "reason": self.reason, **({"where": self.where} if self.where else {})}


def in_order(unchecked: Iterable[NotChecked]) -> tuple[NotChecked, ...]:
    """Each row once, in the order of their finding."""
    return tuple(dict.fromkeys(unchecked))


def rows_of(unchecked: Sequence[NotChecked]) -> list[str]:
    """A line for each row: ``WHERE: not checked: WHAT: REASON``."""
    return [str(one) for one in unchecked]


def documents_of(unchecked: Sequence[NotChecked]) -> list[dict[str, str]]:
    """The rows as data, for the key ``unchecked`` of a document."""
    return [one.document for one in unchecked]


def counted(unchecked: Sequence[NotChecked]) -> str:
    """For the end of a summary: ``, 2 parts not checked``; empty when everything was looked at."""
    return f", {len(unchecked)} part{'s' * (len(unchecked) != 1)} not checked" if unchecked else ""


def refuse_unchecked(unchecked: Sequence[NotChecked], *, allowed: bool = False) -> None:
    """Raise UncheckedError (exit 13) when a part was left out. Call it last: what is wrong has its own error before.

    The caller has printed the rows: the error only counts them.
    """
    if not unchecked or allowed:
        return
    raise UncheckedError(
        f"{len(unchecked)} part{'s were' if len(unchecked) != 1 else ' was'} not checked, and nothing wrong was found "
        "in the rest",
        hint=f"the rows say why; {ALLOW} makes this exit 0",
    )


def looked_at(parts: Mapping[str, str]) -> str:
    """The list for a verb's help: each part and what is looked at there, a line each."""
    width = max(map(len, parts))
    return "\n".join(f"{name:{width}}  {text}" for name, text in parts.items())
