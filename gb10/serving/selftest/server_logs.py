"""What a server's own log says: its memory, its kernels, its tuned files, NCCL's way. Pure."""

import re
from collections.abc import Iterable
from typing import Final

GIB: Final = r"(\d{1,5}(?:\.\d+)?) ?GiB"
WEIGHTS: Final = (
    re.compile(rf"Model loading took {GIB}"),
    re.compile(r"Load weight end\..{0,200}mem usage=(\d{1,5}(?:\.\d+)?) GB"),
)
CACHE: Final = (
    re.compile(rf"Available KV cache memory: {GIB}"),
    re.compile(r"KV Cache is allocated\..{0,200}?K size: (\d{1,5}(?:\.\d+)?) GB, V size: (\d{1,5}(?:\.\d+)?) GB"),
    re.compile(r"Explicitly set \((\d{1,5}(?:\.\d+)?)/[\d.]+\) GiB for KV cache"),
)
"""Of SGLang: keys and values apart."""


def figure(log: str, patterns: Iterable[re.Pattern[str]]) -> float | None:
    """The largest figure that a log has for one thing: ranks print their own."""
    found = [sum(map(float, match.groups())) for pattern in patterns for match in pattern.finditer(log)]
    return max(found, default=None)


BACKENDS: Final = (
    re.compile(r"Using (?P<name>[\w.+-]{2,60}) (?:attention )?backend"),
    re.compile(r"Using '(?P<name>[\w.+-]{2,60})' \w{0,20} ?(?:MoE|Moe|linear)? ?backend"),
    re.compile(r"[Uu]sing (?P<name>[\w.+-]{2,60}) for (?:NVFP4|NvFp4|FP8|Mxfp4|MoE|attention|linear)"),
    re.compile(r"[Uu]sing (?P<name>\w{2,60}Kernel) for \w"),
    re.compile(r"Selected (?P<name>[\w.+-]{2,60}) for"),
    re.compile(r"(?:attention|moe_runner|fp4_gemm)_backend='(?P<name>[\w.+-]{2,60})'"),
)


def backends(log: str) -> list[str]:
    """The kernels that a server names, in the order of its log."""
    found = (match["name"] for line in log.splitlines() for one in BACKENDS if (match := one.search(line)))
    return list(dict.fromkeys(found))


def folded(name: str) -> str:
    """A kernel's name without what engines spell in several ways."""
    return re.sub(r"(?:backend|experts|linearkernel|kernel|impl)$", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def disagreements(chosen: Iterable[tuple[str, str]], named: Iterable[str]) -> tuple[list[str], int]:
    """Layers (kind, kernel) whose kernel the log does not name though it names another of that kind; and the agreeing.

    A kind that the log is silent about says nothing.
    """
    spoken = {folded(one): one for one in named}
    wrong, agree = [], 0
    for kind, kernel in chosen:
        own = folded(kernel)
        if any(own and (own in one or one in own) for one in spoken if one):
            agree += 1
        elif kind == "attention" and spoken:
            wrong.append(f"{kind}: explain says {kernel}, the log names {', '.join(spoken.values())}")
    return wrong, agree


TUNED: Final = re.compile(r"Using (?:configuration|MoE kernel config|config) from (?P<path>\S{1,400}\.json)")
DEFAULT: Final = re.compile(r"Using default (?:W8A8 Block FP8 kernel |MoE kernel |MoE )?config")


def tuned_files(log: str) -> tuple[list[str], int]:
    """The tuned files that were loaded, by name, and how often a default was taken instead."""
    loaded = [match["path"].rpartition("/")[2].rstrip(".") for match in TUNED.finditer(log)]
    return list(dict.fromkeys(loaded)), len(DEFAULT.findall(log))


NET: Final = re.compile(r"NCCL INFO.{0,200}?NET/(?P<net>IB|Socket)")
USING: Final = re.compile(r"NCCL INFO.{0,80}?Using network (?P<net>IB|Socket)")
ROCE: Final = re.compile(r"NCCL INFO NET/IB.{0,2000}?/RoCE")
VIA: Final = re.compile(r"NCCL INFO Channel.{0,200}? via (?P<way>NET/IB|NET/Socket|P2P|SHM)[\w/]*")


def transport(log: str) -> str | None:
    """RoCE, InfiniBand, sockets, P2P or SHM, by NCCL's own log; None when it says nothing of it.

    What channels really go by counts; then the network that NCCL chose.
    """
    ways = {match["way"] for match in VIA.finditer(log)}
    chosen = {match["net"] for match in USING.finditer(log)} or {match["net"] for match in NET.finditer(log)}
    if "NET/Socket" in ways or (not ways and "Socket" in chosen):
        return "sockets"
    if "NET/IB" in ways or (not ways and "IB" in chosen):
        return "RoCE" if ROCE.search(log) else "InfiniBand"
    return next((one for one in ("P2P", "SHM") if one in ways), None)
