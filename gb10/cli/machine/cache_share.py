"""``cache push`` and ``cache pull``: compiled wheels to and from a repository of the Hub."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.build.image_options import of_wheels, with_image_options
from gb10.cli.common import JsonOption, print_json, with_context
from gb10.core.config import variable
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.publish.sharing import Exchange, compiled_wheels, require_wheel_repository
from gb10.image.publish.sharing import pull as take
from gb10.image.publish.sharing import push as share
from gb10.image.request.planning import Request, make_plan

RepoArgument = Annotated[
    str | None,
    typer.Argument(metavar="OWNER/NAME", help="A model repository of the Hub. Default: the wheel-cache setting."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every compiled wheel, not only those of one plan.")]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The ssh key that signs, or its public key when ssh-agent has it."),
]


@with_image_options(of_wheels)
@with_context
def push(
    *,
    ctx: Context,
    asked: Request,
    repo: RepoArgument = None,
    every: AllOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Upload compiled wheels and a listing that your ssh key signs.

    \b
    ./build.py cache push me/gb10-wheels --key ~/.ssh/id_ed25519
    ./build.py cache push me/gb10-wheels --all            # not only the wheels of one plan

    Only missing wheels are sent. The token is HF_TOKEN, or the one of `hf auth login`. Your key, and the key that
    signed the present listing, must be in the file wheel-cache-signers (allowed_signers in man ssh-keygen).
    """
    found = key or ctx.env.get(variable("wheel-cache-key"))
    if not found:
        raise UsageError("cache push needs a key to sign with", hint="--key ~/.ssh/id_ed25519, or set wheel-cache-key")
    cache, signing = require_wheel_repository(ctx.env, repo), Path(found)
    _print(
        ctx.reporter,
        share(ctx, cache, compiled_wheels(ctx.store) if every else _wheels_of_plan(ctx, asked), signing),
        "push",
        as_json,
    )


@with_image_options(of_wheels)
@with_context
def pull(
    *,
    ctx: Context,
    asked: Request,
    repo: RepoArgument = None,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Download wheels with a trusted signature, and prove them again.

    \b
    ./build.py cache pull me/gb10-wheels                  # the wheels of vLLM for 12.1f
    ./build.py cache pull me/gb10-wheels --all

    The setting wheel-cache-signers names the trusted keys; the repository cannot. With wheel-cache set, too, `image`
    and `wheels` download missing wheels by themselves.
    """
    cache = require_wheel_repository(ctx.env, repo)
    _print(ctx.reporter, take(ctx, cache, None if every else _wheels_of_plan(ctx, asked)), "pull", as_json)


def _wheels_of_plan(ctx: Context, asked: Request) -> Mapping[str, str]:
    """The compiled wheels of a plan, by key."""
    return {step.key: step.name for step in make_plan(ctx, asked).of_kind("wheel")}


def _print(reporter: Reporter, done: Exchange, verb: str, as_json: bool) -> None:
    """The wheels on stdout, the number that moved on stderr."""
    if as_json:
        print_json({"schema": f"gb10/cache-{verb}/v1", **asdict(done)})
        return
    moved = [wheel for wheel in done.wheels if wheel.moved]
    way = "uploaded" if verb == "push" else "downloaded"
    size = sum(wheel.size for wheel in moved) / 1e6
    reporter.say(
        f"{done.repo}: {len(moved)} of {len(done.wheels)} wheels {way} ({size:,.1f} MB), "
        f"the others were present; commit {done.commit[:12]}"
    )
    for wheel in done.wheels:
        print(f"{wheel.key}  {wheel.file}")
