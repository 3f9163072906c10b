"""How plans and results are shown: tables for people, documents for scripts."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.table import Table

from gb10.build.estimate import step_seconds
from gb10.build.image_build import Verified
from gb10.build.obstacles import obstacles
from gb10.build.survey import Survey
from gb10.build.wheel_build import Wheel
from gb10.cli.common import print_json
from gb10.cli.receipt import Receipt, write_receipt
from gb10.host.talk import Talk, terminal
from gb10.plan.values import Plan, Step
from gb10.proof.report import render_summary
from gb10.ship.publishing import Published
from gb10.ship.shelf import wheel_cache
from gb10.workshop import Workshop

NAMES = 3
"""Wheels of a layer that the plan names."""


def print_plan(shop: Workshop, plan: Plan, found: Survey, push: Sequence[str] = (), *, as_json: bool) -> None:
    """The plan with hit and miss, what the missing steps need, and the names that would be pushed."""
    problems = obstacles(shop, plan, found.there)
    if as_json:
        present = {"hit": {step.name: found.there[step.name] for step in plan.steps}, "needs": asdict(found.needs)}
        stop = {"problem": "; ".join(problems)} if problems else {}
        print_json(plan.document() | present | ({"push": list(push)} if push else {}) | stop)
        return
    terminal(shop.env, stderr=False).print(_plan_table(shop, plan, found))
    needed, hits = found.needs, sum(found.there[step.name] for step in plan.steps)
    print(f"{len(plan.steps)} steps: {hits} cached, {len(plan.steps) - hits} to run")
    print(
        f"to download {needed.download / 1e6:,.0f} MB; disk {needed.disk / 1e9:.1f} GB, "
        f"memory {needed.memory / 1e9:.1f} GB for the largest unit; about {needed.seconds / 60:.0f} min"
    )
    for name in push:
        print(f"to push {name}")
    cache = wheel_cache(shop.env)
    if cache and not all(found.there[step.name] for step in plan.of_kind("wheel")):
        print(f"a build first looks for missing wheels in {cache.repo}; this plan does not")
    for problem in problems:
        print(f"{'`image`' if plan.of_kind('image') else 'this build'} would stop: {problem}")


def _plan_table(shop: Workshop, plan: Plan, found: Survey) -> Table:
    """A row per step."""
    table = Table(title=f"{plan.tags[0]}  {plan.options.platform}", title_justify="left", box=None, pad_edge=False)
    for name in ("step", "key", "", "files", "MB", "about s", "what"):
        table.add_column(
            name, justify="right" if name in ("files", "MB", "about s") else "left", no_wrap=name != "what"
        )
    for step in plan.steps:
        hit = found.there[step.name]
        seconds = "" if hit else f"{step_seconds(shop, plan, step):.0f}"
        size = f"{step.download / 1e6:,.0f}" if step.files else ""
        files = str(len(step.files) or "")
        table.add_row(step.name, step.key[:12], "hit" if hit else "miss", files, size, seconds, _about(step))
    return table


def _about(step: Step) -> str:
    """What a step is; for a layer of wheels their number and the first names."""
    if step.kind != "layer" or not step.files:
        return step.about
    names = ", ".join(file.filename.partition("-")[0] for file in step.files[:NAMES])
    count = f"{len(step.files)} wheels" if len(step.files) > 1 else "1 wheel"
    return f"{count}: {names}{', …' if len(step.files) > NAMES else ''}"


def image_document(talk: Talk, verified: Verified) -> dict[str, object]:
    """The result of ``image`` as data."""
    return {
        "schema": "gb10/image/v1",
        "digest": verified.digest,
        "tags": list(verified.tags),
        "size": verified.size,
        "layers": verified.layers,
        "hit": verified.hit,
        "gpu_code": {str(fit): count for fit, count in verified.verdict.counts.items()},
        "timings": [asdict(timing) for timing in talk.timings],
    }


def print_image(talk: Talk, verified: Verified, published: Sequence[Published], *, as_json: bool) -> None:
    """Phases and summary on stderr, the digest and what was published on stdout."""
    if as_json:
        pushed = {"published": [asdict(one) for one in published]} if published else {}
        print_json(image_document(talk, verified) | pushed)
        return
    for timing in talk.timings:
        talk.say(f"  {timing.name:28} {'hit' if timing.hit else f'{timing.seconds:.1f} s'}")
    for line in summary(verified):
        talk.say(line)
    print(verified.digest)
    print_published(talk, published)


def print_published(talk: Talk, published: Sequence[Published]) -> None:
    """Layers and bytes on stderr, each reference with its manifest's digest on stdout."""
    for one in published:
        talk.say(f"{one.reference}: {one.moved} layers pushed ({one.bytes / 1e6:,.1f} MB), {one.there} present")
        print(f"{one.reference}@{one.digest}")


def summary(verified: Verified) -> list[str]:
    """What the image holds, its size and its tags."""
    state = "unchanged" if verified.hit else "built"
    size = f"{state}: {verified.size / 1e9:.2f} GB in {verified.layers} layers"
    return [*str(render_summary(verified.verdict)).splitlines(), size, *(f"  {tag}" for tag in verified.tags)]


def keep_receipt(talk: Talk, path: Path, verified: Verified) -> None:
    """Keep the result that the same command prints while nothing changes."""
    same = replace(verified, hit=True)
    document = {**image_document(talk, same), "timings": []}
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
