"""Starts that stopped before the server was ready: in which stage, since when, what the other ranks say. Pure."""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Final

from gb10.serving.doctor.diagnosis import Finding, Verdict
from gb10.serving.doctor.log_scan import Scan
from gb10.serving.doctor.log_time import Moment
from gb10.serving.doctor.stages import STAGES, Reached, StageFile

CODE: Final = "start-stopped"
FIRST: Final = STAGES.index("connect")
"""A log that ends in an earlier stage may be one of a command that is no server."""
POOL: Final = 32
"""GiB of addresses that llama.cpp keeps for its pool of CUDA memory."""


def stopped_starts(
    scans: Mapping[str, Scan], stages: StageFile, failed: Set[str], live: Set[str] = frozenset()
) -> list[Finding]:
    """A finding for the starts that ended before they were ready and without an error; logs of one start are one.

    ``failed`` are the logs with an error: that is why they ended. ``live`` are those of processes that run: such a
    start may still go on, so it is a warning.
    """
    begun = {log: scan for log, scan in scans.items() if scan.start.ranks and (_serves(scan) or _waits(scan))}
    waiting = {log: scan for log, scan in begun.items() if not scan.start.is_ready and not _is_done(scan, begun)}
    if not waiting or not failed.isdisjoint(begun):
        return []
    log, rank, reached = min(
        (
            (log, rank, one)
            for log, scan in waiting.items()
            for rank, one in scan.start.ranks.items()
            # The API server, which waits for the other processes, says nothing for minutes.
            if one.index >= FIRST or all(other.index < FIRST for other in scan.start.ranks.values())
        ),
        key=lambda one: one[2].index,
    )
    scan = waiting[log]
    if reached.index < FIRST:
        return []
    verdict = _verdict(scan, reached, stages, waiting, (log, rank))
    return [
        Finding(
            rule=replace(verdict, level="warning") if live >= waiting.keys() or not _serves(scan) else verdict,
            place="log",
            where=log,
            value=reached.text,
            line=reached.line,
            moment=reached.moment,
            stage=reached.stage,
        )
    ]


def _serves(scan: Scan) -> bool:
    """Whether a server wrote the log: llama.cpp's other programs print the same lines of a load and are never ready,
    and a download without an engine's line may be all that was asked for."""
    if scan.start.engine is None:
        return any(one.stage != "download" for one in scan.start.ranks.values())
    return scan.start.engine != "llamacpp" or scan.start.begun


def _waits(scan: Scan) -> bool:
    """Whether a load is one that llama.cpp is known not to end on a GB10: of more than POOL, else with the driver's
    word that it has no memory."""
    size, last = scan.facts.model_gib, scan.start.last
    if scan.start.engine != "llamacpp" or not scan.facts.names_gb10 or last is None or last.stage != "load":
        return False
    return size > POOL if size is not None else any(hit.rule.code == "driver-out-of-memory" for hit in scan.hits)


def _is_done(scan: Scan, begun: Mapping[str, Scan]) -> bool:
    """Whether the log is of a node that never says ready, and the head's log says so, or it came as far as it can."""
    rank = scan.start.option("node_rank")
    if rank in (None, "0") and "headless" not in scan.start.arguments:
        return False
    last = scan.start.last
    heads_ready = any(one.start.is_ready for one in begun.values())
    return heads_ready or (last is not None and last.index >= STAGES.index("warm-up"))


def _verdict(
    scan: Scan, reached: Reached, stages: StageFile, waiting: Mapping[str, Scan], here: tuple[str, str]
) -> Verdict:
    text = stages.stage.get(reached.stage)
    since = f" since {reached.moment}" if reached.moment else ""
    end = f", and its last line with a time is of {scan.last}" if scan.last and scan.last != reached.moment else ""
    span = _span(reached.moment, scan.last)
    count = scan.start.progress
    parts = [
        f"The log ends in the stage {reached.stage}{since}{end}{span}; no line says that the server is ready.",
        f"Its progress bar stands at {count[0]} of {count[1]}." if count and count[0] < count[1] else "",
        f"The last sign was: {_ended(reached.text[:160])}",
        _others(waiting, here),
        text.usual if text else "",
    ]
    known = _known(scan, reached)
    action = known or (text.look if text else "Read the logs of all ranks together.")
    return Verdict(
        code=CODE,
        meaning=" ".join(filter(None, parts)),
        action=action,
        evidence="the order of the lines that the engines print at a start; recipes/doctor/stages.toml",
    )


def _ended(text: str) -> str:
    """A text with a full stop, so that the next sentence does not run into it."""
    plain = text.rstrip()
    return plain if plain.endswith((".", "!", "?", "…")) else f"{plain}."


def _known(scan: Scan, reached: Reached) -> str:
    """What is known of starts of this engine that stop here; empty where nothing is."""
    start, facts = scan.start, scan.facts
    if start.engine == "llamacpp" and reached.stage == "load":
        slow = (
            "Does MemAvailable of /proc/meminfo fall, and does `iostat -x 1` show reads? Then it only reads slowly:"
            " keep the file on the NVMe disk."
        )
        if not _waits(scan):
            return slow
        return (
            f"llama.cpp keeps at most {POOL} GiB of addresses for its pool of CUDA memory, and on a GB10 a larger model"
            " is known to wait in a copy for ever, with NV_ERR_NO_MEMORY in `journalctl -k -g NVRM` (llama.cpp#27918):"
            f" build it with -DGGML_CUDA_NO_VMM=ON; no variable does that at run time. {slow}"
        )
    if start.engine != "sglang" or start.nodes < 2:
        return ""
    if reached.stage == "capture":
        return (
            "SGLang on several nodes is known to wait for itself in the capture (sglang#19991): start with"
            " --disable-cuda-graph, or take a release that has the fix. Else: is memory used up, and is the"
            " other node's log at the same place?"
        )
    if reached.stage == "connect" and facts.nccl_is_up:
        fabric = next(iter(facts.fabric.items()), None)
        head = (start.option("dist_init_addr") or "").rpartition(":")[0]
        own = f"{fabric[1]} of {fabric[0]}" if fabric else head or "of the ConnectX network"
        return (
            f"NCCL is up over {own}, so what stops is SGLang's message queue between the nodes: it takes the address of"
            " this node's host name or default route (Wi-Fi, or the 10 GbE port), where the other node does not reach"
            f" it. Set SGLANG_HOST_IP on each node to its address of NCCL's network ({own} here; `hostname -I` and"
            " `ip route get 1.1.1.1` show the one that is taken now). ./build.py run sets it."
        )
    return ""


def _span(first: Moment | None, last: Moment | None) -> str:
    if first is None or last is None or (first.month, first.day) != (last.month, last.day):
        return ""
    seconds = int(last.clock - first.clock)
    return f", {seconds} s later" if seconds >= 1 else ""


def _others(waiting: Mapping[str, Scan], here: tuple[str, str]) -> str:
    """How far the other ranks came."""
    seen = [
        f"{log}{f' {rank}' if rank else ''}: {one.stage}"
        for log, scan in waiting.items()
        for rank, one in scan.start.ranks.items()
        if (log, rank) != here and one.index >= FIRST
    ]
    return f"Other ranks: {', '.join(seen[:8])}." if seen else ""
