"""``engine``: start, stop or look at the container engine."""

from collections.abc import Mapping

from gb10.cli.common import JsonOption, print_json, verb_app, workshop
from gb10.engine.embedded.daemon import down as stop
from gb10.engine.embedded.daemon import status as embedded_status
from gb10.engine.embedded.privileges import missing_privilege
from gb10.engine.reach import find, look

app = verb_app(
    """The container engine: yours when one is reachable, else a private one kept inside the store.

\b
./build.py engine up        start it (or say which one is used) and print its DOCKER_HOST
./build.py engine status
./build.py engine down      stop the private one; an engine of yours is never touched
""",
    group=True,
)


@app.command()
def up() -> None:
    """Make an engine ready; print its DOCKER_HOST."""
    shop = workshop()
    engine = find(shop.env, shop.store)
    for note in engine.notes:
        shop.talk.say(note)
    shop.talk.say(f"Docker {engine.version} ({engine.kind}, {engine.endpoint.origin})")
    print(f"DOCKER_HOST={engine.endpoint.host}")


@app.command()
def down() -> None:
    """Stop the private engine; its data stays."""
    shop = workshop()
    shop.talk.say("stopped" if stop(shop.store) else "no private engine was running")


@app.command()
def status(*, as_json: JsonOption = False) -> None:
    """Say which engine would be used, and what the private one is doing."""
    shop = workshop()
    used = look(shop.env, shop.store)
    own = embedded_status(shop.store)
    document = {
        "schema": "gb10/engine/v1",
        "used": {"kind": used.kind, "version": used.version, "host": used.endpoint.host} if used else None,
        "embedded": {"pid": own.pid, "host": own.host, "data": str(own.data), "versions": dict(own.versions)},
    }
    if as_json:
        print_json(document)
        return
    print(
        f"used      Docker {used.version} ({used.kind}, {used.endpoint.host})"
        if used
        else f"used      none runs now; {_private(shop.env)}"
    )
    print(f"private   {'pid ' + str(own.pid) if own.pid else 'not running'}, data in {own.data}")
    for name, version in sorted(own.versions.items()):
        print(f"          {name} {version}")


def _private(env: Mapping[str, str]) -> str:
    lacking = missing_privilege(env)
    if lacking:
        return f"the private one cannot run here ({lacking}): run as root, or start Docker and set DOCKER_HOST"
    return "the private one is started when it is needed"
