"""Which engine to use: the user's when it is reachable, else the embedded one; never a guess in silence."""

from collections.abc import Mapping
from dataclasses import replace

from gb10.engine.connection import Endpoint, Engine, UnreachableError, probe
from gb10.engine.embedded.daemon import Place, answering, up
from gb10.engine.user_choice import DEFAULT_ORIGIN, chosen_endpoint
from gb10.errors import EngineError
from gb10.host.store import Store


def find(env: Mapping[str, str], store: Store) -> Engine:
    """The engine to build with; starts the embedded one when the user has none.

    An engine that the user chose (DOCKER_HOST, a docker context) must answer. Only the default socket may be skipped;
    then ``Engine.notes`` has a note. Raises EngineError with the ways out.
    """
    running, note = _reachable(env, store)
    if running:
        return running
    try:
        own = up(store, env)
        return replace(own, notes=(*note, *own.notes))
    except EngineError as error:
        where = "\n".join([*note, *([error.where] if error.where else [])])
        raise EngineError(error.message, where=where, hint=error.hint) from error


def look(env: Mapping[str, str], store: Store) -> Engine | None:
    """The engine that ``find`` would return if it runs already, else None; starts nothing. Raises as ``find``."""
    running, note = _reachable(env, store)
    own = running or answering(Place(store))
    return replace(own, notes=note) if own else None


def _reachable(env: Mapping[str, str], store: Store) -> tuple[Engine | None, tuple[str, ...]]:
    """The user's engine, or None and why it was passed over."""
    endpoint = chosen_endpoint(env)
    if endpoint.host == Place(store).endpoint.host:
        return None, ()
    try:
        return probe(endpoint, "user"), ()
    except UnreachableError as error:
        reason = f"{endpoint.origin} ({endpoint.host}): {error}"
        if endpoint.origin == DEFAULT_ORIGIN:
            return None, (f"no Docker at the {reason}; using the engine of the store",)
        message = f"the container engine that {endpoint.origin} names cannot be used"
        raise EngineError(message, where=reason, hint=_hint(endpoint)) from error


def _hint(endpoint: Endpoint) -> str:
    if endpoint.context is None:
        return "start that engine, correct DOCKER_HOST, or unset it to let gb10 choose"
    return "start that engine, or choose another: docker context use NAME, or DOCKER_HOST"
