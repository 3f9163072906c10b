"""Looking at machines: their facts and what they show now, each by a small script, at the same time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from gb10.errors import Gb10Error
from gb10.serving.cluster.probing import each_machine, not_whole, read_node, said_by
from gb10.serving.doctor.host_state import Look, Machine
from gb10.serving.doctor.host_state_reading import read_look

SCRIPT: Final = Path(__file__).with_name("look.sh")


def look_at(host: str) -> Machine:
    """What a machine shows; this one for ``localhost``. Raises EngineError that names it, UsageError."""
    with ThreadPoolExecutor(2) as pool:
        facts, now = pool.submit(read_node, host), pool.submit(_now, host)
    return Machine(host=host, facts=facts.result().facts, look=now.result())


def _now(host: str) -> Look:
    text = said_by(host, SCRIPT)
    found = read_look(text)
    if found is None:
        raise not_whole(host, text)
    return found


def look_at_all(hosts: Sequence[str]) -> dict[str, Machine | Gb10Error]:
    """Each machine, or why it cannot be read."""
    return each_machine(hosts, look_at)
