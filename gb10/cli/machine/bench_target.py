"""Which model an endpoint serves, and what prompts are made of: options that several benchmarks share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.verb import inject
from gb10.image.context import Context
from gb10.serving.benchmark.measuring import Measure
from gb10.serving.load_generator.benchy import find_book
from gb10.serving.load_generator.load_plan import Plan
from gb10.serving.load_generator.quality import Exam, installed

ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="As the endpoint names it. Default: the only one it has.")
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="PATH", help="The model's tokenizer.json or its folder. Default: the Hub's cache."
    ),
]
BookOption = Annotated[
    Path | None, typer.Option("--book", metavar="FILE", help="Text that prompts are cut from. Default: see above.")
]
QualityOption = Annotated[
    bool,
    typer.Option("--quality", help="Ask questions after each load, as bench quality does; else canaries alone judge."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is measured, apart from the load."""

    model: str | None
    tokenizer: Path | None
    book: Path | None
    quality: bool = False

    def measure(self, ctx: Context, plan: Plan) -> Measure:
        """How each launch is measured. Raises UsageError."""
        book = find_book(self.book, ctx.env)
        return Measure(plan=plan, model=self.model, tokenizer=self.tokenizer, book=book, exam=self._exam(ctx))

    def _exam(self, ctx: Context) -> Exam | None:
        """What a judge that is installed asks; None when none is, or none was asked for."""
        judge = installed(ctx.env) if self.quality else "canaries"
        if self.quality and judge == "canaries":
            ctx.reporter.say("neither tool-eval-bench nor lm-eval is installed: canaries judge the answers")
        return Exam(judge=judge) if judge != "canaries" else None


def target_of(*, model: ModelOption = None, tokenizer: TokenizerOption = None, book: BookOption = None) -> Target:
    """What a command line names."""
    return Target(model=model, tokenizer=tokenizer, book=book)


def judged_target_of(
    *,
    model: ModelOption = None,
    tokenizer: TokenizerOption = None,
    book: BookOption = None,
    quality: QualityOption = False,
) -> Target:
    """What a command line names, with questions."""
    return Target(model=model, tokenizer=tokenizer, book=book, quality=quality)


targets = inject("target", target_of, first=True)
judged_targets = inject("target", judged_target_of, first=True)
"""They add their options before a verb's own; the verb gets its parameter ``target``."""
