"""Checking: every check of checks/ on one subject, and the error when one fails."""

import importlib
import pkgutil
from collections.abc import Sequence

from gb10.errors import VerifyError
from gb10.image.proof import checks
from gb10.image.proof.check import Check, Problem, Severity, Subject

Finding = tuple[Check, Problem]
LISTED = 40
"""Problems that an error names."""


def all_checks() -> list[Check]:
    """The checks by name, as the folder lists their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
    return [importlib.import_module(f"{checks.__name__}.{name}").CHECK for name in names]


def findings(subject: Subject) -> list[Finding]:
    """All problems, each with the check that found it."""
    return [(check, problem) for check in all_checks() for problem in check.judge(subject)]


def of_severity(found: Sequence[Finding], severity: Severity) -> list[Finding]:
    """The problems of checks with this severity."""
    return [(check, problem) for check, problem in found if check.severity == severity]


def refuse(found: Sequence[Finding]) -> None:
    """Raise VerifyError with every problem that is no note; return when there is none."""
    errors = of_severity(found, "error")
    if errors:
        counted = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        hints = dict.fromkeys(check.hint for check, _ in errors)
        where = "\n".join(str(problem) for _, problem in errors[:LISTED])
        where += f"\nand {len(errors) - LISTED} more: `verify --json` lists them" if len(errors) > LISTED else ""
        raise VerifyError(f"verify found {counted}", where=where, hint="\n".join(hints))


def prove(subject: Subject) -> None:
    """Raise VerifyError unless every check passes."""
    refuse(findings(subject))
