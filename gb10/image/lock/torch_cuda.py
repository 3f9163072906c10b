"""The CUDA version of a torch wheel: from its version label, else from the CUDA runtime that it requires."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from packaging.version import Version

from gb10.image.lock.resolver import Resolved

TORCH: Final = "torch"
NONE: Final = "none"
LABEL: Final = re.compile(r"cu(\d+)(\d)(?!\d)")
OTHERS: Final = ("cpu", "rocm", "xpu")
RUN_TIME: Final = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")


def built_with(torch: Resolved, closure: Callable[[str], Iterable[Resolved]]) -> str | None:
    """``13.0``, ``none`` for a build without CUDA, None if unknown. ``closure``: the dependencies of torch alone."""
    label = Version(torch.version).local or ""
    labelled = LABEL.match(label)
    if labelled:
        return f"{labelled[1]}.{labelled[2]}"
    if label.startswith(OTHERS):
        return NONE
    for entry in closure(f"{TORCH}=={torch.version}"):
        if RUN_TIME.fullmatch(entry.name):
            return ".".join(entry.version.split(".")[:2])
    return None if label else NONE
