"""A load by llama-benchy: canaries beside its warm-up, ended when a stream collapses."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from gb10.errors import VerifyError
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.benchy import Shape, run
from gb10.serving.load_generator.canary_batch import CanaryBatch
from gb10.serving.load_generator.load_plan import Bench
from gb10.serving.load_generator.load_progress import Progress
from gb10.serving.load_generator.results import LoadResult

BESIDE: Final = 2
"""Canaries that are sent with the requests of each warm-up run: its figures do not count."""


class _CollapsedError(Exception):
    """A stream of the load collapsed: the rest of the load would measure nothing."""


def benchy_load(bench: Bench, shape: Shape) -> LoadResult:
    """Run llama-benchy on one level."""
    plan, progress = bench.plan, Progress(bench.limits, forced=bench.plan.exact)
    log = bench.log(shape)
    own: Mapping[str, object] = {}
    broken = ""
    with ThreadPoolExecutor(1) as pool:
        canary_futures: list[Future[CanaryBatch]] = []

        def beside(number: int) -> None:
            canaries = bench.canaries(BESIDE, f"{shape.answer} {shape.concurrency} beside {number}")
            canary_futures.append(pool.submit(bench.ask, canaries, "beside"))

        try:
            own = run(
                bench.host,
                bench.endpoint,
                shape,
                tokenizer=bench.tokenizer,
                book=bench.book,
                log=log,
                on_line=_taking(bench, progress, beside),
            )
        except _CollapsedError:
            bench.host.reporter.say(f"a stream collapsed, so the load was stopped: {log}")
        except VerifyError as error:
            broken = f"{error.message}: {error.where}"
        return LoadResult(
            runs=lambda right: tuple(progress.runs(plan.warm_up, canaries_right=right)),
            own=own,
            broken=broken,
            beside=tuple(one.result() for one in canary_futures),
            sure=progress.sure,
        )


def _taking(bench: Bench, progress: Progress, beside: Callable[[int], None]) -> Callable[[str], None]:
    """Takes the lines of llama-benchy; sends canaries beside each warm-up run; ends it when a stream collapses."""
    begun = -1

    def take(line: str) -> None:
        nonlocal begun
        if not line.startswith("{"):
            bench.host.reporter.detail(line)
        progress.feed(line)
        if begun < progress.run < bench.plan.warm_up:
            begun = progress.run
            beside(begun)
        if progress.sure is not None and progress.sure.verdict is Verdict.GARBAGE:
            raise _CollapsedError

    return take
