"""The options of a load on an endpoint, as one plan."""

from typing import Annotated

import typer

from gb10.cli.verb import inject
from gb10.serving.load_generator.load_plan import Plan, Tool
from gb10.serving.load_generator.request_fields import request_fields

ConcurrencyOption = Annotated[
    list[int] | None,
    typer.Option(
        "--concurrency", "-c", metavar="N", min=1, max=512, help="Requests at once. Repeatable. Default: 1 4 8."
    ),
]
PromptOption = Annotated[int, typer.Option("--pp", metavar="TOKENS", min=1, help="Tokens of a prompt.")]
AnswerOption = Annotated[
    list[int] | None,
    typer.Option(
        "--tg",
        metavar="TOKENS",
        min=2,
        help="Most tokens of an answer. Repeatable (bench serve): a block of rows each. Default: 256.",
    ),
]
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
    typer.Option(
        "--extra-body",
        metavar="FIELD",
        help="Fields of every request: temperature=0, or a JSON object. Repeatable.",
    ),
]
NoThinkingOption = Annotated[
    bool,
    typer.Option(
        "--no-thinking",
        help='Send "chat_template_kwargs": {"enable_thinking": false} with each request.',
    ),
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
    tg: AnswerOption = None,
    depth: DepthOption = 0,
    runs: RunsOption = 3,
    warm_up: WarmUpOption = 1,
    exact_tg: ExactOption = False,
    no_thinking: NoThinkingOption = False,
    extra_body: ExtraOption = None,
    canary_tokens: CanaryTokensOption = 512,
    tool: ToolOption = "llama-benchy",
) -> Plan:
    """The plan of a command line. Raises UsageError."""
    return Plan(
        prompt=pp,
        answers=tuple(dict.fromkeys(tg or (256,))),
        depth=depth,
        concurrency=tuple(dict.fromkeys(concurrency or (1, 4, 8))),
        runs=runs,
        warm_up=warm_up,
        exact=exact_tg,
        canary_tokens=canary_tokens,
        extra=request_fields(extra_body or (), no_thinking=no_thinking, exact=exact_tg),
        tool=tool,
    )


plans = inject("plan", plan_from_options, first=True)
"""Adds the options before a verb's own; the verb gets its parameter ``plan``."""
