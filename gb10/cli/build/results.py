"""How plans and results are shown: tables for people, documents for scripts."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gb10.cli.common import print_json
from gb10.cli.receipt import Receipt, write_receipt
from gb10.core.reporter import Reporter
from gb10.image.build.image_build import Verified
from gb10.image.build.proving import Received, say_received
from gb10.image.build.wheels import Wheel
from gb10.image.proof.report import render_summary
from gb10.image.publish.publishing import Published


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


def print_image(reporter: Reporter, verified: Verified, published: Sequence[Published], *, as_json: bool) -> None:
    """Phases and summary on stderr, the digest and what was published on stdout."""
    if as_json:
        pushed = {"published": [asdict(one) for one in published]} if published else {}
        print_json(image_document(reporter, verified) | pushed)
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
