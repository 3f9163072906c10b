"""Torch: it is built with CUDA, with that of the recipe, or with one that knows the GPU."""

from gb10.image.proof.check import Check, Problem, Subject
from gb10.inside.scan.installed import NO_CUDA


def judge(subject: Subject) -> list[Problem]:
    """Every torch that is built otherwise; one that does not say its CUDA is left alone."""
    recipe = subject.image.cuda if subject.image else ""
    least = subject.arch.minimum_cuda if subject.arch else "0"
    wanted = f"CUDA {recipe}" if recipe else f"CUDA {least} or newer"
    return [
        Problem(file=one.path, expected=f"torch for {wanted}", found=f"torch {one.version} {built(one.cuda)}")
        for one in subject.scan.distributions
        if one.cuda and (one.cuda == NO_CUDA or (one.cuda != recipe if recipe else older(one.cuda, least)))
    ]


def built(cuda: str) -> str:
    """How torch is built, in words."""
    return "without CUDA" if cuda == NO_CUDA else f"for CUDA {cuda}"


def older(cuda: str, least: str) -> bool:
    """Whether a CUDA is older than the least one that knows the GPU."""
    return tuple(map(int, cuda.split("."))) < tuple(map(int, least.split(".")))


CHECK = Check(
    name="torch",
    reads="torch/version.py, which names the CUDA that torch is built with",
    fails="torch is built without CUDA, with another CUDA than the image's recipe, or with one that is too old",
    hint="install torch from an index that has it for this CUDA: …/whl/cu130",
    judge=judge,
)
