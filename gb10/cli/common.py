"""Options that several verbs share, and how results are printed."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from gb10.engine.buildx.cache_options import check_cache
from gb10.errors import UsageError
from gb10.workshop import Workshop, open_workshop

ZSTD = re.compile(r"zstd(?::([1-9]|1[0-9]|20))?")
ZSTD_LEVEL = 3
BUILDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

EngineOption = Annotated[str, typer.Option("--engine", help="Serving engine, or an image recipe file.")]
ArchOption = Annotated[str, typer.Option("--arch", help="GPU target: 12.1f, 12.1a, 12.1, 12.0f, 12.0a, 12.0.")]
RebuildOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rebuild",
        metavar="NAME",
        help="Compile the wheels of this source again, even on a cache hit; repeatable.\n"
        "A source, a wheel, or kernels (our own). `--rebuild-NAME` is the same.",
    ),
]
BuilderOption = Annotated[
    str | None,
    typer.Option(
        "--builder", metavar="NAME", help="Builder of `docker buildx ls` that builds; remote and Kubernetes, too."
    ),
]
CacheFromOption = Annotated[
    list[str] | None,
    typer.Option("--cache-from", metavar="CACHE", help="Build cache to read, as buildx takes it; repeatable."),
]
CacheToOption = Annotated[
    list[str] | None,
    typer.Option("--cache-to", metavar="CACHE", help="Build cache to write: type=registry,ref=…,mode=max; repeatable."),
]
PushOption = Annotated[
    list[str] | None,
    typer.Option("--push", metavar="REF", help="Publish the proven image there, as `publish` does; repeatable."),
]
CompressionOption = Annotated[
    str | None,
    typer.Option(
        "--compression",
        metavar="zstd[:LEVEL]",
        help="Compress pushed layers by zstd, 1 to 20; else by the engine: gzip.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop: the same code as `plan`.")]
VerboseOption = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say more.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]


def verb_app(help_text: str, *, group: bool = False) -> typer.Typer:
    """A Typer for one verb; a group's own verbs follow it, and alone it shows its help."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=group,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=SETTINGS,
    )


def workshop(
    verbose: int = 0,
    quiet: bool = False,
    builder: str | None = None,
    cache_from: Sequence[str] | None = None,
    cache_to: Sequence[str] | None = None,
) -> Workshop:
    """The workshop with the user's environment and verbosity; raises UsageError for what is no builder, no cache."""
    if builder is not None and BUILDER.fullmatch(builder) is None:
        raise UsageError(f"{builder!r} is no name of a builder", hint="docker buildx ls lists yours")
    opened = open_workshop(os.environ, verbosity=-1 if quiet else min(verbose, 1))
    return replace(
        opened,
        builder=builder,
        cache_from=tuple(check_cache("from", cache) for cache in cache_from or ()),
        cache_to=tuple(check_cache("to", cache) for cache in cache_to or ()),
    )


def zstd_level(compression: str | None) -> int | None:
    """The level of ``zstd[:LEVEL]``; raises UsageError for anything else. Pure."""
    if compression is None:
        return None
    found = ZSTD.fullmatch(compression)
    if found is None:
        raise UsageError(f"--compression {compression!r} is not known", hint="zstd, or zstd:1 to zstd:20")
    return int(found[1] or ZSTD_LEVEL)


def print_json(document: object) -> None:
    """One document on stdout."""
    print(json.dumps(document, indent=2, ensure_ascii=False))
