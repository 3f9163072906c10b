"""Edits: patches, mods and files laid over the image are in it, as they were built."""

from collections import defaultdict
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from gb10.image.plan.plan_record import RecordedPlan
from gb10.image.proof.check import Check, Problem, Subject

NAMED = 12


def judge(subject: Subject) -> list[Problem]:
    """Files that are not what a step made them, and wheels that are not those of the plan."""
    if subject.image is None:
        return []
    plan, contents = subject.image.plan, subject.scan.contents
    about = {step.name: step.about for step in plan.steps} if plan else {}
    problems = [
        Problem(
            file=path,
            expected=f"sha256 {sha256[:NAMED]}…, as {step} made it{f' ({about[step]})' if about.get(step) else ''}",
            found=f"sha256 {contents[path][:NAMED]}…" if path in contents else "no such file",
        )
        for path, (sha256, step) in sorted(subject.image.recorded.items())
        if contents.get(path) != sha256
    ]
    versions: dict[str, list[str]] = defaultdict(list)
    for one in subject.scan.distributions:
        versions[canonicalize_name(one.name)].append(one.version)
    held = plan.base.installed if plan and plan.base else {}
    for name, label in built(plan) if plan else ():
        # one that the image of others has, too, keeps its distribution there: our files are among the recorded ones
        if name not in held and not any(version.endswith(label) for version in versions[name]):
            found = " and ".join(versions[name]) or f"no {name}"
            problems.append(Problem(file=name, expected=f"a version that ends in {label}", found=found))
    return problems


def built(plan: RecordedPlan) -> Iterator[tuple[str, str]]:
    """The projects that a plan compiled or patched, and the label that their versions end in."""
    for step in plan.steps:
        if step.kind == "graft":
            yield canonicalize_name(step.name.removeprefix("graft-")), f"gb10.{step.key[:8]}"
        elif step.kind == "wheel" and plan.installs(step):
            yield canonicalize_name(step.name), f"gb10.{step.key[:8]}"


CHECK = Check(
    name="edits",
    reads="the plan and the scans that an image holds, and the bytes of the files that they name",
    fails="a file that a patch, a mod or an overlay changed has other bytes, or a compiled wheel is not the plan's",
    hint="something changed the image after it was built: build it again, with what you add as a mod or an overlay",
    judge=judge,
)
