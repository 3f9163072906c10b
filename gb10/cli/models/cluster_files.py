"""Files of clusters: where they lie, and the nodes of a command line, which may name one (``@home``)."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from gb10.core.config import config_file
from gb10.errors import UsageError
from gb10.serving.cluster.cluster_file import LARGEST, NAME, Cluster, read_cluster
from gb10.serving.run.service_nodes import refuse_numbers

MARK = "@"


def cluster_file(env: Mapping[str, str], name: str) -> Path:
    """Where a cluster's file lies. Raises UsageError for what cannot be a name."""
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} cannot be the name of a cluster", hint="use letters, digits, _, . and -")
    return _folder(env) / f"{name}.toml"


def _folder(env: Mapping[str, str]) -> Path:
    return config_file(env).parent / "clusters"


def find_cluster(env: Mapping[str, str], name: str) -> Cluster:
    """A cluster by its name. Raises UsageError with the closest one, or for a file with mistakes."""
    path = cluster_file(env, name)
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        return read_cluster(content[:LARGEST].decode("utf-8"), str(path))
    except FileNotFoundError as error:
        names = sorted(one.stem for one in _folder(env).glob("*.toml"))
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        guess = f"did you mean {MARK}{close[0]}? " if close else ""
        hint = f"{guess}make it: ./build.py cluster init {name} --nodes HEAD,WORKER"
        raise UsageError(f"no cluster {name!r}", where=str(path), hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error


def nodes_named(env: Mapping[str, str], text: str | None) -> Cluster | None:
    """The nodes of ``--nodes A,B`` or ``--nodes @NAME``; None when it is not given. Raises UsageError."""
    if text is None:
        return None
    if text.startswith(MARK) and "," not in text:
        return find_cluster(env, text.removeprefix(MARK))
    hosts = tuple(one.strip() for one in text.split(",") if one.strip())
    if not hosts:
        raise UsageError("--nodes names no node", hint="write --nodes HEAD,WORKER, or --nodes @CLUSTER")
    refuse_numbers(hosts)
    twice = next((host for host in hosts if hosts.count(host) > 1), None)
    if twice:
        raise UsageError(f"the node {twice!r} is named twice", hint="each node runs one rank")
    return alone(*hosts)


def alone(*hosts: str) -> Cluster:
    """A cluster without a file."""
    return Cluster.model_construct(nodes=hosts, environment={}, node={})
