"""Which engine to use: the user's when it is reachable, else the embedded one; never a guess in silence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gb10.containers.connection import DEFAULT_ORIGIN, Endpoint, Engine, UnreachableError, chosen_endpoint, probe
from gb10.containers.embedded.daemon import Place, answering, up
from gb10.core.store import Store
from gb10.errors import EngineError

MEMBER = "sudo usermod -aG docker $USER, then log in again"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why the default socket is not used, and the error when a Docker is there that this user may not use."""

    reason: str
    denial: EngineError | None

    @property
    def note(self) -> str:
        return f"{self.reason}; using the embedded engine"


def connect_or_start(env: Mapping[str, str], store: Store) -> Engine:
    """The engine to build with; starts the embedded one when the user has none.

    An engine that the user chose (DOCKER_HOST, a docker context) must answer. Only the default socket may be skipped;
    then ``Engine.notes`` has a note. Raises EngineError with the ways out.
    """
    return _found(env, store, *_reachable(env, store))


def _found(env: Mapping[str, str], store: Store, running: Engine | None, skipped: Skipped | None) -> Engine:
    if running:
        return running
    if skipped and skipped.denial:
        raise skipped.denial
    try:
        own = up(store, env)
    except EngineError as error:
        where = "\n".join(filter(None, (skipped.reason if skipped else None, error.where)))
        raise EngineError(error.message, where=where, hint=error.hint) from error
    return replace(own, notes=(skipped.note, *own.notes)) if skipped else own


def connect_if_running(env: Mapping[str, str], store: Store) -> Engine | None:
    """The engine of ``connect_or_start`` if it runs already, else None; starts nothing. Raises EngineError.

    None, too, for a Docker that this user may not use: what only looks needs no engine.
    """
    running, skipped = _reachable(env, store)
    if running or (skipped and skipped.denial):
        return running
    own = answering(Place(store))
    return replace(own, notes=(skipped.note,)) if own and skipped else own


def connect_if_has_images(env: Mapping[str, str], store: Store) -> Engine | None:
    """The engine that may have images, started when needed; None without a Docker where the embedded one never ran."""
    running, skipped = _reachable(env, store)
    never = running is None and not (skipped and skipped.denial) and not Place(store).data.is_dir()
    return None if never else _found(env, store, running, skipped)


def denial(env: Mapping[str, str], store: Store) -> EngineError | None:
    """The error of ``connect_or_start`` when Docker's default socket is there and this user may not open it."""
    _, skipped = _reachable(env, store)
    return skipped.denial if skipped else None


def _reachable(env: Mapping[str, str], store: Store) -> tuple[Engine | None, Skipped | None]:
    """The user's engine, or None and why it was passed over."""
    endpoint = chosen_endpoint(env)
    if endpoint.host == Place(store).endpoint.host:
        return None, None
    try:
        return probe(endpoint, "user"), None
    except UnreachableError as error:
        denied = _denied(endpoint, error) if error.denied else None
        reason = f"{endpoint.origin} ({endpoint.host}): {error}"
        if endpoint.origin == DEFAULT_ORIGIN:
            return None, Skipped(f"no Docker at the {reason}", denied)
        message = f"the container engine that {endpoint.origin} names cannot be used"
        hint = "start that container engine, or choose another: docker context use NAME, or DOCKER_HOST"
        if endpoint.context is None:
            hint = "start that container engine, correct DOCKER_HOST, or unset it to let gb10 choose"
        raise denied or EngineError(message, where=reason, hint=hint) from error


def _denied(endpoint: Endpoint, error: UnreachableError) -> EngineError:
    named = "" if endpoint.origin == DEFAULT_ORIGIN else f"\nnamed by {endpoint.origin}"
    where = f"{endpoint.host.removeprefix('unix://')}: {error}{named}"
    return EngineError("you may not use Docker", where=where, hint=MEMBER)
