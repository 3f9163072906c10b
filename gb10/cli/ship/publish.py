"""``publish``: push a proven image."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.build.results import print_published
from gb10.cli.common import CompressionOption, JsonOption, print_json, verb_app, with_context, zstd_level
from gb10.containers.reference import split_reference
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.publish.publishing import publish as push_proven
from gb10.image.publish.retaining import Held, Rule
from gb10.image.publish.retaining import retain as retain_some

RETAIN: Final = re.compile(r"(\d{1,5})(d?)", re.ASCII)

app = verb_app("""Push an image that was proven here to one or more registries; any other image is refused.

\b
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm:stable other.example/vllm
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm --compression zstd
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm --sign ~/.ssh/id_ed25519
./build.py publish gb10/vllm:0.33.0-cu130-sm121f registry.example/gb10/vllm --retain 30d --host me@spark-1

A target without a tag gets both tags of the image: first the one with the plan's key, then the one that moves.
The registry gets only the layers that it lacks. Log in with `docker login`.

An SBOM (SPDX), SLSA provenance and what `verify` found are attached to the image in the registry, as OCI referrers:
`./build.py show REF --sbom` prints the SBOM. The same image gives the same documents. It needs skopeo, as zstd does.

A tag with a key is never moved: if the registry has another image there, nothing is pushed. --sign adds a signature by
your ssh key over the digest; `pull --require-signer` checks it.

--retain lists which older images of the repositories may go; --delete deletes them, with their documents and
signatures. An image stays that has another tag, that an index lists, or that a container on a --host uses.

The default compression is gzip. zstd layers are smaller and pull faster; the image and its config digest are the
same. Docker 23 or newer pulls them. zstd needs Docker 25 here, 12 MB of Debian packages (skopeo) once, and disk space
for the unpacked image, twice that with the embedded engine. If the registry has the image with zstd,
at any level, it is not sent again.
""")

SignOption = Annotated[
    Path | None,
    typer.Option("--sign", metavar="KEY", help="Sign by this ssh key, or its public key when ssh-agent has it."),
]
RetainOption = Annotated[
    str | None,
    typer.Option("--retain", metavar="N|DAYSd", help="List older images that may go: all but the newest N, or 30d."),
]
DeleteOption = Annotated[bool, typer.Option("--delete", help="Delete what --retain lists.")]
UsedOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="[USER@]NAME", help="With --retain: keep what containers here use. Repeatable."),
]


@app.command(help=app.info.help)
@with_context
def publish(
    *,
    ctx: Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A tag of an image that `image` built.")],
    targets: Annotated[list[str], typer.Argument(metavar="REF", help="REGISTRY/NAME[:TAG], one or more.")],
    compression: CompressionOption = None,
    sign: SignOption = None,
    retain: RetainOption = None,
    delete: DeleteOption = False,
    host: UsedOption = None,
    no_attest: Annotated[
        bool, typer.Option("--no-attest", help="Attach no SBOM, provenance and verification to the image.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Push a proven image."""
    zstd, rule = zstd_level(compression), rule_of(retain, delete=delete or bool(host))
    done = push_proven(ctx, image, targets, zstd, sign, attest=not no_attest)
    older: dict[str, tuple[Held, ...]] = {}  # what each repository that was published to holds, judged
    if rule:
        engine = ready_engine(ctx)
        for place in dict.fromkeys(split_reference(one.reference)[0] for one in done):
            older[place] = retain_some(ctx, engine, place, rule, host or (), delete=delete)
    if as_json:
        print_json(
            {
                "schema": "gb10/publish/v1",
                "published": [asdict(one) for one in done],
                "older": {place: [asdict(one) for one in found] for place, found in older.items()},
            }
        )
        return
    print_published(ctx.reporter, done)
    for place, found in older.items():
        print_older(ctx.reporter, place, found)


def rule_of(text: str | None, *, delete: bool) -> Rule | None:
    """``10`` or ``30d``; raises UsageError. Pure."""
    if text is None:
        if delete:
            raise UsageError("--delete and --host need --retain", hint="--retain 10, or --retain 30d")
        return None
    found = RETAIN.fullmatch(text)
    if found is None:
        raise UsageError(f"--retain takes a number of images or of days, not {text!r}", hint="--retain 10, or 30d")
    number = int(found[1])
    return Rule(age=timedelta(days=number)) if found[2] else Rule(number=number)


def print_older(reporter: Reporter, place: str, found: Sequence[Held]) -> None:
    """What stays and why on stderr, what may go or went on stdout."""
    for one in found:
        if one.why:
            reporter.say(f"{place}: {one.tags[0]} stays: {one.why}")
    going = [one for one in found if not one.why]
    size = f"{len(going)} of {len(found)} images"
    deleted = any(one.deleted for one in going)
    reporter.say(f"{place}: {size} deleted" if deleted else f"{place}: {size} may go" + (": --delete" if going else ""))
    for one in going:
        print(f"{'deleted' if one.deleted else 'may go'}  {place}:{one.tags[0]}@{one.digest}  {one.published}")
