"""Sharing: compiled wheels by key, to and from a repository of the Hub, as far as a trusted listing names them."""

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from gb10.core.config import variable
from gb10.core.fields import Model
from gb10.core.host import Host
from gb10.core.store import Store, file_sha256, seal
from gb10.errors import EmptySelectionError, FetchError, PublishError, UsageError, VerifyError
from gb10.image.build.wheels import WheelCache
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import prove_wheel
from gb10.image.proof.wheel_files import declares
from gb10.image.publish.licences import wheel_licence_problem
from gb10.image.publish.signing import WHEELS, sign, verify

if TYPE_CHECKING:
    from gb10.sources.hub import Hub


LISTING: Final = "wheels.json"
SIGNATURE: Final = f"{LISTING}.sig"

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Listed(Model):
    """A wheel: its file name, which holds no folder, sha256, and size in bytes."""

    file: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+-]+\.whl$")]
    sha256: Hex
    size: Annotated[int, Field(ge=0)]

    def path(self, key: str) -> str:
        """Where the repository has it."""
        return f"wheels/{key}/{self.file}"


class _Listing(Model):
    version: Literal[1] = 1
    wheels: dict[Hex, Listed]


def read_listing(text: str) -> Mapping[str, Listed]:
    """What a listing names, by key; raises VerifyError for one that is none."""
    try:
        return _Listing.model_validate_json(text).wheels
    except ValidationError as error:
        first = error.errors()[0]
        raise VerifyError(
            "the listing is not one that this version reads",
            where=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            hint="a newer version of the tool pushed it: update this one",
        ) from error


def write_listing(wheels: Mapping[str, Listed]) -> str:
    """The listing's text, the same for the same wheels. ASCII only."""
    return json.dumps(_Listing(wheels=dict(wheels)).model_dump(), indent=1, sort_keys=True) + "\n"


REPO: Final = variable("wheel-cache")
SIGNERS: Final = variable("wheel-cache-signers")


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelRepository:
    """A repository of the Hub, and the file of the keys that may sign its listing."""

    repo: str
    signers: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelIndex:
    """A wheel cache as one commit shows it; ``signer`` vouches for the wheels, and is empty where nothing is listed."""

    cache: WheelRepository
    hub: "Hub"
    head: str
    signer: str
    wheels: Mapping[str, Listed]


def wheel_cache(env: Mapping[str, str], repo: str | None = None) -> WheelRepository | None:
    """The cache ``repo``, else the settings' one, if any; raises UsageError when no trusted signer is set."""
    name, signers = repo or env.get(REPO), env.get(SIGNERS)
    if not name:
        return None
    if not signers or not Path(signers).is_file():
        raise UsageError(
            f"no one is named who may sign the wheels of {name}",
            where=f"wheel-cache-signers: {f'{signers} is no file' if signers else 'not set'}",
            hint=f"set it, or {SIGNERS}, to an allowed_signers file (man ssh-keygen)",
        )
    return WheelRepository(repo=name, signers=Path(signers))


def require_wheel_repository(env: Mapping[str, str], repo: str | None) -> WheelRepository:
    """As ``wheel_cache``; raises UsageError when none is named, too."""
    cache = wheel_cache(env, repo)
    if cache is None:
        raise UsageError("no wheel cache is named", hint=f"write OWNER/NAME, or set wheel-cache, or {REPO}")
    return cache


def fetch_index(host: Host, cache: WheelRepository, *, may_be_new: bool = False) -> WheelIndex:
    """What the repository lists at its newest commit; ``may_be_new``: nothing, before the first push.

    Raises UsageError, FetchError, VerifyError.
    """
    from gb10.sources.hub import open_hub  # noqa: PLC0415 - a third of a second, for wheel caches alone

    hub = open_hub(cache.repo, host.env)
    head = hub.head()
    with host.store.folder("hub") as work:
        listing, signature = (hub.fetch(name, head, work) for name in (LISTING, SIGNATURE))
        if listing is None and may_be_new:
            return WheelIndex(cache=cache, hub=hub, head=head, signer="", wheels={})
        if listing is None:
            raise FetchError(
                f"{cache.repo} lists no wheels", where=f"it has no {LISTING}", hint="./build.py cache push adds some"
            )
        if signature is None:
            raise VerifyError(
                f"the listing of {cache.repo} is not signed",
                where=f"it has no {SIGNATURE}",
                hint="do not use it, and ask its owner",
            )
        text = listing.read_text(encoding="ascii", errors="replace")
        signer = trusted(host.env, cache, text, signature)
    return WheelIndex(cache=cache, hub=hub, head=head, signer=signer, wheels=read_listing(text))


def trusted(env: Mapping[str, str], cache: WheelRepository, text: str, signature: Path) -> str:
    """The trusted signer of a listing; raises VerifyError when there is none."""
    try:
        return verify(text, signature, cache.signers, env, meant=WHEELS)
    except VerifyError as error:
        raise VerifyError(
            f"the listing of {cache.repo} is not trusted: {error.message}", where=error.where, hint=error.hint
        ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """A wheel that both the store and the cache have; ``size`` in bytes, ``moved`` when it travelled now."""

    key: str
    file: str
    sha256: str
    size: int
    moved: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What a push or a pull did, and at which commit."""

    repo: str
    commit: str
    wheels: tuple[Shared, ...]


def take_missing(host: Host, plan: Plan, rebuild: Collection[str]) -> None:
    """Take from the configured cache what a plan lacks, except for ``rebuild``; a note names what cannot be taken.

    Raises UsageError for settings that cannot be right; nothing else of a cache stops a build.
    """
    if not host.env.get(REPO):
        return
    absent = {
        step.key: step.name
        for step in plan.of_kind("wheel")
        if step.name not in rebuild and WheelCache(host).get(step.key) is None
    }
    cache = wheel_cache(host.env) if absent else None
    if cache is None:
        return
    try:
        index = fetch_index(host, cache)
    except (FetchError, VerifyError) as error:
        host.reporter.say(f"no wheel is taken from {cache.repo}: {_line(error)}; compiling here")
        return
    for key, name in absent.items():
        try:
            _take(host, index, key)
        except (FetchError, VerifyError) as error:
            host.reporter.say(f"{name} is not taken from {cache.repo}: {_line(error)}; compiling it here")


def pull(host: Host, cache: WheelRepository, wanted: Mapping[str, str] | None) -> Exchange:
    """Take wheels, by key and name, or all (None); raises FetchError that names those that the cache has not."""
    index = fetch_index(host, cache)
    keys = list(index.wheels if wanted is None else wanted)
    wheels = tuple(_take(host, index, key) for key in keys if key in index.wheels)
    absent = [f"{name}  {key}" for key, name in (wanted or {}).items() if key not in index.wheels]
    if absent:
        raise FetchError(
            f"{cache.repo} does not list {len(absent)} of {len(keys)} wheels",
            where="\n".join(absent),
            hint="./build.py wheels compiles them, cache push shares them",
        )
    return Exchange(repo=cache.repo, commit=index.head, wheels=wheels)


def push(host: Host, cache: WheelRepository, wanted: Mapping[str, str], signing: Path) -> Exchange:
    """Add what the cache lacks of wheels, by key and name: files and listing in one commit, on top of what others push.

    Raises EmptySelectionError, UsageError, VerifyError (no key trusted here signed the listing, so it cannot be
    signed again), FetchError, PublishError.
    """
    own = _own(host, wanted)
    mine = {key: _listed(path) for key, path in own.items()}
    for _ in range(2):
        index = fetch_index(host, cache, may_be_new=True)
        new = {key: path for key, path in own.items() if key not in index.wheels}
        listed = {**mine, **index.wheels}
        commit = _commit(host, index, new, listed, signing) if new else index.head
        if commit:
            for one in (listed[key] for key in own if listed[key] != mine[key]):
                host.reporter.say(f"{one.file} of {cache.repo} is of another compile than the one here: it stays")
            wheels = tuple(_shared(key, listed[key], moved=key in new) for key in own)
            return Exchange(repo=cache.repo, commit=commit, wheels=wheels)
        host.reporter.say(f"{cache.repo} changed meanwhile: adding to what it lists now")
    raise PublishError(f"{cache.repo} changed twice while wheels were pushed", hint="run the command again")


def compiled_wheels(store: Store) -> dict[str, str]:
    """Every wheel of the store that was compiled, here or by who shared it: key and file name."""
    found = sorted((store.root / "wheels").glob("*/*.whl"))
    return {path.parent.name: path.name for path in found if declares(path)}


def _own(host: Host, wanted: Mapping[str, str]) -> dict[str, Path]:
    """Those of these wheels that are sound and may be given on; a note names the others.

    Raises EmptySelectionError when there is none.
    """
    found = {key: path for key in wanted if (path := WheelCache(host).get(key))}
    for key, name in wanted.items():
        if key not in found:
            host.reporter.say(f"{name} ({key[:12]}) is not in the store, or damaged there: it is not pushed")
    for key, path in list(found.items()):
        if why := wheel_licence_problem(path):
            host.reporter.say(f"{path.name}: {why}: it is not pushed")
            del found[key]
    if not found:
        raise EmptySelectionError("the store has no compiled wheel to push", hint="./build.py wheels compiles them")
    return found


def _commit(
    host: Host, index: WheelIndex, new: Mapping[str, Path], listed: Mapping[str, Listed], signing: Path
) -> str | None:
    """Send new wheels with the listing, signed; None when the repository changed meanwhile."""
    text = write_listing(listed)
    signature = sign(text, signing, host.env, meant=WHEELS)
    with host.store.folder("hub") as work:
        (work / SIGNATURE).write_text(signature, encoding="ascii")
        trusted(host.env, index.cache, text, work / SIGNATURE)  # else no one could use it, not even the next push
    files: dict[str, Path | bytes] = {listed[key].path(key): path for key, path in new.items()}
    size = sum(listed[key].size for key in new)
    with host.reporter.task(f"push to {index.cache.repo}", size) as task:
        message = f"Add {', '.join(sorted(path.name for path in new.values()))}"
        commit = index.hub.commit({**files, LISTING: text.encode(), SIGNATURE: signature.encode()}, index.head, message)
        host.reporter.advance(task, size)
    return commit


def _take(host: Host, index: WheelIndex, key: str) -> Shared:
    """The wheel of a key in the store, there already or fetched now; raises FetchError, VerifyError."""
    if key not in index.wheels:
        raise FetchError("it is not listed there")
    listed = index.wheels[key]
    with host.store.locked(f"wheel-{key}", host.reporter.waiting_for(listed.file)):
        cached = WheelCache(host).get(key)
        if cached:
            return _shared(key, _listed(cached), moved=False)
        with host.reporter.task(f"fetch {listed.file}", listed.size) as task:
            host.store.replace(host.store.entry("wheels", key), partial(_fetch, index, key))
            host.reporter.advance(task, listed.size)
    host.reporter.say(f"{listed.file}: taken from {index.hub.repo}, signed by {index.signer}, proven")
    return _shared(key, listed, moved=True)


def _fetch(index: WheelIndex, key: str, work: Path) -> None:
    """Fill an entry of the store with the listed bytes, proven as if they were compiled here."""
    listed = index.wheels[key]
    found = index.hub.fetch(listed.path(key), index.head, work / "hub")
    if found is None:
        raise FetchError(f"{index.hub.repo} lists {listed.file}, and does not have it", where=listed.path(key))
    sha256 = file_sha256(found)
    if sha256 != listed.sha256:
        raise FetchError(
            f"{listed.file} of {index.hub.repo} is not the file that was signed",
            where=f"expected sha256 {listed.sha256}\n   found sha256 {sha256}",
            hint="it was changed after it was pushed: do not use it, and ask its owner",
        )
    wheel = found.rename(work / listed.file)
    shutil.rmtree(work / "hub")
    prove_wheel(wheel)
    seal(wheel)


def _listed(path: Path) -> Listed:
    return Listed(file=path.name, sha256=file_sha256(path), size=path.stat().st_size)


def _shared(key: str, listed: Listed, *, moved: bool) -> Shared:
    return Shared(key=key, file=listed.file, sha256=listed.sha256, size=listed.size, moved=moved)


def _line(error: FetchError | VerifyError) -> str:
    """An error in one line."""
    return ": ".join((error.message, *" ".join((error.where or "").split()).splitlines()))
