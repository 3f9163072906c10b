"""Claim: every binary with GPU code holds SASS of the claimed arch, suffix included; more is allowed."""

from gb10.image.proof.check import Check, Problem, Subject, described
from gb10.image.recipe.arch import Arch


def judge(subject: Subject) -> list[Problem]:
    """What does not bear out ``--claim``, or a marker beside the wheels."""
    return [problem for by, arch in sorted(subject.claims.items()) for problem in _unheld(subject, by, arch)]


def _unheld(subject: Subject, by: str, arch: Arch) -> list[Problem]:
    """A module that a manifest declares is compared with that instead, if the manifest is of the claimed arch."""
    expected = f"{arch.sm}, as {by} claims"
    problems = [
        Problem(file=manifest.file, expected=expected, found=f"a wheel for {manifest.arch or 'no arch'}")
        for manifest in subject.manifests
        if manifest.arch != arch.sm
    ]
    wrong = [binary for binary in subject.undeclared if arch.sm not in binary.codes]
    problems += [Problem(file=binary.path, expected=expected, found=described(binary)) for binary in wrong]
    if not problems and not any(arch.sm in binary.codes for binary in subject.scan.binaries):
        held = any(binary.codes for binary in subject.scan.binaries)
        found = f"no {arch.sm} in any file" if held else "no GPU code"
        problems.append(Problem(file=subject.scan.root, expected=expected, found=found))
    return problems


CHECK = Check(
    name="claim",
    reads="every binary with GPU code, when --claim or a marker file (.vllm-arch) names an arch",
    fails="a binary holds no SASS of that arch, and no manifest of its wheel declares so",
    hint="verify without --claim lists what each file holds; build for the arch, or correct the claim",
    judge=judge,
)
