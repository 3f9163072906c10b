"""The options of a load on an endpoint, as one plan."""

from typing import Annotated

import typer

from gb10.cli.signature import inject
from gb10.serving.load.benchy import words
from gb10.serving.load.load_plan import Plan, Tool

ConcurrencyOption = Annotated[
    list[int] | None,
    typer.Option(
        "--concurrency", "-c", metavar="N", min=1, max=512, help="Requests at once. Repeatable. Default: 1 4 8."
    ),
]
PromptOption = Annotated[int, typer.Option("--pp", metavar="TOKENS", min=1, help="Tokens of a prompt.")]
AnswerOption = Annotated[int, typer.Option("--tg", metavar="TOKENS", min=2, help="Most tokens of an answer.")]
DepthOption = Annotated[
    int, typer.Option("--depth", metavar="TOKENS", min=0, help="Tokens of context before a prompt.")
]
RunsOption = Annotated[int, typer.Option("--runs", metavar="N", min=1, max=1000, help="Runs that count.")]
WarmUpOption = Annotated[
    int, typer.Option("--warm-up", metavar="N", min=0, max=100, help="Runs before them, shown apart.")
]
ExactOption = Annotated[
    bool, typer.Option("--exact-tg", help="Make every answer --tg tokens long (ignore_eos): for speed alone.")
]
ExtraOption = Annotated[
    list[str] | None,
    typer.Option("--extra-body", metavar="NAME=VALUE", help="A field of every request: temperature=0. Repeatable."),
]
CanaryTokensOption = Annotated[
    int,
    typer.Option("--canary-tokens", metavar="TOKENS", min=16, help="Most tokens of a canary's answer, with reasoning."),
]
ToolOption = Annotated[
    Tool,
    typer.Option("--tool", metavar="NAME", help="The load generator: llama-benchy, or aiperf when it is installed."),
]
BootOption = Annotated[
    str,
    typer.Option("--boot", metavar="NAME", help="Which launch of the server this is. Default: this machine's boot."),
]


def plan_from_options(
    *,
    concurrency: ConcurrencyOption = None,
    pp: PromptOption = 2048,
    tg: AnswerOption = 256,
    depth: DepthOption = 0,
    runs: RunsOption = 3,
    warm_up: WarmUpOption = 1,
    exact_tg: ExactOption = False,
    extra_body: ExtraOption = None,
    canary_tokens: CanaryTokensOption = 512,
    tool: ToolOption = "llama-benchy",
) -> Plan:
    """The plan of a command line. Raises UsageError."""
    return Plan(
        prompt=pp,
        answer=tg,
        depth=depth,
        concurrency=tuple(dict.fromkeys(concurrency or (1, 4, 8))),
        runs=runs,
        warm_up=warm_up,
        exact=exact_tg,
        canary_tokens=canary_tokens,
        extra=words(extra_body or ()),
        tool=tool,
    )


plans = inject("plan", plan_from_options, first=True)
"""Adds the options before a verb's own; the verb gets its parameter ``plan``."""
