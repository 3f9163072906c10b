"""Options that several verbs share, and how results are printed.

Every verb has them in this order: what to build, how, then --dry-run, --json, -v and -q.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from gb10.cli import tell
from gb10.cli.verb import (
    AllowUncheckedOption,
    JsonOption,
    QuietOption,
    VerboseOption,
    inject,
    print_json,
    verb_app,
    verbosity_of,
)
from gb10.errors import Gb10Error, UsageError
from gb10.image.context import Context, open_context

__all__ = ["AllowUncheckedOption", "JsonOption", "QuietOption", "VerboseOption", "print_json", "verb_app"]

ZSTD = re.compile(r"zstd(?::([1-9]|1[0-9]|20))?")
ZSTD_LEVEL = 3
BUILDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

RebuildOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rebuild",
        metavar="NAME",
        help="Compile the wheels of this source again, even on a cache hit. Repeatable.\n"
        "NAME: a source, a wheel, or kernels (our own). `--rebuild-NAME` is the same.",
    ),
]
BuilderOption = Annotated[
    str | None,
    typer.Option(
        "--builder", metavar="NAME", help="Build on this builder of `docker buildx ls`, remote or Kubernetes."
    ),
]
CacheFromOption = Annotated[
    list[str] | None,
    typer.Option("--cache-from", metavar="CACHE", help="Build cache to read, in the syntax of buildx. Repeatable."),
]
CacheToOption = Annotated[
    list[str] | None,
    typer.Option("--cache-to", metavar="CACHE", help="Build cache to write: type=registry,ref=…,mode=max. Repeatable."),
]
PushOption = Annotated[
    list[str] | None,
    typer.Option(
        "--push", metavar="REF", help="Push the proven image to this registry, as `publish` does. Repeatable."
    ),
]
CompressionOption = Annotated[
    str | None,
    typer.Option(
        "--compression",
        metavar="zstd[:LEVEL]",
        help="Compress pushed layers by zstd, level 1 to 20. Default: gzip.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan, build nothing; the same as `plan`.")]


def command_context(*, verbose: VerboseOption = 0, quiet: QuietOption = False) -> Context:
    """The context with the user's environment and verbosity."""
    return open_context(os.environ, verbosity=verbosity_of(verbose, quiet=quiet))


with_context = inject("ctx", command_context, first=False)
"""Adds -v and -q after a verb's own options; the verb gets the context as its parameter ``ctx``."""


def building(
    ctx: Context,
    builder: str | None,
    cache_from: Sequence[str] | None = None,
    cache_to: Sequence[str] | None = None,
) -> Context:
    """The context with a builder and build caches; raises UsageError for a wrong name or syntax."""
    if builder is not None and BUILDER.fullmatch(builder) is None:
        raise UsageError(f"not a builder name: {builder!r}", hint="docker buildx ls lists your builders")
    if not (cache_from or cache_to):
        return replace(ctx, builder=builder)
    from gb10.containers.buildx.build_cache import check_cache  # noqa: PLC0415 - for a build cache

    return replace(
        ctx,
        builder=builder,
        cache_from=tuple(check_cache("from", cache) for cache in cache_from or ()),
        cache_to=tuple(check_cache("to", cache) for cache in cache_to or ()),
    )


def zstd_level(compression: str | None, *, pushed: bool = True) -> int | None:
    """The level of ``zstd[:LEVEL]``. Raises UsageError for anything else, and when nothing is pushed. Pure."""
    if compression is None:
        return None
    if not pushed:
        raise UsageError("--compression needs --push", hint="name the registry: --push REGISTRY/NAME")
    found = ZSTD.fullmatch(compression)
    if found is None:
        raise UsageError(f"unknown compression {compression!r}", hint="write zstd, or zstd:1 to zstd:20")
    return int(found[1] or ZSTD_LEVEL)


@contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """For checks after the result is printed: with ``--json`` the document already has the problem."""
    try:
        yield
    except Gb10Error as error:
        if not as_json:
            raise
        raise typer.Exit(tell(error, as_json=False)) from error
