"""The driver's own answer for one library of each kind: each fatbin is loaded, and the result held against our table.

The table is that of ``verify``: which SASS a GPU of a capability takes. PTX is not compiled here: what the driver says
without its compiler is what it says of the SASS.
"""

import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gb10.inside.scan.code_fit import Fit, code_fit
from gb10.inside.scan.elf import DamagedError
from gb10.inside.scan.fatbin import FATBIN_HEADER, FATBIN_MAGIC, fatbin_codes, fatbin_size
from gb10.inside.selftest.common import checked, first_device, library, say

MOST = 40
"""Fatbins of a file that are loaded, spread over it."""
KINDS = 3
"""Libraries of one kind that are tried."""
LARGEST = 64 << 20
GOOD = frozenset({Fit.NATIVE, Fit.FAMILY, Fit.COMPATIBLE})


def libraries(roots: list[str]) -> Iterator[Path]:
    """Shared libraries and cubins below some folders."""
    for root in map(Path, roots):
        if root.is_file():
            yield root
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in sorted(names) if ".so" in name or name.endswith(".cubin"))


def fatbins(content: mmap.mmap) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where each fatbin of a file lies, and for which GPUs it has code."""
    at, end = content.find(FATBIN_MAGIC), len(content)
    while at >= 0:
        size = fatbin_size(content, at, end)
        if size:
            yield at, size, tuple(sorted(fatbin_codes(content, at + FATBIN_HEADER, at + size)))
        at = content.find(FATBIN_MAGIC, at + (size or len(FATBIN_MAGIC)))


def best(codes: tuple[str, ...], capability: str) -> Fit:
    """What our table says of a fatbin."""
    order = list(Fit)
    return min((code_fit(code, capability) for code in codes), key=order.index, default=Fit.NONE)


def main() -> None:
    """A line for each library that was tried, then one for all."""
    os.environ["CUDA_DISABLE_PTX_JIT"] = "1"
    driver = library("cuda.bindings.driver")
    device = first_device(driver)
    names = driver.CUdevice_attribute
    numbers = [
        int(
            checked(
                driver.cuDeviceGetAttribute(getattr(names, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), device)
            )
        )
        for part in ("MAJOR", "MINOR")
    ]
    capability = f"{numbers[0]}.{numbers[1]}"
    tried: dict[tuple[tuple[str, ...], ...], int] = {}
    damaged = 0
    for path in libraries(sys.argv[1:]):
        try:
            with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                found = [one for one in fatbins(content) if one[1] <= LARGEST and one[2]]
                kind = tuple(sorted({codes for _, _, codes in found}))
                if not found or tried.get(kind, 0) >= KINDS:
                    continue
                tried[kind] = tried.get(kind, 0) + 1
                try_library(driver, path, found, content, capability)
        except (OSError, ValueError, DamagedError):
            damaged += 1
    say("modules", capability=capability, kinds=len(tried), libraries=sum(tried.values()), unreadable=damaged)


def try_library(
    driver: object, path: Path, found: list[tuple[int, int, tuple[str, ...]]], content: mmap.mmap, capability: str
) -> None:
    """Load some fatbins of each set of GPUs that the library has, and print where the driver disagrees."""
    counts: dict[str, int] = {}
    wrong = []
    of_kind: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for at, size, codes in found:
        of_kind.setdefault(codes, []).append((at, size))
    for codes, places in of_kind.items():
        fit = best(codes, capability)
        for at, size in places[:: max(1, len(places) // max(1, MOST // len(of_kind)))]:
            answer = load(driver, content[at : at + size])
            counts[f"{fit} {answer}"] = counts.get(f"{fit} {answer}", 0) + 1
            if (answer == "loads") != (fit in GOOD):
                wrong.append({"codes": list(codes), "fit": str(fit), "driver": answer})
    say("library", name=path.name, counts=counts, wrong=wrong[:4], wrong_count=len(wrong))


def load(driver: object, fatbin: bytes) -> str:
    """``loads``, or the driver's own word for why it does not."""
    error, module = driver.cuModuleLoadFatBinary(fatbin)  # type: ignore[attr-defined]
    if int(error) == 0:
        checked(driver.cuModuleUnload(module))  # type: ignore[attr-defined]
        return "loads"
    return str(getattr(error, "name", error))


if __name__ == "__main__":
    main()
