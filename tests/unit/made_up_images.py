"""Images for the tests of checks, made up."""

from gb10.image.plan.plan_record import RecordedPlan, recorded_plan
from gb10.image.proof.check import Facts, Problem, Subject
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.installed import Distribution
from gb10.inside.scan.scan import Scan

SITE = "usr/local/lib/python3.13/dist-packages"
KEY = "0123456789abcdef" * 4
PLAN = {
    "schema": "gb10/plan/v1",
    "engine": "vllm",
    "version": "1.0",
    "arch": "12.1f",
    "platform": "linux/arm64",
    "build": "linux/amd64",
    "lock": KEY,
    "key": KEY,
    "tags": ["gb10/test:1"],
}


def distribution(name: str, version: str = "1.0", *requires: str, site: str = SITE, **fields: object) -> Distribution:
    """An installed distribution."""
    path = f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA"
    return Distribution(path=path, name=name, version=version, requires=requires, **fields)  # type: ignore[arg-type]


def plan_of(**fields: object) -> RecordedPlan:
    """The plan that an image holds."""
    found = recorded_plan({**PLAN, **fields})
    assert found is not None
    return found


def image(*distributions: Distribution, scan: Scan | None = None, **facts: object) -> Subject:
    """An image with these distributions, or this scan."""
    known = Facts(**{"platform": "linux/arm64", **facts})  # type: ignore[arg-type]
    return Subject(scan=scan or Scan(root="image", distributions=distributions), image=known, arch=parse_arch("12.1f"))


def found(problems: list[Problem]) -> list[tuple[str, str]]:
    """File and finding of each problem."""
    return [(problem.file.rpartition("/")[2] or problem.file, problem.found) for problem in problems]
