"""``engine``: start, stop or show the container engine."""

import os
import shutil
from collections.abc import Mapping

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.containers.embedded.daemon import down as stop
from gb10.containers.embedded.daemon import status as embedded_status
from gb10.containers.embedded.privileges import missing_privilege
from gb10.containers.packages import Programs, unpacked
from gb10.containers.reach import connect_if_running, connect_or_start, denial
from gb10.image.context import Context

app = verb_app(
    """The container engine: your Docker when it is reachable, else the embedded engine.

\b
./build.py engine up        # start it when needed, print its DOCKER_HOST
./build.py engine status    # show which container engine builds
./build.py engine down      # stop the embedded engine; your own Docker is never touched
""",
    group=True,
)


@app.command()
@with_context
def up(*, ctx: Context, as_json: JsonOption = False) -> None:
    """Start the embedded engine if needed; print DOCKER_HOST.

    On a machine without the program docker, PATH is printed too, with the embedded engine's docker in front.

    \b
    eval "export $(./build.py engine up)"    # use it with your own docker commands
    """
    engine = connect_or_start(ctx.env, ctx.store)
    for note in engine.notes:
        ctx.reporter.say(note)
    ctx.reporter.say(f"Docker {engine.version} ({', '.join(dict.fromkeys((engine.kind, engine.endpoint.origin)))})")
    if as_json:
        print_json({"schema": "gb10/engine-up/v1", "docker_host": engine.endpoint.host, "version": engine.version})
        return
    print(f"DOCKER_HOST={engine.endpoint.host}")
    path = search_path(ctx.env, unpacked(ctx.store))
    if path:
        print(f"PATH={path}")


def search_path(env: Mapping[str, str], programs: Programs | None) -> str | None:
    """PATH with the embedded engine's ``docker`` in front; None where there is a docker, or no such program."""
    known = env.get("PATH", os.defpath)
    if programs is None or shutil.which("docker", path=known):
        return None
    return f"{programs.bin}:{known}"


@app.command()
@with_context
def down(*, ctx: Context, as_json: JsonOption = False) -> None:
    """Stop the embedded engine; its images stay.

    \b
    ./build.py engine down
    """
    stopped = stop(ctx.store)
    ctx.reporter.say("stopped" if stopped else "no embedded engine was running")
    if as_json:
        print_json({"schema": "gb10/engine-down/v1", "stopped": stopped})


@app.command()
@with_context
def status(*, ctx: Context, as_json: JsonOption = False) -> None:
    """Show the container engine in use, and the embedded one.

    \b
    ./build.py engine status --json
    """
    used = connect_if_running(ctx.env, ctx.store)
    own = embedded_status(ctx.store)
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
        else f"used      none: {_reason(ctx)}"
    )
    print(f"embedded  {'pid ' + str(own.pid) if own.pid else 'not running'}, data in {own.data}")
    for name, version in sorted(own.versions.items()):
        print(f"          {name} {version}")


def _reason(ctx: Context) -> str:
    """Why no container engine is used now, and the way out."""
    denied = denial(ctx.env, ctx.store)
    if denied:
        return f"{denied.message}: {denied.where}\n          {denied.hint}"
    lacking = missing_privilege(ctx.env)
    if lacking:
        return f"no Docker runs, and {lacking}\n          start Docker, or point to one by DOCKER_HOST"
    return "no Docker runs; gb10 starts the embedded engine when a build needs it"
