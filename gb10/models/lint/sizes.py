"""The computed rules about sizes: graphs against batches, GPUs against nodes."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Final

from gb10.models.lint.conditions import Found
from gb10.models.lint.option_numbers import vllm_drafts
from gb10.models.lint.served import Served


def small_graphs(case: Served) -> Iterator[Found]:
    """vLLM: the largest graph is smaller than the largest batch."""
    size, batch = case.number("--max-cudagraph-capture-size"), case.number("--max-num-seqs")
    if size is not None and batch is not None and size < batch:
        yield _sized(case, "--max-cudagraph-capture-size", size, batch * (1 + _drafts(case)))


def graphs_without_drafts(case: Served) -> Iterator[Found]:
    """vLLM: the largest graph holds the largest batch, but not with its speculative tokens."""
    size, batch = case.number("--max-cudagraph-capture-size"), case.number("--max-num-seqs")
    if size is None or batch is None or size < batch or not _drafts(case):
        return
    wanted = batch * (1 + _drafts(case))
    if size < wanted:
        yield _sized(case, "--max-cudagraph-capture-size", size, wanted)


def graphs_between_steps(case: Served) -> Iterator[Found]:
    """vLLM: a step with drafts has a multiple of 1 + drafts tokens; the largest graph is none."""
    size, step = case.number("--max-cudagraph-capture-size"), 1 + _drafts(case)
    if size is not None and step > 1 and size % step:
        yield Found(line=case.line_of("--max-cudagraph-capture-size"), value=f"{size:.0f}", name=f"{step}")


def parallel_sizes(case: Served) -> Iterator[Found]:
    """GPUs of the command against the nodes that the recipe allows, one GPU a node."""
    kinds = ("tensor", "pipeline") if "--enable-dp-attention" in case.options else ("tensor", "pipeline", "data")
    sizes = [case.number(f"--{kind}-parallel-size") for kind in kinds]
    world = prod(size for size in sizes if size and size > 0)
    values = case.recipe.values
    most = 1 if values.get("solo_only") or values.get("mode") == "solo" else values.get("max_nodes")
    least = values.get("min_nodes") or (2 if values.get("cluster_only") else 1)
    if isinstance(most, int) and world > most:
        line = case.recipe.line("solo_only") or case.recipe.line("max_nodes")
        yield Found(line=line, value=f"{world:.0f}", name=f"the recipe allows {most}")
    elif isinstance(least, int) and world < least and any(sizes):
        line = case.recipe.line("min_nodes") or case.recipe.line("cluster_only")
        yield Found(line=line, value=f"{world:.0f}", name=f"the recipe asks for {least} nodes")


def _sized(case: Served, option: str, size: float, wanted: float) -> Found:
    return Found(line=case.line_of(option), value=f"{size:.0f}", name=f"{wanted:.0f}")


def _drafts(case: Served) -> int:
    """The speculative tokens of a step."""
    found = vllm_drafts(case.options)
    return found.tokens if found else 0


SIZES: Final[Mapping[str, Callable[[Served], Iterator[Found]]]] = {
    "graph-smaller-than-batch": small_graphs,
    "graph-without-drafts": graphs_without_drafts,
    "graph-not-a-multiple": graphs_between_steps,
    "parallel-sizes": parallel_sizes,
}
"""By the code of the rule."""
