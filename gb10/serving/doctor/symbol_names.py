"""Names of C++ symbols for people: the part of the Itanium ABI that names of libraries need. Pure."""

import re
from typing import Final

NESTED: Final = re.compile(r"_ZN?(?:[rVK]*)")
DEEPEST: Final = 12
LIBRARIES: Final = {
    **dict.fromkeys(("c10", "at", "torch", "caffe2", "aoti_torch"), "torch"),
    **dict.fromkeys(("tvm", "TVMFFI"), "apache-tvm-ffi"),
    **dict.fromkeys(("nccl", "pnccl"), "nccl"),
    **dict.fromkeys(("cublas", "cudnn", "cuda", "nvrtc", "nvJitLink", "__nvJitLink", "cusparse", "cusolver"), "cuda"),
    **dict.fromkeys(("Py", "_Py"), "python"),
    **dict.fromkeys(("GLIBC", "GLIBCXX", "CXXABI"), "glibc"),
}
"""Who brings a name that begins so."""


def readable_symbol(symbol: str) -> str:
    """``c10::MessageLogger::stream`` of a mangled name; a name of C as it is."""
    begin = NESTED.match(symbol)
    if begin is None or not symbol.startswith("_Z"):
        return symbol
    names: list[str] = []
    at = begin.end()
    for _ in range(DEEPEST):
        found = re.compile(r"\d{1,3}").match(symbol, at)
        if found is None:
            break
        size = int(found[0])
        name = symbol[found.end() : found.end() + size]
        if len(name) < size or not name.isidentifier():
            break
        names.append(name)
        at = found.end() + size
        if symbol.startswith("B5cxx11", at):
            at += 7
        if not symbol.startswith("_ZN"):
            break
    if names and re.match(r"[CD][123]", symbol[at : at + 2]):
        names.append(names[-1])
    return "::".join(names) or symbol


def owner_of(symbol: str) -> str | None:
    """Which package brings a symbol; None where that is not known."""
    name = readable_symbol(symbol)
    return next((owner for prefix, owner in LIBRARIES.items() if name.split("::")[0].startswith(prefix)), None)
