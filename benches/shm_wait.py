"""What a waiting reader of vLLM's message queue costs: CPU seconds, and how late it reads. No torch, no GPU.

    python3 -m bootstrap benches/shm_wait.py [--release 0.33.0] [--gap MS ...] [--count N]

It runs the release's own shm_broadcast.py, as it is and with the series of patches/vllm: a writer and a reader in two
processes, over real shared memory and the real libzmq. Only what the module imports of torch and of vLLM is a stand-in.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.core.proc import capture

MODULE: Final = "vllm/distributed/device_communicators/shm_broadcast.py"
WINDOW: Final = "GB10_SHM_BUSY_LOOP_S"
STAND_INS: Final = {
    "torch/__init__.py": """
class Tensor: pass
uint8 = "uint8"
class frombuffer:
    def __init__(self, buffer, dtype): self.buffer = buffer
    def fill_(self, value): self.buffer[:] = bytes([value]) * len(self.buffer)
""",
    "torch/distributed.py": "class ProcessGroup: pass\n",
    "vllm/__init__.py": "",
    "vllm/envs.py": "VLLM_USE_SPINLOOP_EXT, VLLM_RINGBUFFER_WARNING_INTERVAL = False, 60\n",
    "vllm/distributed/__init__.py": "",
    "vllm/distributed/device_communicators/__init__.py": "",
    "vllm/distributed/utils.py": "from os import sched_yield\nclass StatelessProcessGroup: pass\n",
    "vllm/logger.py": "from logging import getLogger as init_logger\n",
    "vllm/platforms.py": "current_platform = None\n",
    "vllm/utils/__init__.py": "",
    "vllm/utils/cpu_resource_utils.py": "def check_cgroup_memory_available(*_): pass\n",
    "vllm/utils/network_utils.py": """
import os, uuid
def get_ip(): return "127.0.0.1"
def get_open_zmq_inproc_path(): return f"inproc://{uuid.uuid4()}"
def get_open_zmq_ipc_path(): return f"ipc://{os.environ['SOCKETS']}/{uuid.uuid4().hex[:12]}"
def is_valid_ipv6_address(_): return False
""",
}
WHO: Final = (resource.RUSAGE_SELF, resource.RUSAGE_THREAD)
"""libzmq has a thread of its own, whose CPU time counts, and whose waits do not."""
STRAY: Final = 1.0
"""Seconds above which a message counts as one whose notification was lost: the reader's own look comes every 5 s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """What the reader did. ``late`` are seconds from before a message was written until it was read, in order."""

    cpu: float
    """CPU seconds of the reader, a second that it ran."""
    parked: float
    """How often it gave up its core of its own accord, a message. A reader that loops does so never."""
    late: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of ``late``."""
        return statistics.median(self.late)

    @property
    def tail(self) -> float:
        """99 of 100 messages are not later."""
        return sorted(self.late)[len(self.late) * 99 // 100]

    @property
    def lost(self) -> int:
        """Messages that were read because the reader looked by itself, long after they were written."""
        return sum(one > STRAY for one in self.late)


def measured(text: str, *, gap: float, count: int, env: Mapping[str, str] | None = None) -> Waiting:
    """A reader of this shm_broadcast.py, which gets ``count`` messages, each ``gap`` seconds after it read the last."""
    with tempfile.TemporaryDirectory(prefix="gb10-") as place:
        folder = Path(place)
        for name, content in {**STAND_INS, MODULE: text}.items():
            path = folder / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        search = os.pathsep.join([str(folder / "site"), *filter(None, sys.path)])
        own = {**os.environ, **(env or {}), "PYTHONPATH": search, "SOCKETS": place}
        printed = capture([sys.executable, __file__, "--queue", str(gap), str(count)], env=own)
    found = json.loads(printed)
    cpu, parked = found["cpu"] / found["seconds"], found["parked"] / count
    return Waiting(cpu=cpu, parked=parked, late=tuple(found["late"]))


def write(gap: float, count: int) -> None:
    """The writer: messages that are the time, each answered, as an engine does; prints what the reader found."""
    own, theirs = multiprocessing.Pipe()
    reader = multiprocessing.get_context("fork").Process(target=read, args=(count, theirs))
    reader.start()  # before this process has threads
    from vllm.distributed.device_communicators.shm_broadcast import (  # type: ignore[import-not-found] # noqa: PLC0415
        MessageQueue,
    )

    queue = MessageQueue(1, 1, max_chunk_bytes=1 << 16)
    own.send(queue.export_handle())
    queue.wait_until_ready()
    for _ in range(count):
        time.sleep(gap)
        queue.enqueue(time.monotonic())
        own.recv()
    print(json.dumps(own.recv()))
    reader.join()


def read(count: int, told: Connection) -> None:
    """The reader."""
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue  # noqa: PLC0415

    queue = MessageQueue.create_from_handle(told.recv(), 0)
    queue.wait_until_ready()
    late, began, before, own = [], time.monotonic(), *map(resource.getrusage, WHO)
    for _ in range(count):
        sent = queue.dequeue(indefinite=True)
        late.append(time.monotonic() - sent)
        told.send(None)
    used, ours = map(resource.getrusage, WHO)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    parked = ours.ru_nvcsw - own.ru_nvcsw
    told.send({"cpu": cpu, "parked": parked, "seconds": time.monotonic() - began, "late": late})


def main() -> None:
    """Print both sides for each gap."""
    from tests.integration.patches.releases import after_series, original  # noqa: PLC0415 - not in the queue's processes

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--release", default="0.33.0")
    asked.add_argument("--gap", type=float, nargs="*", default=[1, 2.5, 10, 30, 100], metavar="MS")
    asked.add_argument("--count", type=int, default=300)
    given = asked.parse_args()
    sides = {"upstream": original, "patched": after_series}
    for gap in given.gap:
        for side, text in sides.items():
            found = measured(text("vllm", given.release, MODULE), gap=gap / 1000, count=given.count)
            print(
                f"{gap:6.1f} ms  {side:8}  {found.cpu:5.1%} of a core  "
                f"late: {found.median * 1e6:6.0f} us, 99 of 100 below {found.tail * 1e6:6.0f} us, {found.lost} lost",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--queue"]:
        write(float(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
