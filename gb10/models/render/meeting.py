"""The ports by which the ranks of a service meet. Pure.

Each is derived from the port of the service's API, so services that share a machine have different ones.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PORT: Final = re.compile(r"--port[=\s]+[\"']?(\d{1,5})\b")
FIRST: Final = 8000
"""The port of an API for which a launcher's own meeting port is kept."""
API_PORTS: Final = {"sglang": 30000, "llama-cpp": 8080}
"""Where an engine listens that is not told; vLLM and the others take 8000."""
BLOCKS: Final = ((1, 1023), (1024, 32767), (32768, 65535))
"""Ports that only root may open, those of servers, and those that Linux hands out to connections by itself."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where ranks meet. ``api`` is None for a peer's form, which has the peer's own port for every service.

    ``step`` is how far the ports of this service are moved on because others were taken.
    """

    api: int | None = None
    step: int = 0

    def port(self, first: int) -> int:
        """The port of a service whose API is at ``api``; ``first`` is that of one at 8000.

        The ports of a block are rotated: each API's port of 1 to 65535 gives another one, never itself, and one of
        its own block. So a server without root gets a port that it may open. Every port is given once, so one
        service's meeting port can be another service's API: `run` looks on the nodes.
        """
        if self.api is None:
            return first
        low, high = next(block for block in BLOCKS if block[0] <= self.api <= block[1])
        size = high - low + 1
        moved = (first - FIRST) % size or 1
        return low + (self.api - low + moved + self.step) % size


def api_port(command: str, runtime: str) -> int:
    """The port that a serve command names, the last one as its engine reads it, else the engine's own."""
    return named_port(command) or API_PORTS.get(runtime, FIRST)


def named_port(command: str) -> int | None:
    """The last port that a command names, if it can be one."""
    found = [int(text) for text in PORT.findall(command)]
    return found[-1] if found and 0 < found[-1] <= BLOCKS[-1][1] else None


def port_in(arguments: Sequence[str]) -> int | None:
    """The port that arguments of the engine name."""
    return named_port(shlex.join(arguments))
