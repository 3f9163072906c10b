"""docs/claims.md: every claim with its state, by subject. Pure."""

from collections.abc import Sequence
from typing import Final

from gb10.serving.claims.claim_schema import Claim, Report, Result, Subject, results_of

HEAD: Final = """# What gb10 claims, and what a GB10 has shown of it

Made from `recipes/claims/` (`make check` fails when it is stale). Pages name a claim by its id. Each claim has how it
is checked without a GB10, which step of `selftest` checks it on one, and what must come out.

You have a Spark? The first command takes up to an hour, the second adds its report here: send both files that it names
as a pull request.

```console
$ ./build.py selftest run --model DIR --out mine
$ ./build.py selftest import mine/report.json
```

"""
TABLE: Final = "| id | claim | without a GB10 | on a GB10 | must come out | state |\n|---|---|---|---|---|---|\n"
COUNTED: Final = ("held", "fell", "recorded")


def claims_page(subjects: Sequence[Subject], reports: Sequence[Report]) -> str:
    """The page."""
    parts = [HEAD, _summary(subjects, reports)]
    for subject in subjects:
        parts.append(f"\n## {subject.title}\n\n{TABLE}")
        parts += [_row(claim, reports) for claim in subject.claims]
    return "".join(parts)


def state(claim: Claim, reports: Sequence[Report]) -> str:
    """What the newest report of each machine says of a claim, in one line."""
    latest: dict[str, tuple[Report, Result]] = {report.machine: (report, r) for report, r in results_of(claim, reports)}
    if not latest:
        return "no report"
    return "; ".join(
        f"{result.came}: {_spelled(result.value, result.unit)} ({machine}, {report.date})"
        for machine, (report, result) in latest.items()
    )


def _summary(subjects: Sequence[Subject], reports: Sequence[Report]) -> str:
    claims = [claim for subject in subjects for claim in subject.claims]
    newest = [found[-1][1].came for claim in claims if (found := results_of(claim, reports))]
    counts = ", ".join(f"{newest.count(came)} {came}" for came in COUNTED)
    machines = len({report.machine for report in reports})
    return (
        f"{len(claims)} claims; {len(claims) - len(newest)} without a report; by the newest report {counts}. "
        f"{len(reports)} reports of {machines} machines.\n"
    )


def _row(claim: Claim, reports: Sequence[Report]) -> str:
    tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in claim.tests) or _cell(claim.untested or "")
    step = f"`selftest --step {claim.step}`" if claim.step else _cell(claim.elsewhere or "")
    return (
        f"| `{claim.id}` | {_cell(claim.says)} | {tests} | {step} | {_must(claim)} | {_cell(state(claim, reports))} |\n"
    )


def _must(claim: Claim) -> str:
    must = claim.must
    if must.exactly is not None:
        text = _spelled(must.exactly, must.unit)
    elif must.recorded:
        text = "recorded" + (f", in {must.unit}" if must.unit else "")
    else:
        bounds = [(word, one) for word, one in (("at least", must.least), ("at most", must.most)) if one is not None]
        text = f"{', '.join(f'{word} {_spelled(one, must.unit)}' for word, one in bounds)} ({must.source})"
    beside = [f"{_spelled(one.value, one.unit)} ({one.what}; `{one.kept}`)" for one in claim.published]
    return _cell(text + (f". Published by others: {'; '.join(beside)}" if beside else ""))


def _spelled(value: object, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = f"{value:,}" if isinstance(value, int | float) else str(value)
    return f"{number} {unit}" if unit else number


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
