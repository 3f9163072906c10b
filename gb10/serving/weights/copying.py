"""The files of a model go from this machine to another by rsync over ssh: resumed, and the same bytes there."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gb10.core.concurrency import map_parallel
from gb10.core.proc import CommandFailedError, stream
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.core.store import file_sha256
from gb10.errors import Gb10Error, PublishError
from gb10.image.context import Context
from gb10.serving.cluster.fabric import fabric_of
from gb10.serving.cluster.node_facts import Reading
from gb10.serving.cluster.probing import read_nodes
from gb10.serving.weights.downloading import RESERVE, gb
from gb10.serving.weights.hub_cache import ModelFolder, folder_name
from gb10.serving.weights.model_lock import LockedModel, WeightsLock
from gb10.serving.weights.node_cache import (
    NodeCache,
    look_at_node,
    node_error,
    on_node,
    ssh_words,
)

ROCE = "pair"
"""Two machines on one network of RoCE."""


def fast_address(reporter: Reporter, host: str, named: str | None) -> str | None:
    """The address, if ssh gets in by it; None: copy by the machine's own name. ``named`` is the cluster's."""
    address = named or _found(host)
    if address is None:
        return None
    try:
        on_node(host, "true", address=address)
    except PublishError:
        reporter.say(f"{host}: ssh does not get in by its fast link, {address}: copying by its name")
        return None
    reporter.say(f"{host}: copying over its fast link, {address}")
    return address


def _found(host: str) -> str | None:
    """The machine's address in the network of RoCE that it shares with this one."""
    readings = read_nodes((HERE, host))
    facts = {name: found.facts for name, found in readings.items() if isinstance(found, Reading)}
    if len(facts) < len(readings):
        return None
    fabric = fabric_of(facts)
    rails = fabric.rails.get(host, ()) if fabric.kind == ROCE else ()
    return str(rails[0].address.ip) if rails else None


RSYNC: Final = (
    *("rsync", "--links", "--times", "--partial", "--append-verify", "--secluded-args", "--omit-dir-times"),
    *("--chmod=Du=rwx,Dgo=rx,Fu=rw,Fgo=r", "--no-human-readable", "--info=progress2,name0,stats0"),
)
"""A content that broke off is continued; one of the right size is left alone, since its hash is looked at later."""
PROGRESS: Final = re.compile(r"\s*([\d,]+)\s+\d+%.*")
TWICE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A machine that gets the models; ``address`` is that of its fast link, as the user's cluster names it."""

    ctx: Context
    host: str
    address: str | None
    models: Sequence[LockedModel]
    cache: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeCopy:
    """A node that has every file: its cache, and the bytes that went there."""

    host: str
    cache: str
    bytes: int


Hosts = Mapping[str, str | None]
"""Machines by ssh, each with the address of its fast link, where the user's cluster names one."""


def copy_to_each(
    ctx: Context, hosts: Hosts, lock: WeightsLock, cache: Path, *, verify: bool
) -> tuple[tuple[NodeCopy, ...], dict[str, Gb10Error]]:
    """The nodes that have every file now, copied to at the same time, and the error of each other one."""

    def one(host: str) -> NodeCopy | Gb10Error:
        copy = Copy(ctx=ctx, host=host, address=hosts[host], models=lock.models, cache=cache)
        try:
            return copy_to_node(copy, hashed=lock.place(host) is not None and not verify)
        except Gb10Error as error:
            return error

    done = dict(zip(hosts, map_parallel(ctx.stop, one, tuple(hosts), len(hosts)), strict=True))
    failed = {host: result for host, result in done.items() if isinstance(result, Gb10Error)}
    return tuple(result for result in done.values() if isinstance(result, NodeCopy)), failed


def require_all(failed: Mapping[str, Gb10Error], count: int) -> None:
    """Raise PublishError that names the nodes that lack the weights."""
    if failed:
        lines = [": ".join(filter(None, (host, error.message, error.where))) for host, error in failed.items()]
        hints = dict.fromkeys(error.hint for error in failed.values() if error.hint)
        raise PublishError(
            f"{len(failed)} of {count} nodes do not have the weights", where="\n".join(lines), hint="\n".join(hints)
        )


def copy_to_node(copy: Copy, *, hashed: bool) -> NodeCopy:
    """Copy what a node lacks; ``hashed``: it was right before, so sizes are enough. Raises PublishError."""
    node = look_at_node(copy.host, [model.repo for model in copy.models])
    sent = sum(_missing(node, model) for model in copy.models)
    if sent and sent + RESERVE > node.free:
        raise PublishError(
            f"{gb(sent)} are missing on {node.host}, and the disk of {node.cache} has {gb(node.free)} free",
            hint=f"make room there ({gb(RESERVE)} must stay free), or set HF_HOME for ssh there",
        )
    copy = replace(copy, address=fast_address(copy.ctx.reporter, copy.host, copy.address) if sent else None)
    for model in copy.models:
        lacking = _missing(node, model)
        if lacking:
            _send_contents(copy, node, model, lacking)
        if lacking or not hashed:
            _check_contents(copy, node, model)
        _rsync(copy, node, _names(copy.cache, model))
    return NodeCopy(host=copy.host, cache=node.cache, bytes=sent)


def _missing(node: NodeCache, model: LockedModel) -> int:
    sizes = {file.etag: file.size for file in model.files}
    return sum(max(0, size - node.has(model.repo, etag)) for etag, size in sizes.items())


def _send_contents(copy: Copy, node: NodeCache, model: LockedModel, total: int) -> None:
    """The contents; what is longer there than here is another thing, and goes first."""
    sizes = {file.etag: file.size for file in model.files}
    longer = [etag for etag, size in sizes.items() if node.has(model.repo, etag) > size]
    if longer:
        node.remove(model.repo, longer)
    with copy.ctx.reporter.task(f"copy {model.repo} to {copy.host}", total) as task:

        def progressed(line: str) -> None:
            found = PROGRESS.fullmatch(line)
            if found:
                copy.ctx.reporter.update(task, min(total, int(found[1].replace(",", ""))), total)

        names = [f"{folder_name(model.repo)}/blobs/{etag}" for etag in sizes]
        _rsync(copy, node, names, on_line=progressed)


def _check_contents(copy: Copy, node: NodeCache, model: LockedModel) -> None:
    """Raise PublishError when a content on the node stays another than here; one that is wrong is sent again once."""
    folder = ModelFolder(copy.cache, model.repo)
    sums = {file.etag: _sha256(folder, file.etag) for file in model.files}
    for attempt in range(TWICE):
        with copy.ctx.reporter.task(f"check {model.repo} on {copy.host}"):
            wrong = node.mismatches(model.repo, sums)
        if not wrong:
            return
        if attempt == 0:
            copy.ctx.reporter.say(f"{copy.host}: {len(wrong)} files are damaged: copying them again")
            node.remove(model.repo, wrong)
            _rsync(copy, node, [f"{folder_name(model.repo)}/blobs/{etag}" for etag in wrong])
    raise PublishError(
        f"{copy.host}: {len(wrong)} files of {model.repo} differ from those here, after a second copy, too",
        where="\n".join(wrong[:5]),
        hint="check the disk and the memory of that machine",
    )


def _sha256(folder: ModelFolder, etag: str) -> str:
    return etag if len(etag) == 64 else file_sha256(folder.blob(etag))


def _names(cache: Path, model: LockedModel) -> list[str]:
    """The links of the commit, and what the branch means: they come last, so that nobody reads half a model."""
    folder = folder_name(model.repo)
    links = [f"{folder}/snapshots/{model.revision}/{file.path}" for file in model.files]
    ref = f"{folder}/refs/main"
    return [*links, *([ref] if (cache / ref).is_file() else [])]


def _rsync(
    copy: Copy, node: NodeCache, names: Sequence[str], on_line: Callable[[str], None] = lambda line: None
) -> None:
    *ssh, name = ssh_words(copy.host, copy.address)
    with copy.ctx.store.folder("copy") as work:
        listed = work / "names"
        listed.write_text("\n".join(names), encoding="utf-8")
        shell = f"--rsh={shlex.join(ssh)}"
        argv = [*RSYNC, shell, f"--files-from={listed}", f"{copy.cache}/", f"{name}:{node.cache}/"]
        try:
            stream(argv, log=work / "log", on_line=on_line, stop=copy.ctx.stop)
        except CommandFailedError as error:
            raise node_error(copy.host, error) from error
