"""The file of a cluster: which machines, and what a person knows better than gb10 finds. Pure."""

import json
import re
import tomllib
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from gb10.core.document import mistakes_of
from gb10.core.fields import Model, accepted, unique
from gb10.errors import UsageError

NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,60}")
LARGEST: Final = 1 << 16
MOST: Final = 64
Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s,]+$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,100}$")]
Value = Annotated[str, StringConstraints(max_length=4096)]
Address = Annotated[str, accepted(IPv4Address, ValueError, "{text} is no IPv4 address")]
Environment = Annotated[dict[Variable, Value], Field(max_length=200)]
HEADER: Final = """\
# Made by `./build.py cluster init {name}`. `./build.py cluster check {name}` shows what gb10 finds on these machines.
# The first one is the head. For all containers, over what gb10 finds:
#   [environment]
#   NCCL_DEBUG = "INFO"
# For one machine, with its address for the others:
#   [node."me@spark-2"]
#   address = "10.0.0.2"
#   environment = {{NCCL_IB_HCA = "=rocep1s0f1"}}
"""


class MachineSettings(Model):
    """What a person says of one machine: its address for the others, and variables of its containers."""

    address: Address | None = None
    environment: Environment = Field(default_factory=dict)


class Cluster(Model):
    """Machines, the head first, each as ssh takes it."""

    nodes: Annotated[tuple[Text, ...], Field(min_length=1, max_length=MOST), unique("the node", str)]
    environment: Environment = Field(default_factory=dict)
    node: dict[str, MachineSettings] = Field(default_factory=dict)

    def own(self, host: str) -> MachineSettings:
        """What is said of one machine."""
        return self.node.get(host, MachineSettings())


def read_cluster(text: str, where: str) -> Cluster:
    """The cluster of a file's text. Raises UsageError with every mistake."""
    try:
        value = _plain(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        hint = 'write it as TOML: nodes = ["me@spark-1", "me@spark-2"]'
        raise UsageError(f"{where} is not TOML", where=str(error), hint=hint) from error
    mistakes = mistakes_of(value, Cluster)
    if mistakes:
        raise UsageError(f"{where} has {len(mistakes)} mistakes", where="\n".join(text for _, text in mistakes))
    found = Cluster.model_validate(value)
    unknown = sorted(set(found.node) - set(found.nodes))
    if unknown:
        hint = f"its nodes: {', '.join(found.nodes)}"
        raise UsageError(f"{where} speaks of {unknown[0]!r}, which is none of its nodes", hint=hint)
    return found


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def cluster_text(name: str, nodes: tuple[str, ...]) -> str:
    """The file of a new cluster."""
    listed = "".join(f"    {json.dumps(node)},\n" for node in nodes)
    return f"{HEADER.format(name=name)}nodes = [\n{listed}]\n"
