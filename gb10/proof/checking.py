"""Checking: every check of checks/ on one subject, and the error when one fails."""

import importlib
import pkgutil
from collections.abc import Sequence

from gb10.errors import VerifyError
from gb10.proof import checks
from gb10.proof.check import Check, Problem, Subject

Finding = tuple[Check, Problem]


def all_checks() -> list[Check]:
    """The checks by name, as the folder lists their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
    return [importlib.import_module(f"{checks.__name__}.{name}").CHECK for name in names]


def findings(subject: Subject) -> list[Finding]:
    """All problems, each with the check that found it."""
    return [(check, problem) for check in all_checks() for problem in check.judge(subject)]


def refuse(found: Sequence[Finding]) -> None:
    """Raise VerifyError with every problem; return when there is none."""
    if found:
        counted = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        hints = dict.fromkeys(check.hint for check, _ in found)
        where = "\n".join(str(problem) for _, problem in found)
        raise VerifyError(f"verify found {counted}", where=where, hint="\n".join(hints))


def prove(subject: Subject) -> None:
    """Raise VerifyError unless every check passes."""
    refuse(findings(subject))
