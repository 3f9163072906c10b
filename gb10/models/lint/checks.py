"""The rules that are computed: sizes against each other, names against their use, and those of the other modules."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Final

from gb10.errors import UsageError
from gb10.models.issue import Level
from gb10.models.lint.fit import estimate_of_case, launch_of_case
from gb10.models.lint.rule import Finding
from gb10.models.lint.served import UNSET, LintCase, vllm_drafts, words_of
from gb10.models.lint.sglang_rules import SGLANG, fp8_experts
from gb10.models.lint.word_checks import WORDS, Check, words_of_case
from gb10.models.load.model_recipe import Step, own_section
from gb10.models.memory.estimating import Estimate
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


LARGEST: Final = 512
"""Tokens of the largest graph of a release that counts drafts, on a GB10."""


def default_graphs(case: LintCase) -> Iterator[Finding]:
    """vLLM: the release's own largest graph, twice the batch with its drafts and at most LARGEST, is below it."""
    batch, tokens = case.number("--max-num-seqs"), 1 + _drafts(case)
    set_ = ("--max-cudagraph-capture-size", "--cudagraph-capture-sizes", "--compilation-config", "--enforce-eager")
    if batch is None or tokens == 1 or any(name.startswith(set_) or name in ("-O", "-cc") for name in case.options):
        return
    if batch * tokens > LARGEST:
        yield Finding(line=case.line_of("--max-num-seqs"), value=f"{batch * tokens:.0f}", name=f"{LARGEST}")


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
    "graph-default-without-drafts": default_graphs,
    "parallel-sizes": parallel_sizes,
}
"""By the code of the rule."""


TEMPLATE: Final = re.compile(r"(?![/$~{]|[a-z]+:)[^{}]*[.]jinja2?")
"""A file's path that begins in the server's working directory."""
SECRET: Final = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{20,}|glpat-[\w-]{20,})")
HYPHENED: Final = re.compile(r"(?<![${])\{[a-z_]{1,40}(?:-[a-z_]{1,40}){1,6}\}(?!\})")
QUOTE: Final = re.compile(r'(?<!\\)(?:\\\\)*"')
CONTINUED: Final = re.compile(r"\\[ \t]*$")
OPTION_LINE: Final = re.compile(r"[ \t]*--[a-z]")
REPEATED: Final = ("--middleware", "--lora-modules", "--lora-paths", "--allowed-origins", "--served-model-name")
"""Options that may stand several times."""
NUMBERS: Final = (
    *("--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--gpu-memory-utilization", "--port"),
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--context-length"),
    *("--mem-fraction-static", "--max-running-requests", "--chunked-prefill-size", "--block-size"),
)
"""Options that take a number in every release."""
COMMENT: Final = re.compile(r"^[ \t]*#.*$|(?<=[ \t])#[ \t].*$", re.MULTILINE)
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


def open_quotes(case: LintCase) -> Iterator[Finding]:
    """A quotation mark that nothing closes: the shell waits for its end. What only a shell can read is left out."""
    command = case.recipe.command or ""
    if "<<" in command or "$'" in command:
        return
    try:
        shlex.split(COMMENT.sub("", command))
    except ValueError as error:
        if "quotation" in str(error):
            yield Finding(line=case.recipe.line("command"), value="")


def comments_inside(case: LintCase) -> Iterator[Finding]:
    """A line of comment between continued lines: the shell ends the command there."""
    lines = (case.recipe.command or "").split("\n")
    at = 0
    for above, line, below in zip(lines, lines[1:], [*lines[2:], ""], strict=False):
        at += len(above) + 1
        if CONTINUED.search(above) and line.lstrip().startswith("#") and below.strip():
            level: Level = "error" if case.recipe.format == "v1" else "warning"
            yield Finding(line=case.recipe.text_line(("command",), at), value=line.strip(), level=level)


def unfinished_lines(case: LintCase) -> Iterator[Finding]:
    """A line that begins with an option below one that does not go on: a shell takes it for another command."""
    command = case.recipe.command or ""
    if "<<" in command:
        return
    lines = command.split("\n")
    at = 0
    for above, line in pairwise(lines):
        at += len(above) + 1
        if above.strip() and not CONTINUED.search(above) and OPTION_LINE.match(line) and not _quoted(command[:at]):
            level: Level = "warning" if case.recipe.format == "v1" else "note"
            yield Finding(line=case.recipe.text_line(("command",), at), value=line.split()[0], level=level)
            return


def _quoted(text: str) -> bool:
    """Whether a quotation mark is open at the end of a text."""
    try:
        shlex.split(COMMENT.sub("", text))
    except ValueError:
        return True
    return False


def repeated_options(case: LintCase) -> Iterator[Finding]:
    """An option that stands twice with different values: the last one wins."""
    seen: dict[str, str] = {}
    words = words_of(case.command, case.engine) if case.engine else []
    for index, word in enumerate(words):
        if not word.startswith("--") or case.options.get(word.partition("=")[0]) is None:
            continue
        name, equals, value = word.partition("=")
        below = words[index + 1] if index + 1 < len(words) else ""
        value = value if equals else "" if below.startswith("-") else below
        if name in seen and seen[name] != value and name not in REPEATED:
            yield Finding(line=case.line_of(name), value=name, name=f"{seen[name]} and {value}")
        seen[name] = value


def missing_values(case: LintCase) -> Iterator[Finding]:
    """An option without the value that it takes: the next option stands in its place."""
    known = words_of_case(case)
    for name, values in case.options.items():
        takes = name in NUMBERS or bool(known and known.exact and known.words.options.get(name))
        if takes and values[-1] == "" and not (known and name in known.words.keys):
            yield Finding(line=case.line_of(name), value=case.spelled.get(name, name))


WRITTEN: Final[Mapping[str, Callable[[LintCase], Iterator[Finding]]]] = {
    "chat-template-missing": missing_templates,
    "secret-in-file": secrets,
    "quote-in-env": quotes,
    "blank-after-backslash": blanks,
    "open-quote": open_quotes,
    "comment-in-command": comments_inside,
    "unfinished-line": unfinished_lines,
    "option-twice": repeated_options,
    "missing-value": missing_values,
}
"""By the code of the rule."""


EXPERTS: Final = re.compile(r"-a\d+b|moe|mixtral|gpt-oss|deepseek-(v|r)\d", re.IGNORECASE)
"""Names of models with experts, where no config is known."""
TENSORRT_FILES: Final = ("--extra-llm-api-options", "--config")
READ_BY_LAUNCHERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "port", "host", "served_model_name"),
    *("distributed_executor_backend", "enable_dp_attention", "model"),
)


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
    found = estimate_of_case(case)
    if not isinstance(found, Estimate):  # `wrong-number` names it, or the row of what was not checked
        return
    problem = next((one for one in found.tightest.problems if not one.warning), None)
    if problem is not None:
        line = case.recipe.line("command") or case.recipe.line("model")
        yield Finding(
            line=line, value=problem.text, name=found.remedies[0] if found.remedies else "choose a smaller model"
        )


def long_prompts(case: LintCase) -> Iterator[Finding]:
    """A model with a sparse indexer, whose longest prompt takes more than is left."""
    found = estimate_of_case(case)
    problems = found.tightest.problems if isinstance(found, Estimate) else ()
    for problem in problems:
        if problem.code == "prefill-grows":
            yield Finding(line=case.line_of("--max-model-len"), value=problem.text)


def compile_jobs(case: LintCase) -> Iterator[Finding]:
    """Experts whose kernels are compiled at the start, by more jobs than the node has memory for."""
    found = estimate_of_case(case)
    problems = found.tightest.problems if isinstance(found, Estimate) else ()
    for problem in problems:
        if problem.code == "compile-jobs":
            yield Finding(line=case.recipe.line("env", "MAX_JOBS") or case.recipe.line("command"), value=problem.text)


LENGTH: Final = {"vllm": "--max-model-len", "sglang": "--context-length"}
LONGER: Final = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
"""Variables that let a context be longer than the model's."""
OTHER_CONFIG: Final = (
    "--hf-overrides",
    "--hf-config-path",
    "--rope-scaling",
    "--json-model-override-args",
    "--model-config",
)
"""Options that change what the config says."""
SAME_LENGTH: Final = ("llama3", "longrope", "su", "mrope", "default", "proportional", "axial")
"""Kinds of rope whose factor is in max_position_embeddings already."""


def too_long(case: LintCase) -> Iterator[Finding]:
    """A context that is longer than the model's: both engines stop, unless a variable or an override allows it."""
    option = LENGTH.get(case.engine or "", "")
    asked, sizes = case.number(option), case.sizes or known_model(case.recipe.model or "")
    if asked is None or sizes is None or sizes.fields is None:
        return
    limit, text = sizes.fields.number("max_position_embeddings", default=0, largest=1 << 27), sizes.fields.text
    ropes = [one for one in (text.get("rope_scaling"), text.get("rope_parameters")) if isinstance(one, Mapping)]
    for rope in ropes:
        kind, factor = rope.get("rope_type") or rope.get("type"), rope.get("factor")
        if kind not in SAME_LENGTH and isinstance(factor, int | float) and factor > 1:
            before = rope.get("original_max_position_embeddings")
            limit = max(limit, round((before if isinstance(before, int) else limit) * factor))
    allowed = any(str(case.recipe.env.get(name, "0")) not in ("0", "") for name in LONGER)
    if limit and asked > limit and not allowed and not any(name in case.options for name in OTHER_CONFIG):
        yield Finding(line=case.line_of(option), value=f"{option} {asked:.0f}", name=f"{limit}")


def placeholder_names(case: LintCase) -> Iterator[Finding]:
    """``{served-model-name}``: a name with hyphens, which no launcher fills."""
    for found in HYPHENED.finditer(case.recipe.command or ""):
        line = case.recipe.text_line(("command",), found.start())
        yield Finding(line=line, value=found[0], name=found[0].replace("-", "_"))


def wrong_numbers(case: LintCase) -> Iterator[Finding]:
    """A size, a share or a count that is no number: the engine's parser stops, and no memory can be computed."""
    try:
        launch_of_case(case)
    except UsageError as error:
        if error.message.endswith(UNSET):
            return  # a row says that the memory was not computed
        name = error.message.partition(" ")[0]
        yield Finding(line=case.line_of(name), value=error.message, more=error.hint or "")


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


CHECKS: Final[Mapping[str, Check]] = {
    **WORDS,
    **SGLANG,
    **SIZES,
    **WRITTEN,
    "unused-default": unused_defaults,
    "other-model-served": other_models,
    "does-not-fit": too_large,
    "long-prompt": long_prompts,
    "compile-jobs": compile_jobs,
    "longer-than-model": too_long,
    "wrong-number": wrong_numbers,
    "placeholder-name": placeholder_names,
    "fp8-moe-shared-memory": fp8_experts,
    "trtllm-moe-backend": tensorrt_experts,
}
"""By the code of the rule."""
