"""Reading a machine: the script goes there by ssh, and what comes back is bounded in size and time."""

import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from gb10.core.proc import CommandFailedError, answer
from gb10.core.ssh import HERE, KEYS, ssh_host
from gb10.errors import EngineError, Gb10Error, UsageError
from gb10.serving.cluster.fact_reading import read_facts
from gb10.serving.cluster.node_facts import Reading

T = TypeVar("T")
SCRIPT: Final = Path(__file__).with_name("probe.sh")
SHARED: Final = Path(__file__).with_name("facts.sh")
SECONDS: Final = 30.0
MOST: Final = 1 << 20
"""Bytes of an answer; one with eight adapters has 20 KB."""
FOLDERS: Final = ("/", "/var/lib/docker")


def read_node(host: str) -> Reading:
    """What a machine says of itself; this one for ``localhost``. Raises EngineError that names it, UsageError."""
    sent = time.time()
    text = script_output(host, SCRIPT, *FOLDERS)
    received = time.time()
    facts = read_facts(text)
    if facts is None:
        raise not_whole(host, text)
    middle = (sent + received) / 2
    ahead = facts.clock - middle if facts.clock is not None else None
    return Reading(facts=facts, ahead=ahead, within=(received - sent) / 2)


def not_whole(host: str, text: str) -> EngineError:
    """The error of a machine that ran a script, and did not say all of it."""
    hint = "does its login shell print something, or end early? ssh HOST sh -c true must print nothing"
    return EngineError(f"{host} gave no whole answer", where=f"{len(text)} characters", hint=hint)


def script_text(path: Path) -> str:
    """A script that reads a machine, behind what all of them share."""
    return "".join(one.read_text(encoding="utf-8") for one in (SHARED, path))


def script_output(host: str, path: Path, *arguments: str) -> str:
    """What a script says on a machine, by ssh; on this one for ``localhost``. Raises EngineError, UsageError."""
    script, words = script_text(path), shlex.join(["sh", "-s", "--", *arguments])
    found = ssh_host(host)
    if found is None:
        raise UsageError(f"{host!r} is no node", hint="write user@name, or ssh://user@name:PORT")
    argv = shlex.split(words) if host == HERE else found.argv(command=words)
    try:
        return answer(argv, script, seconds=SECONDS, most=MOST)
    except CommandFailedError as error:
        hint = None if host == HERE else KEYS.format(name=found.words)
        raise EngineError(f"{host} cannot be read", where=error.tail.strip() or str(error), hint=hint) from error


def read_nodes(hosts: Sequence[str]) -> dict[str, Reading | Gb10Error]:
    """Each machine's facts, or why they cannot be read."""
    return each_machine(hosts, read_node)


def each_machine(hosts: Sequence[str], read: Callable[[str], T]) -> dict[str, T | Gb10Error]:
    """What is read of each machine, all at the same time, or why it cannot be."""

    def one(host: str) -> T | Gb10Error:
        try:
            return read(host)
        except Gb10Error as error:
            return error

    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(one, hosts), strict=True))
