"""What a benchmark measures, and what it needs: the plan of a command line, its tokenizer, its book, the guard."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.serving.guard.canary import Canary, make_canaries
from gb10.serving.guard.limits import Limits
from gb10.serving.load_generator.aiperf import check_extra, find_aiperf
from gb10.serving.load_generator.benchy import Book, Shape, install
from gb10.serving.load_generator.canary_batch import CanaryBatch, ask_canaries, guard_facts, guard_limits
from gb10.serving.load_generator.endpoint import Endpoint

Tool = Literal["llama-benchy", "aiperf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure: tokens, requests at once, runs."""

    prompt: int
    answers: tuple[int, ...]
    """Most tokens of an answer: every length is measured at all numbers of requests."""
    depth: int
    concurrency: tuple[int, ...]
    runs: int
    warm_up: int
    exact: bool
    canary_tokens: int
    extra: Mapping[str, object]
    boot: str = ""
    tool: Tool = "llama-benchy"

    @property
    def document(self) -> dict[str, object]:
        """All of it that decides a figure."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("answers", "boot")}
        answer = self.answers[0] if len(self.answers) == 1 else list(self.answers)
        return {**own, "answer": answer, "concurrency": list(self.concurrency), "extra": dict(self.extra)}

    @property
    def shapes(self) -> Iterator[Shape]:
        """Every level, one answer length after the other."""
        return (self._shape(answer, concurrency) for answer in self.answers for concurrency in self.concurrency)

    def _shape(self, answer: int, concurrency: int) -> Shape:
        return Shape(
            prompt=self.prompt,
            answer=answer,
            depth=self.depth,
            concurrency=concurrency,
            runs=self.runs + self.warm_up,
            exact=self.exact,
            extra=self.extra,
        )

    def of_one_length(self, what: str) -> "Plan":
        """Itself. Raises UsageError when it has several answer lengths: ``what`` cannot take them."""
        if len(self.answers) > 1:
            raise UsageError(
                f"{what} takes one answer length, and --tg gives {len(self.answers)}",
                hint="bench serve measures several; here run one after the other",
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A plan with what it needs."""

    host: Host
    endpoint: Endpoint
    plan: Plan
    tokenizer: Path
    book: Book
    limits: Limits
    run_id: str

    def log(self, shape: Shape) -> Path:
        """Where a load's own lines go."""
        return self.host.store.root / f"logs/load-{self.run_id}-{shape.answer}-{shape.concurrency}.log"

    def canaries(self, count: int, when: str) -> tuple[Canary, ...]:
        """New ones for one batch."""
        return make_canaries(count, guard_facts(), f"{self.run_id} {when}")

    def ask(self, canaries: Sequence[Canary], when: str) -> CanaryBatch:
        """Send them at once."""
        return ask_canaries(
            self.endpoint,
            canaries,
            self.host.env,
            self.limits,
            max_tokens=self.plan.canary_tokens,
            extra=self.plan.extra,
            when=when,
        )


def make_bench(host: Host, endpoint: Endpoint, plan: Plan, tokenizer: Path, book: Book) -> Bench:
    """A bench with a name of its own; installs llama-benchy, or finds aiperf. Raises FetchError, UsageError."""
    if plan.tool == "aiperf":
        check_extra(plan.extra)
        find_aiperf(host.env)
    else:
        install(host)
    return Bench(
        host=host,
        endpoint=endpoint,
        plan=plan,
        tokenizer=tokenizer,
        book=book,
        limits=guard_limits(),
        run_id=uuid.uuid4().hex,
    )
