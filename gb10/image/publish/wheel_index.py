"""The shelf: what a wheel cache holds at one commit, once the signature under its listing is found good."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from gb10.core.config import variable
from gb10.core.fields import Model
from gb10.core.host import Host
from gb10.errors import FetchError, UsageError, VerifyError
from gb10.image.publish.signing import WHEELS, verify

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
class WheelCache:
    """A repository of the Hub, and the file of the keys that may sign its listing."""

    repo: str
    signers: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelIndex:
    """A wheel cache as one commit shows it; ``signer`` vouches for the wheels, and is empty where nothing is listed."""

    cache: WheelCache
    hub: "Hub"
    head: str
    signer: str
    wheels: Mapping[str, Listed]


def wheel_cache(env: Mapping[str, str], repo: str | None = None) -> WheelCache | None:
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
    return WheelCache(repo=name, signers=Path(signers))


def named_cache(env: Mapping[str, str], repo: str | None) -> WheelCache:
    """As ``wheel_cache``; raises UsageError when none is named, too."""
    cache = wheel_cache(env, repo)
    if cache is None:
        raise UsageError("no wheel cache is named", hint=f"write OWNER/NAME, or set wheel-cache, or {REPO}")
    return cache


def fetch_index(host: Host, cache: WheelCache, *, may_be_new: bool = False) -> WheelIndex:
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


def trusted(env: Mapping[str, str], cache: WheelCache, text: str, signature: Path) -> str:
    """The trusted signer of a listing; raises VerifyError when there is none."""
    try:
        return verify(text, signature, cache.signers, env, meant=WHEELS)
    except VerifyError as error:
        raise VerifyError(
            f"the listing of {cache.repo} is not trusted: {error.message}", where=error.where, hint=error.hint
        ) from error
