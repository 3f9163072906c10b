"""``doctor``: what is wrong with a Spark, by rules with a reason."""

import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.cluster_files import MARK, find_cluster
from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.doctor_show import doctor_document, print_checkup, print_rules
from gb10.core.plain_file import read_plain_file
from gb10.core.ssh import HERE
from gb10.errors import EngineError, ServeError, UsageError
from gb10.image.context import Context
from gb10.serving.checkup.bundle import as_text, write_bundle
from gb10.serving.checkup.collect import Checkup, Request, check_up
from gb10.serving.checkup.saved_logs import SavedLog, log_size, read_log
from gb10.serving.doctor.image_record import PLACE, ImageRecord, read_plan
from gb10.serving.doctor.rule_files import load_doctor_rules

LARGEST_PLAN = 4 << 20
LONG = 256 << 20
"""Bytes of a log whose reading shows its progress."""
app = verb_app("""Find what is wrong with a Spark: its machine, its containers, their logs, its endpoint.


\b
./build.py doctor                                        # this machine, its containers and their logs
./build.py doctor --host me@spark-1 --host me@spark-2    # others, by ssh; or --host @CLUSTER
./build.py doctor --log head=head.log --log worker=worker.log
./build.py doctor --probe --url http://spark-1:8000      # asks the endpoint: takes minutes
./build.py doctor --host me@spark-1 --bundle report.tar.gz

It reads, and changes nothing. Rules that cannot be about an image, by its plan.json, are left out; -v lists them.
Several logs are one story: the first error of all comes first. Errors that no rule knows are named as such.

Exit 12 when it found an error, 7 when no machine that you named can be read.
""")
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A machine by ssh ([USER@]NAME), or @CLUSTER. Repeatable."),
]
LogOption = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="[NODE=]FILE", help="A log, of a server or of NCCL; - is stdin. Repeatable."),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="The plan.json of the image that wrote the logs.")
]
ProbeOption = Annotated[bool, typer.Option("--probe", help="Ask the endpoint: canaries, speeds, requests that stall.")]
UrlOption = Annotated[
    list[str] | None,
    typer.Option("--url", metavar="URL", help="The endpoint to ask. Default: those of running services. Repeatable."),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="NAME", help="As the endpoint names it.")]
BundleOption = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="FILE", help="Write all that was read into FILE (.tar.gz), without secrets."),
]
RulesOption = Annotated[bool, typer.Option("--rules", help="List the rules, and look at nothing.")]


@app.command(help=app.info.help)
@with_context
def doctor(
    *,
    ctx: Context,
    hosts: HostOption = None,
    logs: LogOption = None,
    plan: PlanOption = None,
    probe: ProbeOption = False,
    urls: UrlOption = None,
    model: ModelOption = None,
    bundle: BundleOption = None,
    rules: RulesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find what is wrong with a Spark."""
    if rules:
        print_rules(load_doctor_rules(), as_json=as_json)
        return
    if (urls or model) and not probe:
        raise UsageError("--url and --model are for --probe", hint="./build.py doctor --probe --url URL")
    named = _hosts(ctx, hosts or ())
    only_saved = bool(logs) or (probe and bool(urls))
    request = Request(
        hosts=named or (() if only_saved else (HERE,)),
        logs=_logs(ctx, logs or (), plan),
        probe=probe,
        urls=tuple(urls or ()),
        model=model,
    )
    with ctx.reporter.task(f"looking at {', '.join(request.hosts)}") if request.hosts else nullcontext():
        found = check_up(ctx, request, uuid.uuid4().hex)
    document = doctor_document(found, load_doctor_rules())
    written = _written(ctx, bundle, found, document) if bundle else None
    if as_json:
        print_json(document | ({"bundle": {"file": str(bundle), "sha256": written}} if bundle else {}))
    else:
        print_checkup(ctx.reporter, found, load_doctor_rules())
        if written:
            print(f"{bundle}  sha256:{written}")
    _end(request, named, found)


def _written(ctx: Context, bundle: Path, found: Checkup, document: object) -> str:
    """The bundle's sha256."""
    with ctx.reporter.task(f"mask secrets, write {bundle}"):
        return write_bundle(bundle, {"findings.json": as_text(document), **found.files}, found.secrets)


def _hosts(ctx: Context, given: list[str] | tuple[()]) -> tuple[str, ...]:
    found: list[str] = []
    for one in given:
        found += find_cluster(ctx.env, one.removeprefix(MARK)).nodes if one.startswith(MARK) else [one]
    return tuple(dict.fromkeys(found))


def _logs(ctx: Context, given: list[str] | tuple[()], plan: Path | None) -> tuple[SavedLog, ...]:
    if plan is not None and not given:
        raise UsageError("--plan is for --log", hint="the plan.json of a running container is read by itself")
    image = _image(plan) if plan is not None else None
    found = tuple(_log(ctx, one, image) for one in given)
    names = [log.name for log in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"two logs are called {twice!r}", hint="name their nodes: --log head=FILE --log worker=FILE")
    return found


def _log(ctx: Context, text: str, image: ImageRecord | None) -> SavedLog:
    size = log_size(text)
    if size <= LONG:
        return read_log(text, image)
    with ctx.reporter.task(f"reading {text}", size) as task:
        return read_log(text, image, lambda count: ctx.reporter.update(task, count, size))


def _image(plan: Path) -> ImageRecord:
    hint = f"docker cp CONTAINER:{PLACE} plan.json"
    record = read_plan(read_plain_file(plan, LARGEST_PLAN, hint).decode("utf-8", "replace"))
    if record is None:
        raise UsageError(f"{plan} is no plan.json of an image", hint=hint)
    return record


def _end(request: Request, named: tuple[str, ...], found: Checkup) -> None:
    """The exit code: after the result is printed, nothing else is said."""
    if named and not found.shown.machines and not found.shown.containers and not request.logs:
        raise typer.Exit(EngineError.code)
    if found.diagnosis.worst == "error":
        raise typer.Exit(ServeError.code)
