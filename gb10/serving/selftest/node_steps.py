"""Steps over several nodes: NCCL's way, its bandwidth, and a rank that dies."""

import time
from typing import Final

from gb10.containers.docker_containers import end_container
from gb10.core.proc import CommandFailedError, capture
from gb10.serving.run.existing import of_service, services_on
from gb10.serving.run.fleet import open_fleet
from gb10.serving.selftest.outcome import Figure, NotCheckedError, Outcome, broken, holds, outcome_from
from gb10.serving.selftest.scene import Scene
from gb10.serving.selftest.server_logs import transport
from gb10.serving.selftest.server_steps import log_of

DETECTED: Final = 15.0
"""Seconds in which a dead rank must be seen."""
LOOK: Final = 0.2


def nodes(scene: Scene) -> Outcome:
    """How the ranks talk, by NCCL's own log."""
    log = log_of(scene)
    scene.keep("nccl.log", "\n".join(line for line in log.splitlines() if "NCCL" in line))
    return nodes_outcome(transport(log))


def nodes_outcome(way: str | None) -> Outcome:
    """What the way says. Pure."""
    if way is None:
        raise NotCheckedError("NCCL's log says nothing of its way: the service needs NCCL_DEBUG=INFO")
    claims = {"nodes.transport": Figure(way)}
    wrong = (
        [f"the nodes talk by {way}, not by RoCE: ./build.py cluster check names the reason"] if way != "RoCE" else []
    )
    return outcome_from(wrong, "NCCL goes by RoCE", claims)


def rank_death(scene: Scene) -> Outcome:
    """A rank is ended: the service must be seen as dead, and leave nothing behind."""
    if scene.service is None or len(scene.service.hosts) < 2:
        raise NotCheckedError("a rank can be ended only of a service on several nodes: --nodes A,B")
    server = scene.running
    with open_fleet(scene.ctx, scene.service.hosts) as fleet:
        last = of_service(services_on(fleet), scene.service.name)[-1]
        began = time.monotonic()
        end_container(fleet[last.host], last.state.id, patience=0, keep=True)
        while not (how := server.ended()) and time.monotonic() - began < 2 * DETECTED:
            time.sleep(LOOK)
    took = time.monotonic() - began
    scene.why_no_server = "a rank of it was ended"
    scene.keep("rank-death.txt", how or "not seen")
    claims = {"nodes.rank-death": Figure(round(took, 1), "s")}
    if not how:
        return broken(f"{took:.0f} s after a rank was ended, nobody has seen it", claims)
    if took > DETECTED:
        return broken(f"the dead rank was seen after {took:.0f} s, we say {DETECTED:.0f}", claims)
    return holds(f"the dead rank was seen after {took:.1f} s", claims)


def bandwidth(scene: Scene) -> Outcome:
    """A sum over the GPUs of this machine by NCCL: right, and how fast."""
    try:
        rows = capture(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], env=scene.ctx.env).split()
    except CommandFailedError as error:
        raise NotCheckedError("no GPU: nvidia-smi is missing or lists none") from error
    if len(rows) < 2:
        raise NotCheckedError("this machine has one GPU; a sum over nodes is not measured by this release")
    ran = scene.program("bandwidth", ["ranks.py", str(len(rows))], {"NCCL_DEBUG": "INFO"})
    found = ran.one("allreduce")
    way = transport(ran.text)
    claims = {"bandwidth.of-gpus": Figure(round(float(found["bus_gb_s"]), 1), "GB/s")}
    wrong = [] if found["right"] else ["NCCL's sum is wrong"]
    return outcome_from(wrong, f"{found['world']} GPUs by {way or 'an unknown way'}", claims)
