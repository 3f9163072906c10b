"""Other machines by OpenSSH, with the user's own configuration and keys; it never prompts."""

import re
from dataclasses import dataclass
from typing import Final

HERE: Final = "localhost"
"""The machine that runs the tool: it needs no ssh."""
PATTERN: Final = re.compile(
    r"(?:ssh://)?(?P<name>(?:[^@/\s:-][^@/\s:]*@)?[^@/\s:-][^@/\s:]*)(?::(?P<port>\d+))?(?P<socket>/\S+)?"
)
OPTIONS: Final = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15")
KEYS: Final = "ssh must get in without a question: ssh-copy-id {name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SshHost:
    """``[ssh://][user@]name[:port][/socket]`` in parts."""

    name: str
    port: str | None
    socket: str | None

    @property
    def words(self) -> str:
        """The host as ssh-copy-id takes it."""
        return f"-p {self.port} {self.name}" if self.port else self.name

    def argv(self, *options: str, command: str | None = None) -> list[str]:
        """The call of ssh."""
        fixed = [word for option in OPTIONS for word in ("-o", option)]
        port = ["-p", self.port] if self.port else []
        return ["ssh", "-T", *fixed, *port, *options, self.name, *([command] if command else [])]


def ssh_host(text: str) -> SshHost | None:
    """The parts of a host; None when it is none: ssh would take a plain number for an address."""
    found = PATTERN.fullmatch(text)
    if found and found["name"].rpartition("@")[2].isdecimal():
        return None
    return SshHost(name=found["name"], port=found["port"], socket=found["socket"]) if found else None
