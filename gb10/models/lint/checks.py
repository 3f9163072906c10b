"""The rules that are computed: options against those of the release, names against their use."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Final

from gb10.errors import UsageError
from gb10.models.issue import Level
from gb10.models.lint.engine_words import ENGINES, EngineWords, declared, known_words, nearest
from gb10.models.lint.fit import launch_of_case
from gb10.models.lint.rule import Finding
from gb10.models.lint.served import LintCase, json_object, vllm_drafts
from gb10.models.lint.sglang_rules import SGLANG, fp8_experts
from gb10.models.load.model_recipe import Step, own_section
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.estimating import estimate
from gb10.models.memory.figures import load_figures
from gb10.models.memory.model import known_config, known_model
from gb10.models.render.placeholders import NAMED
from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH


def small_graphs(case: LintCase) -> Iterator[Finding]:
    """vLLM: the largest graph is smaller than the largest batch."""
    size, batch = case.number("--max-cudagraph-capture-size"), case.number("--max-num-seqs")
    if size is not None and batch is not None and size < batch:
        yield _sized(case, "--max-cudagraph-capture-size", size, batch * (1 + _drafts(case)))


def graphs_without_drafts(case: LintCase) -> Iterator[Finding]:
    """vLLM: the largest graph holds the largest batch, but not with its speculative tokens."""
    size, batch = case.number("--max-cudagraph-capture-size"), case.number("--max-num-seqs")
    if size is None or batch is None or size < batch or not _drafts(case):
        return
    wanted = batch * (1 + _drafts(case))
    if size < wanted:
        yield _sized(case, "--max-cudagraph-capture-size", size, wanted)


def graphs_between_steps(case: LintCase) -> Iterator[Finding]:
    """vLLM: a step with drafts has a multiple of 1 + drafts tokens; the largest graph is none."""
    size, step = case.number("--max-cudagraph-capture-size"), 1 + _drafts(case)
    if size is not None and step > 1 and size % step:
        yield Finding(line=case.line_of("--max-cudagraph-capture-size"), value=f"{size:.0f}", name=f"{step}")


def parallel_sizes(case: LintCase) -> Iterator[Finding]:
    """GPUs of the command against the nodes that the recipe allows, one GPU a node."""
    kinds = ("tensor", "pipeline") if "--enable-dp-attention" in case.options else ("tensor", "pipeline", "data")
    sizes = [case.number(f"--{kind}-parallel-size") for kind in kinds]
    world = prod(size for size in sizes if size and size > 0)
    values = case.recipe.values
    most = 1 if values.get("solo_only") or values.get("mode") == "solo" else values.get("max_nodes")
    least = values.get("min_nodes") or (2 if values.get("cluster_only") else 1)
    if isinstance(most, int) and world > most:
        line = case.recipe.line("solo_only") or case.recipe.line("max_nodes")
        yield Finding(line=line, value=f"{world:.0f}", name=f"the recipe allows {most}")
    elif isinstance(least, int) and world < least and any(sizes):
        line = case.recipe.line("min_nodes") or case.recipe.line("cluster_only")
        yield Finding(line=line, value=f"{world:.0f}", name=f"the recipe asks for {least} nodes")


def _sized(case: LintCase, option: str, size: float, wanted: float) -> Finding:
    return Finding(line=case.line_of(option), value=f"{size:.0f}", name=f"{wanted:.0f}")


def _drafts(case: LintCase) -> int:
    """The speculative tokens of a step."""
    found = vllm_drafts(case.options)
    return found.tokens if found else 0


SIZES: Final[Mapping[str, Callable[[LintCase], Iterator[Finding]]]] = {
    "graph-smaller-than-batch": small_graphs,
    "graph-without-drafts": graphs_without_drafts,
    "graph-not-a-multiple": graphs_between_steps,
    "parallel-sizes": parallel_sizes,
}
"""By the code of the rule."""


TEMPLATE: Final = re.compile(r"(?![/$~{]|[a-z]+:)[^{}]*[.]jinja2?")
"""A file's path that begins in the server's working directory."""
SECRET: Final = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{20,}|glpat-[\w-]{20,})")
QUOTE: Final = re.compile(r'(?<!\\)(?:\\\\)*"')
BLANK: Final = re.compile(r"\\[ \t]+$", re.MULTILINE)
DEEPEST: Final = 12
ELSEWHERE: Final = ("env", "command")
"""Sections with a rule of their own."""


def missing_templates(case: LintCase) -> Iterator[Finding]:
    """A chat template by a relative path: only a mod, or the image itself, can bring it."""
    own = "vllm-openai" in (case.recipe.container or "")  # that image has vLLM's examples in its working directory
    for value in () if case.recipe.mods else case.options.get("--chat-template", ()):
        if TEMPLATE.fullmatch(value) and not (own and value.startswith("examples/")):
            yield Finding(line=case.line_of("--chat-template"), value=value)


def secrets(case: LintCase) -> Iterator[Finding]:
    """A token anywhere but in ``env`` and ``command``."""
    for key, value in case.recipe.values.items():
        if key not in ELSEWHERE:
            yield from _secrets(case, value, (str(key),))


def _secrets(case: LintCase, value: object, at: tuple[Step, ...]) -> Iterator[Finding]:
    if isinstance(value, str) and SECRET.search(value):
        yield Finding(line=case.recipe.line(*at), value="", name=".".join(map(str, at)))
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for step, one in below if len(at) < DEEPEST else ():
        yield from _secrets(case, one, (*at, step if isinstance(step, int) else str(step)))


def quotes(case: LintCase) -> Iterator[Finding]:
    """A quotation mark in a variable of version 1."""
    for name, value in case.recipe.env.items() if case.recipe.format == "v1" else ():
        if QUOTE.search(str(value)):
            yield Finding(line=case.recipe.line("env", name), value=str(value), name=name)


def blanks(case: LintCase) -> Iterator[Finding]:
    """Blanks behind a backslash, in the command of version 1."""
    command = case.recipe.command or ""
    found = BLANK.search(command) if case.recipe.format == "v1" else None
    if found and found.end() < len(command.rstrip()):
        yield Finding(line=case.recipe.text_line(("command",), found.start()), value=found[0])


WRITTEN: Final[Mapping[str, Callable[[LintCase], Iterator[Finding]]]] = {
    "chat-template-missing": missing_templates,
    "secret-in-file": secrets,
    "quote-in-env": quotes,
    "blank-after-backslash": blanks,
}
"""By the code of the rule."""


Check = Callable[[LintCase], Iterator[Finding]]
PLAIN: Final = ("-h", "--help")
SHOWN: Final = 2
"""Names in one finding."""
EXPERTS: Final = re.compile(r"-a\d+b|moe|mixtral|gpt-oss|deepseek-(v|r)\d", re.IGNORECASE)
"""Names of models with experts, where no config is known."""
TENSORRT_FILES: Final = ("--extra-llm-api-options", "--config")
READ_BY_LAUNCHERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "port", "host", "served_model_name"),
    *("distributed_executor_backend", "enable_dp_attention", "model"),
)


def _words(case: LintCase) -> EngineWords | None:
    """The words of the release; None where none is known."""
    return None if case.unknown else known_words(case.engine or "", case.release)


def unknown_options(case: LintCase) -> Iterator[Finding]:
    """Options that neither the release nor a mod of ours has. A mod of others may add one: then it is a warning."""
    words = _words(case)
    for name in case.options if words else ():
        written = case.spelled[name]
        known = {*PLAIN, *case.added}
        if words and not {written, name} & known and not any(declared(words, one) for one in (written, name)):
            close = nearest(name, words.options)
            guess = f"; did you mean {close}?" if close else ""
            level: Level | None = "warning" if case.foreign else None
            yield Finding(line=case.line_of(name), value=written, name=guess, level=level)


def wrong_choices(case: LintCase) -> Iterator[Finding]:
    """Values that an option of the release does not take."""
    words = _words(case)
    for name, values in case.options.items() if words else ():
        choices = {_folded(one) for one in words.options.get(declared(words, name) or "", ())} if words else set()
        for value in values if choices else ():
            if value and "{" not in value and _folded(value) not in choices:
                yield Finding(line=case.line_of(name), value=value, name=name)


def unknown_json_keys(case: LintCase) -> Iterator[Finding]:
    """Keys of a JSON value that the release's config class does not have."""
    words = _words(case)
    for name, values in case.options.items() if words else ():
        known = words.keys.get(name, ()) if words else ()
        for key in (key for value in values for key in sorted(json_object(value))) if known else ():
            if key not in known:
                yield Finding(line=case.line_of(name), value=key, name=name)


def unknown_environment(case: LintCase) -> Iterator[Finding]:
    """Variables of the engine's name that the release does not read."""
    words = _words(case)
    for name in case.recipe.env if words else ():
        if words and name.startswith(ENGINES[case.engine or ""]) and name not in words.environment:
            yield Finding(line=case.recipe.line("env", name), value=str(case.recipe.env[name]), name=name)


def unused_defaults(case: LintCase) -> Iterator[Finding]:
    """Defaults that the command does not name; sparkrun reads some itself, and needs no command."""
    variants = (value for one in own_section(case.recipe).variants.values() for _, value in one.overrides)
    texts = [case.recipe.command or "", *map(str, case.recipe.defaults.values()), *map(str, variants)]
    used = {name for text in texts for name in NAMED.findall(text)}
    used |= {*TENSORRT_FILE} if case.engine == "trtllm" else set()  # our script writes them into its options file
    for name in case.recipe.defaults if case.recipe.command and case.engine else ():
        if name not in used and name not in READ_BY_LAUNCHERS:
            yield Finding(line=case.recipe.line("defaults", name), value=name)


def other_models(case: LintCase) -> Iterator[Finding]:
    """A model behind ``vllm serve`` or ``--model`` that is not the recipe's."""
    named = [*case.options.get("--model", ()), *case.options.get("--model-path", ()), *case.first]
    own = case.recipe.model
    for name in named[:1]:
        if own and name and name != own and "{" not in name and not name.startswith(("/", "$", ".")):
            yield Finding(line=case.recipe.line("command"), value=name, name=own)


def too_large(case: LintCase) -> Iterator[Finding]:
    """A model whose sizes are known, on nodes that are too small for it."""
    launch, model = launch_of_case(case), case.sizes or known_model(case.recipe.model or "")
    if launch is None or model is None:
        return
    try:
        found = estimate(model, launch, Machine(figures=load_figures()))
    except UsageError:  # a value that no release takes, which another rule names
        return
    problem = next((one for one in found.tightest.problems if not one.warning), None)
    if problem is not None:
        line = case.recipe.line("command") or case.recipe.line("model")
        yield Finding(
            line=line, value=problem.text, name=found.remedies[0] if found.remedies else "choose a smaller model"
        )


def tensorrt_experts(case: LintCase) -> Iterator[Finding]:
    """TensorRT-LLM: experts without a backend, whose default (CUTLASS) has tiles that do not fit a GB10."""
    model = case.recipe.model or ""
    experts = any("experts" in str(key) for key in known_config(model)) or EXPERTS.search(model) is not None
    file = next((name for name in TENSORRT_FILES if name in case.options), None)
    if not experts or case.parameters.get("moe_backend") is not None:
        return
    if file is None or case.options[file][-1] == TENSORRT_PATH:
        yield Finding(line=case.recipe.line("command"), value="no parameter sets moe_backend")
    else:
        yield Finding(line=case.line_of(file), value=f"{case.options[file][-1]} was not looked at", level="note")


def unknown_release(case: LintCase) -> Iterator[Finding]:
    """An image of which no release is known, where it would decide something: the others say nothing of it then."""
    if case.unknown:
        guessed = replace(case, unknown="")
        words = (form.format(one) for check, form in OF_THE_RELEASE.items() for one in check(guessed))
        lost = [*dict.fromkeys(words)]
        if lost:
            more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            lacks = f"{case.release} lacks {', '.join(lost[:SHOWN])}{more}"
            yield Finding(line=case.recipe.line("container"), value=case.unknown, name=lacks)


OF_THE_RELEASE: Final[Mapping[Check, str]] = {
    unknown_options: "{0.value}",
    wrong_choices: "{0.name} {0.value}",
    unknown_json_keys: "{0.name} {0.value}",
    unknown_environment: "{0.name}",
}
"""What is compared with the words of a release, and how a finding is named."""
CHECKS: Final[Mapping[str, Check]] = {
    "unknown-release": unknown_release,
    **SGLANG,
    **SIZES,
    **WRITTEN,
    "unknown-option": unknown_options,
    "wrong-choice": wrong_choices,
    "unknown-json-key": unknown_json_keys,
    "unknown-environment": unknown_environment,
    "unused-default": unused_defaults,
    "other-model-served": other_models,
    "does-not-fit": too_large,
    "fp8-moe-shared-memory": fp8_experts,
    "trtllm-moe-backend": tensorrt_experts,
}
"""By the code of the rule."""


def _folded(value: str) -> str:
    return value.strip().lower().replace("_", "-")
