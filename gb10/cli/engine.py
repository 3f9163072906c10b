"""``engine``: start, stop or show the container engine."""

from collections.abc import Mapping

from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.engine.embedded.daemon import down as stop
from gb10.engine.embedded.daemon import status as embedded_status
from gb10.engine.embedded.privileges import missing_privilege
from gb10.engine.reach import find, look
from gb10.workshop import Workshop

app = verb_app(
    """The container engine: your Docker when it is reachable, else an embedded one in the store.

\b
./build.py engine up        # start it when needed, print its DOCKER_HOST
./build.py engine status    # show which engine builds
./build.py engine down      # stop the embedded engine; your own Docker is never touched
""",
    group=True,
)


@app.command()
@opens
def up(*, shop: Workshop, as_json: JsonOption = False) -> None:
    """Start the engine when needed; print its DOCKER_HOST.

    \b
    eval "export $(./build.py engine up)"    # use it with your own docker commands
    """
    engine = find(shop.env, shop.store)
    for note in engine.notes:
        shop.talk.say(note)
    shop.talk.say(f"Docker {engine.version} ({', '.join(dict.fromkeys((engine.kind, engine.endpoint.origin)))})")
    if as_json:
        print_json({"schema": "gb10/engine-up/v1", "docker_host": engine.endpoint.host, "version": engine.version})
        return
    print(f"DOCKER_HOST={engine.endpoint.host}")


@app.command()
@opens
def down(*, shop: Workshop, as_json: JsonOption = False) -> None:
    """Stop the embedded engine; its images stay.

    \b
    ./build.py engine down
    """
    stopped = stop(shop.store)
    shop.talk.say("stopped" if stopped else "no embedded engine was running")
    if as_json:
        print_json({"schema": "gb10/engine-down/v1", "stopped": stopped})


@app.command()
@opens
def status(*, shop: Workshop, as_json: JsonOption = False) -> None:
    """Show which engine builds, and the state of the embedded one.

    \b
    ./build.py engine status --json
    """
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
        else f"used      none is running; {_embedded(shop.env)}"
    )
    print(f"embedded  {'pid ' + str(own.pid) if own.pid else 'not running'}, data in {own.data}")
    for name, version in sorted(own.versions.items()):
        print(f"          {name} {version}")


def _embedded(env: Mapping[str, str]) -> str:
    lacking = missing_privilege(env)
    if lacking:
        return f"the embedded one cannot run here ({lacking}): run as root, or start Docker and set DOCKER_HOST"
    return "gb10 starts the embedded one when a build needs it"
