"""An image is built, and how plans and results are shown: tables for people, documents for scripts."""

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gb10.cli.common import print_json
from gb10.cli.receipt import Receipt, write_receipt
from gb10.core.reporter import Reporter
from gb10.image.build.build_usage import Meter, Row
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.build.proving import Received, say_received
from gb10.image.build.wheels import Wheel
from gb10.image.context import Context
from gb10.image.inspect.build_log import Build, keep_image_build, saved_build
from gb10.image.plan.values import Plan
from gb10.image.proof.report import render_summary
from gb10.image.publish.publishing import Published
from gb10.image.publish.sharing import take_missing

LEAST_CPU, LEAST_WRITTEN = 0.1, 1_000_000
"""CPU seconds, and bytes, below both of which a program has no line of its own; it is in every sum."""


def build_and_record(
    ctx: Context, plan: Plan, rebuild: Collection[str], tag: str | None, *, timings: bool
) -> tuple[ImageBuild, Verified, Build | None]:
    """The image, and what is kept of its build: with ``timings`` measured, printed and returned."""
    meter = Meter(ctx.reporter, ctx.store, plan) if timings else None
    build = ImageBuild(replace(ctx, on_build=meter.note) if meter else ctx, plan, rebuild)
    build.check_engine()
    take_missing(ctx, plan, build.rebuild)  # first: a wheel from the cache needs no compiler, nor its memory
    build.check()
    verified = build.image(tag)
    usage = meter.read() if meter else None
    if not verified.hit:
        keep_image_build(build, verified, usage)
    if not timings:
        return build, verified, None
    kept = saved_build(ctx.store, plan.key)
    for line in usage_lines(kept, hit=verified.hit):
        ctx.reporter.say(line)
    return build, verified, kept


def image_document(reporter: Reporter, verified: Verified) -> dict[str, object]:
    """The result of ``image`` as data."""
    return {
        "schema": "gb10/image/v1",
        "digest": verified.digest,
        "tags": list(verified.tags),
        "size": verified.size,
        "layers": verified.layers,
        "hit": verified.hit,
        "gpu_code": {str(fit): count for fit, count in verified.verdict.counts.items()},
        "timings": [asdict(timing) for timing in reporter.timings],
        **({"base": received_document(verified.received)} if verified.received else {}),
    }


def received_document(one: Received) -> dict[str, object]:
    """What is wrong with an image of others, as data. Without ``read`` its files were not looked at."""
    rows = [
        {"check": check.name, "severity": check.severity, "file": problem.file, "found": problem.found}
        for check, problem in one.findings
    ]
    return {"image": one.reference, "read": one.read, "received": rows, "cannot_run": list(one.cannot_run)}


def print_image(
    reporter: Reporter,
    verified: Verified,
    published: Sequence[Published],
    kept: Build | None = None,
    *,
    as_json: bool,
) -> None:
    """Phases and summary on stderr, the digest and what was published on stdout; ``kept`` has its usage."""
    if as_json:
        pushed = {"published": [asdict(one) for one in published]} if published else {}
        used = {"usage": {"ended": kept.ended, **asdict(kept.usage)}} if kept and kept.usage else {}
        print_json(image_document(reporter, verified) | used | pushed)
        return
    for timing in reporter.timings:
        reporter.say(f"  {timing.name:28} {'hit' if timing.hit else f'{timing.seconds:.1f} s'}")
    for line in summary(verified):
        reporter.say(line)
    say_received(reporter, verified.received)
    print(verified.digest)
    print_published(reporter, published)


def print_published(reporter: Reporter, published: Sequence[Published]) -> None:
    """Layers and bytes on stderr, each reference with its manifest's digest on stdout."""
    for one in published:
        reporter.say(f"{one.reference}: {one.moved} layers pushed ({one.bytes / 1e6:,.1f} MB), {one.there} present")
        print(f"{one.reference}@{one.digest}")


def summary(verified: Verified) -> list[str]:
    """What the image holds, its size and its tags."""
    state = "unchanged" if verified.hit else "built"
    size = f"{state}: {verified.size / 1e9:.2f} GB in {verified.layers} layers"
    return [*str(render_summary(verified.verdict)).splitlines(), size, *(f"  {tag}" for tag in verified.tags)]


def usage_lines(kept: Build | None, *, hit: bool) -> list[str]:
    """Where the time of the build went that made an image, as a table by phase and one by program. Pure."""
    if kept is None:
        return ["where the time went: not known, the store has no record of this build"]
    if kept.usage is None:
        return ["where the time went: not measured, the image was built without --timings"]
    used, total = kept.usage, kept.usage.total
    when = f" (build of {time.strftime('%d %b %Y %H:%M', time.localtime(kept.ended))})" if hit else ""
    rest = f"{(total.cpu - used.compilers) / used.compilers:.2f} of the compilers' CPU" if used.compilers else ""
    lines = [
        f"where the time went{when}: {total.wall:,.0f} s, {total.cpu:,.1f} CPU s; bytes are those of disks",
        f"  {'phase':44} {'wall s':>9} {'CPU s':>9} {'system s':>9} {'read MB':>9} {'written MB':>10}",
        *map(_usage_line, used.phases),
        _usage_line(total),
        f"  {'program':44} {'':9} {'CPU s':>9} {'system s':>9} {'read MB':>9} {'written MB':>10}",
        *(_usage_line(row) for row in used.programs if row.cpu >= LEAST_CPU or row.written >= LEAST_WRITTEN),
        f"  compilers {used.compilers:,.1f} CPU s, all else {total.cpu - used.compilers:,.1f}{rest and f', {rest}'}",
        f"  memory at most {used.resident / 1e9:.1f} GB; measuring took {used.measuring:.1f} of gb10's CPU s",
        *(f"  not measured: {what}" for what in used.unmeasured),
    ]
    return lines


def _usage_line(row: Row) -> str:
    wall = "" if row.wall is None else f"{row.wall:,.1f}"
    moved = f"{row.read / 1e6:9,.1f} {row.written / 1e6:10,.1f}"
    return f"  {row.name:44} {wall:>9} {row.cpu:9,.1f} {row.system:9,.1f} {moved}"


def keep_receipt(reporter: Reporter, path: Path, verified: Verified) -> None:
    """Keep the result that the same command prints while nothing changes."""
    same = replace(verified, hit=True)
    document = {**image_document(reporter, same), "timings": []}
    receipt = Receipt(
        host=same.host,
        id=same.id,
        tags=same.tags,
        proof=same.proof,
        digest=same.digest,
        summary=tuple(summary(same)),
        document=document,
    )
    write_receipt(path, receipt)


def wheels_document(wheels: Sequence[Wheel]) -> dict[str, object]:
    """The result of ``wheels`` as data."""
    return {
        "schema": "gb10/wheels/v1",
        "wheels": [
            {"name": wheel.name, "key": wheel.key, "path": str(wheel.path), "sha256": wheel.sha256, "hit": wheel.hit}
            for wheel in wheels
        ],
    }
