"""What a few lines of a log mean, by the rules of ``doctor``: for an error that another verb shows."""

from collections.abc import Iterable

from gb10.serving.doctor.log_judging import judge_logs
from gb10.serving.doctor.log_scan import Scanner
from gb10.serving.doctor.rule_files import load_doctor_rules


def remedy_of(lines: Iterable[str]) -> str | None:
    """What the first error means that a rule knows, and what to do; None when no rule knows one."""
    scanner = Scanner(load_doctor_rules())
    scanner.feed("".join(f"{line}\n" for line in lines).encode())
    for one in judge_logs({"log": scanner.scan()}):
        if one.rule and one.level == "error":
            return f"{one.words(one.rule.meaning)}\n{one.words(one.rule.action)}"
    return None
