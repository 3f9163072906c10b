"""The Hub's cache on another machine, by its shell: what it has, and whether it is right. Nothing is installed."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gb10.core.proc import CommandFailedError, capture
from gb10.core.ssh import KEYS, ssh_host
from gb10.errors import PublishError, UsageError
from gb10.serving.weights.hub_cache import folder_name

PATIENCE: Final = ("-o", "ServerAliveCountMax=4")
"""A machine that says nothing for a minute is gone."""
LOOK: Final = r"""
set -u
cache="${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}"
mkdir -p "$cache" || exit 70
printf 'cache %s\n' "$cache"
for program in rsync sha256sum xargs df stat; do
  command -v "$program" >/dev/null || printf 'lacks %s\n' "$program"
done
printf 'free %s\n' "$(df -P -k "$cache" | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)"
for folder in "$@"; do
  cd "$cache/$folder/blobs" 2>/dev/null || continue
  for name in *; do if [ -f "$name" ]; then stat -L -c "has $folder %s %n" -- "$name"; fi; done
done
"""
SUMS: Final = 'cd "$1" && xargs -r -n 1 -P 4 sha256sum --'
DROP: Final = 'cd "$1" && shift && rm -f -- "$@"'
SUM: Final = re.compile(r"([0-9a-f]{64}) [ *]([0-9a-f]{40}|[0-9a-f]{64})")
PATH: Final = re.compile(r"/[^\0\n]{1,900}")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeCache:
    """What a node has: ``free`` bytes of the disk, and sizes of contents by folder and name."""

    host: str
    cache: str
    free: int
    lacks: tuple[str, ...] = ()
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def has(self, repo: str, etag: str) -> int:
        """Bytes of a content; 0 without it."""
        return self.sizes.get((folder_name(repo), etag), 0)

    def mismatches(self, repo: str, sums: Mapping[str, str]) -> list[str]:
        """The contents whose sha256 on the node is another; ``sums`` has those of this machine. Raises PublishError."""
        printed = on_node(self.host, SUMS, f"{self.cache}/{folder_name(repo)}/blobs", stdin="\n".join(sums))
        found = {match[2]: match[1] for line in printed.splitlines() if (match := SUM.fullmatch(line))}
        return [etag for etag, sha256 in sums.items() if found.get(etag) != sha256]

    def remove(self, repo: str, etags: Sequence[str]) -> None:
        """Remove contents of the node. Raises PublishError."""
        on_node(self.host, DROP, f"{self.cache}/{folder_name(repo)}/blobs", *etags)


def ssh_words(host: str, address: str | None = None) -> tuple[str, ...]:
    """ssh with its options, and the machine. Raises UsageError.

    With another address of the machine, its key is still the one of its own name.
    """
    found = ssh_host(host)
    if found is None or found.socket:
        raise UsageError(f"{host!r} is no node", hint="write user@name, or ssh://user@name:PORT")
    user, at, name = found.name.rpartition("@")
    if address is None:
        return tuple(found.argv(*PATIENCE))
    return tuple(replace(found, name=f"{user}{at}{address}").argv(*PATIENCE, "-o", f"HostKeyAlias={name}"))


def on_node(host: str, script: str, *arguments: str, stdin: str | None = None, address: str | None = None) -> str:
    """What a script for its shell prints. Raises PublishError that names the machine."""
    *ssh, name = ssh_words(host, address)
    words = shlex.join(["sh", "-c", script, "sh", *arguments])
    try:
        return capture([*ssh, name, words], stdin=stdin)
    except CommandFailedError as error:
        raise node_error(host, error) from error


def node_error(host: str, error: CommandFailedError) -> PublishError:
    """The error of a machine that cannot be reached, or on which something failed."""
    if error.returncode == 127:
        hint = "install it: sudo apt-get install openssh-client rsync"
        return PublishError("ssh or rsync is missing on this machine", where=error.tail.strip(), hint=hint)
    found = ssh_host(host)
    unreached = error.returncode == 255
    return PublishError(
        f"{host} cannot be reached" if unreached else f"{host} failed",
        where=error.tail.strip()[-2000:],
        hint=KEYS.format(name=found.words) if unreached and found else "run the command again: it resumes",
    )


def look_at_node(host: str, repos: Sequence[str]) -> NodeCache:
    """What a node has of these models. Raises PublishError, also when a program is missing there."""
    cache, free, lacks, sizes = "", 0, [], {}
    for line in on_node(host, LOOK, *map(folder_name, repos)).splitlines():
        word, _, rest = line.partition(" ")
        if word == "cache" and PATH.fullmatch(rest):
            cache = rest
        elif word == "free" and rest.isdecimal():
            free = int(rest) * 1024
        elif word == "lacks":
            lacks.append(rest)
        elif word == "has" and len(parts := rest.split(" ", 2)) == 3 and parts[1].isdecimal():
            sizes[parts[0], parts[2]] = int(parts[1])
    if lacks or not cache:
        problem = f"lacks {', '.join(lacks)}" if lacks else "does not say where its cache is"
        raise PublishError(f"{host} {problem}", hint=f"install it there: sudo apt-get install {' '.join(lacks)}")
    return NodeCache(host=host, cache=cache, free=free, sizes=sizes)
