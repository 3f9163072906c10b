"""The rules that are computed: options against those of the release, sizes against each other, names against use."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gb10.lint.conditions import Found
from gb10.lint.engine_source import ENGINES
from gb10.lint.engine_words import declared, known_words, nearest
from gb10.lint.served import Served
from gb10.models.render.placeholders import NAMED

Check = Callable[[Served], Iterator[Found]]
PLAIN: Final = ("-h", "--help")
READ_BY_LAUNCHERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "port", "host", "served_model_name"),
    *("distributed_executor_backend", "enable_dp_attention", "model"),
)


def unknown_options(case: Served) -> Iterator[Found]:
    """Options that the release does not have; a mod may add one, so that a recipe with mods is left out."""
    words = known_words(case.engine or "", case.release)
    if words is None or case.recipe.mods:
        return
    for name in case.options:
        written = case.spelled[name]
        if written not in PLAIN and declared(words, written) is None and declared(words, name) is None:
            close = nearest(name, words.options)
            yield Found(line=case.line_of(name), value=written, name=f"; did you mean {close}?" if close else "")


def wrong_choices(case: Served) -> Iterator[Found]:
    """Values that an option of the release does not take."""
    words = known_words(case.engine or "", case.release)
    for name, values in case.options.items() if words else ():
        choices = {_folded(one) for one in words.options.get(declared(words, name) or "", ())} if words else set()
        for value in values if choices else ():
            if value and _folded(value) not in choices:
                yield Found(line=case.line_of(name), value=value, name=name)


def unknown_json_keys(case: Served) -> Iterator[Found]:
    """Keys of a JSON value that the release's config class does not have."""
    words = known_words(case.engine or "", case.release)
    for name, values in case.options.items() if words else ():
        known = words.keys.get(name, ()) if words else ()
        for key in (key for value in values for key in _json_keys(value)) if known else ():
            if key not in known:
                yield Found(line=case.line_of(name), value=key, name=name)


def unknown_environment(case: Served) -> Iterator[Found]:
    """Variables of the engine's name that the release does not read."""
    words = known_words(case.engine or "", case.release)
    for name in case.recipe.env if words else ():
        if words and name.startswith(ENGINES[case.engine or ""]) and name not in words.environment:
            yield Found(line=case.recipe.line("env", name), value=str(case.recipe.env[name]), name=name)


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


def small_graphs_of_sglang(case: Served) -> Iterator[Found]:
    """SGLang with NVFP4: the largest graph is smaller than the largest batch."""
    size, batch = case.number("--cuda-graph-max-bs"), case.number("--max-running-requests")
    if size is not None and batch is not None and size < batch and "nvfp4" in (case.recipe.model or "").lower():
        yield _sized(case, "--cuda-graph-max-bs", size, batch)


def parallel_sizes(case: Served) -> Iterator[Found]:
    """GPUs of the command against the nodes that the recipe allows, one GPU a node."""
    world = 1.0
    for kind in ("tensor", "pipeline", "data"):
        size = case.number(f"--{kind}-parallel-size")
        world *= size if size and size > 0 else 1
    most = 1 if case.recipe.values.get("solo_only") else case.recipe.values.get("max_nodes")
    if isinstance(most, int) and world > most and case.engine != "sglang":
        line = case.recipe.line("solo_only") or case.recipe.line("max_nodes")
        yield Found(line=line, value=f"{world:.0f}", name=f"the recipe allows {most}")


def unused_defaults(case: Served) -> Iterator[Found]:
    """Defaults that the command does not name; sparkrun reads some itself, and needs no command."""
    texts = [case.recipe.command or "", *(str(value) for value in case.recipe.defaults.values())]
    used = {name for text in texts for name in NAMED.findall(text)}
    for name in case.recipe.defaults if case.recipe.command and case.engine else ():
        if name not in used and name not in READ_BY_LAUNCHERS:
            yield Found(line=case.recipe.line("defaults", name), value=name)


def other_models(case: Served) -> Iterator[Found]:
    """A model behind ``vllm serve`` or ``--model`` that is not the recipe's."""
    named = [*case.options.get("--model", ()), *case.options.get("--model-path", ()), *case.first]
    own = case.recipe.model
    for name in named[:1]:
        if own and name and name != own and "{" not in name and not name.startswith(("/", "$", ".")):
            yield Found(line=case.recipe.line("command"), value=name, name=own)


CHECKS: Final[Mapping[str, Check]] = {
    "unknown-option": unknown_options,
    "wrong-choice": wrong_choices,
    "unknown-json-key": unknown_json_keys,
    "unknown-environment": unknown_environment,
    "graph-smaller-than-batch": small_graphs,
    "graph-without-drafts": graphs_without_drafts,
    "nvfp4-graph-batch": small_graphs_of_sglang,
    "parallel-sizes": parallel_sizes,
    "unused-default": unused_defaults,
    "other-model-served": other_models,
}
"""By the code of the rule."""


def _sized(case: Served, option: str, size: float, wanted: float) -> Found:
    return Found(line=case.line_of(option), value=f"{size:.0f}", name=f"{wanted:.0f}")


def _drafts(case: Served) -> int:
    """The speculative tokens of a step."""
    for value in case.options.get("--speculative-config", ()):
        found = _json(value).get("num_speculative_tokens")
        if isinstance(found, int) and 0 < found < 1000:
            return found
    return int(case.number("--spec-tokens") or 0)


def _json(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _json_keys(text: str) -> list[str]:
    return sorted(_json(text))


def _folded(value: str) -> str:
    return value.strip().lower().replace("_", "-")
