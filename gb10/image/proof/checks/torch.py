"""Torch: it is built with CUDA, with that of the recipe, or with one that knows the GPU."""

import re
from typing import Final

from packaging.utils import canonicalize_name

from gb10.image.proof.check import Check, Problem, Subject
from gb10.inside.scan.installed import NO_CUDA, Distribution

CPU: Final = re.compile(r"cpu(?:[.\d]\w*)*")
"""The local version of a torch for CPUs."""


def judge(subject: Subject) -> list[Problem]:
    """Every torch that is built otherwise; one that does not say its CUDA is left alone."""
    recipe = subject.image.cuda if subject.image else ""
    least = subject.arch.minimum_cuda if subject.arch else "0"
    wanted = f"CUDA {recipe}" if recipe else f"CUDA {least} or newer"
    return [
        Problem(file=one.path, expected=f"torch for {wanted}", found=f"torch {one.version} {built(cuda)}")
        for one, cuda in ((one, cuda_of(one)) for one in subject.scan.distributions)
        if cuda and (cuda == NO_CUDA or (cuda != recipe if recipe else older(cuda, least)))
    ]


def cuda_of(one: Distribution) -> str:
    """The CUDA of a torch, by its version.py, else by its local version (``2.13.0+cpu``); empty where none says it."""
    local = one.version.partition("+")[2]
    return one.cuda or (NO_CUDA if canonicalize_name(one.name) == "torch" and CPU.fullmatch(local) else "")


def built(cuda: str) -> str:
    """How torch is built, in words."""
    return "without CUDA" if cuda == NO_CUDA else f"for CUDA {cuda}"


def older(cuda: str, least: str) -> bool:
    """Whether a CUDA is older than the least one that knows the GPU."""
    return tuple(map(int, cuda.split("."))) < tuple(map(int, least.split(".")))


CHECK = Check(
    name="torch",
    reads="torch/version.py, which names the CUDA that torch is built with, and its local version (+cpu)",
    fails="torch is built without CUDA, with another CUDA than the image's recipe, or with one that is too old",
    hint="install torch from an index that has it for this CUDA: …/whl/cu130",
    judge=judge,
)
