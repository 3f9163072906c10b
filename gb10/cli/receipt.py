"""Receipts: the result of an ``image`` run, valid while nothing that it read has changed; a no-op then loads nothing.

A receipt is found by the digest of the command line, of the settings and the client configuration that choose store
and engine, and of every file of the checkout. It is valid only while
the engine, by its socket, still has this image under every tag.
"""

import json
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gb10.core.config import config_file, store_root, with_cache_dir
from gb10.core.store import Store

if TYPE_CHECKING:
    from http.client import HTTPConnection

FLAGS = frozenset({"--json", "-q", "--quiet", "-v", "--verbose"})
VALUED = frozenset({"--engine", "--arch", "--platform", "--kernels", "--targets", "--tag"})
"""The options that only choose an image, or how the answer is printed. Every other option has other work."""
VALUE = re.compile(r"[\w.+,:/@-]+", re.ASCII)
RECIPE_FILE = (".yaml", ".yml")
DEFAULT_SOCKET = Path("/var/run/docker.sock")
TIMEOUT = 5  # seconds
LARGEST = 1 << 20
"""Bytes of a receipt; it holds a summary of some lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """The image that was found, its host, and its summary."""

    host: str
    id: str
    tags: tuple[str, ...]
    proof: str
    digest: str
    summary: tuple[str, ...]
    document: Mapping[str, object]


def receipt_path(store: Path, arguments: Sequence[str], env: Mapping[str, str], config: Sequence[Path]) -> Path | None:
    """Where the receipt of this command line lies; None for a command that has other work than to find the image,
    and where not all files that decide it can be read.

    ``config`` are the files, present or not, that choose store and engine. A recipe file's own is not hashed.
    """
    if not arguments or arguments[0] != "image" or not _only_chooses(arguments[1:]):
        return None
    from gb10.core.inputs_digest import inputs_digest  # noqa: PLC0415 - for `image` alone

    inputs = inputs_digest(arguments, env, config)
    return store / "receipts" / inputs if inputs else None


def _only_chooses(words: Sequence[str]) -> bool:
    """Whether all options are known, and all values words: a recipe file's content is not in the digest."""
    rest = iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if name in VALUED:
            value = value if given else next(rest, "")
            if not VALUE.fullmatch(value) or value.endswith(RECIPE_FILE):
                return False
        elif word not in FLAGS:
            return False
    return True


def read_receipt(path: Path) -> Receipt | None:
    """The receipt if there is one and the engine still has exactly that image under every tag."""
    from gb10.core.files import DoubtedFileError, read_state_file  # noqa: PLC0415 - for `image` alone

    try:
        found = json.loads(read_state_file(path, LARGEST)[0])
        receipt = Receipt(**{**found, "tags": tuple(found["tags"]), "summary": tuple(found["summary"])})
        return receipt if _holds(receipt) else None
    except (OSError, DoubtedFileError, ValueError, TypeError, KeyError):
        return None  # the whole command then runs and reports the error


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Keep an answer, whole or not at all."""
    Store(path.parents[1]).write_text(path, json.dumps(asdict(receipt)))


def _holds(receipt: Receipt) -> bool:
    local = receipt.host.removeprefix("unix://")
    passed_over = Path(local) != DEFAULT_SOCKET and DEFAULT_SOCKET.exists()
    if not receipt.host.startswith("unix://") or passed_over or not Path(receipt.proof).exists():
        return False

    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - for a receipt; no other verb needs them here

    connection = HTTPConnection("docker", timeout=TIMEOUT)
    connection.sock = socket.socket(socket.AF_UNIX)
    with connection.sock:
        connection.sock.settimeout(TIMEOUT)
        connection.sock.connect(local)
        try:
            return all(_id_of(connection, tag) == receipt.id for tag in receipt.tags)
        except HTTPException:
            return False


def _id_of(connection: "HTTPConnection", tag: str) -> str | None:
    connection.request("GET", f"/images/{quote(tag)}/json")
    reply = connection.getresponse()
    text = reply.read()
    found = json.loads(text).get("Id") if reply.status == HTTPStatus.OK else None
    return found if isinstance(found, str) else None


def own_receipt(arguments: Sequence[str]) -> Path | None:
    """The path of a command line's receipt in this environment; None for a verb without receipts."""
    if list(arguments[:1]) != ["image"]:
        return None
    docker = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")) / "config.json"  # noqa: PTH111
    files = (config_file(os.environ), docker)
    return receipt_path(store_root(with_cache_dir(os.environ)), arguments, os.environ, files)


def answered(arguments: Sequence[str]) -> bool:
    """Print the kept result if it is still valid; False when the command must run."""
    path = own_receipt(list(arguments))
    receipt = read_receipt(path) if path else None
    if receipt is None:
        return False
    if not {"-q", "--quiet"} & set(arguments):
        print("\n".join(receipt.summary), file=sys.stderr)
    print(json.dumps(receipt.document, indent=2) if "--json" in arguments else receipt.digest)
    return True
