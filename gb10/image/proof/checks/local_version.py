"""Local versions: a package that names its torch, its CUDA or CPUs behind a + fits the torch beside it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from packaging.utils import canonicalize_name

from gb10.image.proof.check import Check, Problem, Subject
from gb10.image.proof.checks.torch import CPU
from gb10.inside.scan.installed import NO_CUDA, Distribution

FOR_GPUS: Final = frozenset(("vllm", "sglang-kernel", "sgl-kernel", "torchvision", "torchaudio"))
"""Packages whose build for CPUs has no kernels for a GPU; of torch the check `torch` says it."""
LABEL: Final = re.compile(
    r"(?:.*[^a-z])?(?:pt\d+)?cu(?P<cuda>\d{2,3})(?!\d)(?:torch(?P<torch>\d+\.\d+))?", re.IGNORECASE
)
"""``cu130``, ``cu12torch2.11cxx11abiTRUE``, ``pt28cu128``: CUDA, and the torch where it has points."""


def judge(subject: Subject) -> list[Problem]:
    """Every package built for other things than those beside it. Wheels that lie side by side are not compared."""
    if subject.image is None and subject.target is None:
        return []
    sites: dict[str, list[Distribution]] = defaultdict(list)
    for one in subject.scan.distributions:
        sites[one.site].append(one)
    return [problem for same in sites.values() for problem in _of_site(same)]


def _of_site(same: Sequence[Distribution]) -> Iterator[Problem]:
    torch = next((one for one in same if canonicalize_name(one.name) == "torch"), None)
    for one in same:
        local = one.version.partition("+")[2]
        if canonicalize_name(one.name) in FOR_GPUS and CPU.fullmatch(local):
            yield Problem(file=one.path, expected=f"{one.name} for CUDA", found=f"{one.name} {one.version}, for CPUs")
        label = LABEL.match(local)
        if torch is None or one is torch or not label:
            continue
        cuda = (torch.cuda or "").partition(".")[0]
        if label["torch"] and label["torch"] != ".".join(torch.version.split(".")[:2]):
            wanted = f"{one.name} for torch {torch.version}, which is beside it"
            yield Problem(file=one.path, expected=wanted, found=f"{one.name} {one.version}: for torch {label['torch']}")
        elif cuda and torch.cuda != NO_CUDA and label["cuda"][:2] != cuda:
            wanted = f"{one.name} for CUDA {torch.cuda}, that of torch {torch.version}"
            yield Problem(
                file=one.path, expected=wanted, found=f"{one.name} {one.version}: for CUDA {label['cuda'][:2]}"
            )


CHECK = Check(
    name="local_version",
    reads="the label behind + in the version of each package: +cpu, +cu130, +cu12torch2.11cxx11abiTRUE",
    fails="a package is built for another torch or another CUDA than the torch beside it, or an engine for CPUs",
    hint="install its build for this torch and this CUDA, or build it here",
    judge=judge,
)
