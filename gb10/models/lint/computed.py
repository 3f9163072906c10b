"""The rules that are computed: options against those of the release, names against their use."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gb10.errors import UsageError
from gb10.models.issue import Level
from gb10.models.lint.conditions import Found
from gb10.models.lint.engine_source import ENGINES, EngineWords
from gb10.models.lint.engine_words import declared, known_words, nearest
from gb10.models.lint.fp8_experts import fp8_experts
from gb10.models.lint.option_numbers import json_object
from gb10.models.lint.served import Served
from gb10.models.lint.served_launch import launch_of_case
from gb10.models.lint.sglang_rules import SGLANG
from gb10.models.lint.sizes import SIZES
from gb10.models.lint.written import WRITTEN
from gb10.models.load.own_section import own_section
from gb10.models.memory.engines.shared import Machine
from gb10.models.memory.estimating import estimate
from gb10.models.memory.figures import load_figures
from gb10.models.memory.known_models import known_config, known_model
from gb10.models.render.placeholders import NAMED
from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH

Check = Callable[[Served], Iterator[Found]]
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


def _words(case: Served) -> EngineWords | None:
    """The words of the release; None where none is known."""
    return None if case.unknown else known_words(case.engine or "", case.release)


def unknown_options(case: Served) -> Iterator[Found]:
    """Options that neither the release nor a mod of ours has. A mod of others may add one: then it is a warning."""
    words = _words(case)
    for name in case.options if words else ():
        written = case.spelled[name]
        known = {*PLAIN, *case.added}
        if words and not {written, name} & known and not any(declared(words, one) for one in (written, name)):
            close = nearest(name, words.options)
            guess = f"; did you mean {close}?" if close else ""
            level: Level | None = "warning" if case.foreign else None
            yield Found(line=case.line_of(name), value=written, name=guess, level=level)


def wrong_choices(case: Served) -> Iterator[Found]:
    """Values that an option of the release does not take."""
    words = _words(case)
    for name, values in case.options.items() if words else ():
        choices = {_folded(one) for one in words.options.get(declared(words, name) or "", ())} if words else set()
        for value in values if choices else ():
            if value and "{" not in value and _folded(value) not in choices:
                yield Found(line=case.line_of(name), value=value, name=name)


def unknown_json_keys(case: Served) -> Iterator[Found]:
    """Keys of a JSON value that the release's config class does not have."""
    words = _words(case)
    for name, values in case.options.items() if words else ():
        known = words.keys.get(name, ()) if words else ()
        for key in (key for value in values for key in _json_keys(value)) if known else ():
            if key not in known:
                yield Found(line=case.line_of(name), value=key, name=name)


def unknown_environment(case: Served) -> Iterator[Found]:
    """Variables of the engine's name that the release does not read."""
    words = _words(case)
    for name in case.recipe.env if words else ():
        if words and name.startswith(ENGINES[case.engine or ""]) and name not in words.environment:
            yield Found(line=case.recipe.line("env", name), value=str(case.recipe.env[name]), name=name)


def unused_defaults(case: Served) -> Iterator[Found]:
    """Defaults that the command does not name; sparkrun reads some itself, and needs no command."""
    variants = (value for one in own_section(case.recipe).variants.values() for _, value in one.overrides)
    texts = [case.recipe.command or "", *map(str, case.recipe.defaults.values()), *map(str, variants)]
    used = {name for text in texts for name in NAMED.findall(text)}
    used |= {*TENSORRT_FILE} if case.engine == "trtllm" else set()  # our script writes them into its options file
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


def too_large(case: Served) -> Iterator[Found]:
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
        yield Found(
            line=line, value=problem.text, name=found.remedies[0] if found.remedies else "choose a smaller model"
        )


def tensorrt_experts(case: Served) -> Iterator[Found]:
    """TensorRT-LLM: experts without a backend, whose default (CUTLASS) has tiles that do not fit a GB10."""
    model = case.recipe.model or ""
    experts = any("experts" in str(key) for key in known_config(model)) or EXPERTS.search(model) is not None
    file = next((name for name in TENSORRT_FILES if name in case.options), None)
    if not experts or case.parameters.get("moe_backend") is not None:
        return
    if file is None or case.options[file][-1] == TENSORRT_PATH:
        yield Found(line=case.recipe.line("command"), value="no parameter sets moe_backend")
    else:
        yield Found(line=case.line_of(file), value=f"{case.options[file][-1]} was not looked at", level="note")


def unknown_release(case: Served) -> Iterator[Found]:
    """An image of which no release is known, where it would decide something: the others say nothing of it then."""
    if case.unknown:
        guessed = replace(case, unknown="")
        words = (form.format(one) for check, form in OF_THE_RELEASE.items() for one in check(guessed))
        lost = [*dict.fromkeys(words)]
        if lost:
            more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            said = f"{case.release} lacks {', '.join(lost[:SHOWN])}{more}"
            yield Found(line=case.recipe.line("container"), value=case.unknown, name=said)


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


def _json_keys(text: str) -> list[str]:
    return sorted(json_object(text))


def _folded(value: str) -> str:
    return value.strip().lower().replace("_", "-")
