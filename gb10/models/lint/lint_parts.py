"""What ``recipe lint`` looks at, and which of it was left out for a recipe: each with its reason. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gb10.core.checked import NotChecked
from gb10.errors import UsageError
from gb10.models.issue import Issue
from gb10.models.lint.engine_words import ENGINES, declared, is_version
from gb10.models.lint.fit import estimate_of_case, uncounted_options
from gb10.models.lint.served import LintCase
from gb10.models.lint.word_checks import words_of_case
from gb10.models.render.serve_line import SERVE
from gb10.models.render.sparkrun import TENSORRT_PATH, runtime_of

PARTS: Final[Mapping[str, str]] = {
    "file": "keys, types, duplicates, node counts",
    "command": "placeholders, quotation marks, JSON, as the launcher makes the command",
    "options": "each option of the command, in the release's own parser",
    "values": "values that the release's parser and registries allow: backends, types, parsers, methods",
    "variables": "the engine's variables, those that are empty, those of one machine",
    "memory": "weights, cache and graphs on each node, where the model's sizes are known",
    "rules": "what failed elsewhere, for this engine and release; --rules lists them",
    "mods": "that each mod is there and is for this release",
}
"""The words of the verb's help; each row of what was not checked names one of them or several."""
LIMITS: Final = (
    "never opened: the image, the model's files (but --weights), hooks (pre_exec, post_exec), other repositories",
)
NAMES: Final[Mapping[str, str]] = {
    "trtllm": "TensorRT-LLM",
    "llama-cpp": "llama.cpp",
    "atlas": "Atlas",
    "modular-max": "MAX",
}
FILES: Final = ("--config", "--extra-llm-api-options", "--extra_llm_api_options")
"""Options that name a file of more options."""
SHOWN: Final = 80
FEW: Final = 4
"""Options that a row names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Linted:
    """What lint says of a recipe."""

    issues: tuple[Issue, ...]
    unchecked: tuple[NotChecked, ...] = ()


def unchecked_parts(case: LintCase) -> Iterator[NotChecked]:
    """The parts of a recipe that could not be looked at."""
    yield from _words(case)
    yield from _command(case)
    reason = _no_memory(case)
    if reason:
        yield NotChecked(what="memory", reason=reason)
    if case.engine in ENGINES and not case.unknown and not is_version(case.release):
        yield NotChecked(what="rules", reason=f"the release of {case.engine} is not known")


def _words(case: LintCase) -> Iterator[NotChecked]:
    """Options, values and variables, which need the words of a release."""
    if case.engine not in ENGINES:
        name = _program(case)
        yield NotChecked(what="options, values, variables, rules", reason=f"no parser of {name} is here")
    elif case.unknown:
        reason = f"the image {case.unknown[:SHOWN]} names no release of {case.engine}; --release VERSION says it"
        yield NotChecked(what="options, values, variables, rules", reason=reason)
    else:
        known = words_of_case(case)
        if known is None:
            reason = f"the release of {case.engine} is not known; --release VERSION says it"
            yield NotChecked(what="options, values, variables", reason=reason)
        elif not known.exact:
            reason = f"no wheel of {case.engine} {known.asked} was read; compared with the nearest, {known.found}"
            yield NotChecked(what="options, values, variables", reason=reason)


def _program(case: LintCase) -> str:
    runtime = runtime_of(case.recipe)
    written = (case.command.split() or [""])[0].rpartition("/")[2]
    if case.engine or runtime in NAMES:
        return NAMES.get(case.engine or runtime, runtime)
    return f"'{written[:SHOWN]}'" if written else "this engine"


def _command(case: LintCase) -> Iterator[NotChecked]:
    """Parts of the command that stand elsewhere: in a file, in a variable of the shell, in a second server."""
    for name in FILES:
        for file in case.options.get(name, ()):
            if file and file != TENSORRT_PATH:  # that one is ours, of the recipe's own parameters
                yield NotChecked(what="options", reason=f"those in {file[:SHOWN]} ({name}) were not read")
    known = words_of_case(case)
    for name, values in case.options.items() if known else ():
        choices = known.words.options.get(declared(known.words, name) or "", ()) if known else ()
        if choices and any("$" in value for value in values):
            yield NotChecked(what="values", reason=f"{name} is a variable of the shell")
    servers = sum(len(pattern.findall(case.command)) for pattern in SERVE.values())
    if servers > 1:
        yield NotChecked(what="options", reason=f"the command starts {servers} servers, and the first was looked at")


def _no_memory(case: LintCase) -> str:
    """Why the memory could not be computed; empty when it was."""
    if case.engine not in ENGINES:
        return f"lint computes it for vLLM and SGLang; `recipe memory` knows {_program(case)}'s parameters"
    found = estimate_of_case(case)
    if found is None:
        return (
            f"the sizes of {(case.recipe.model or 'this model')[:SHOWN]} are not known here; --weights PATH reads them"
        )
    if isinstance(found, UsageError):
        return found.message
    names = [row.reason.partition(":")[0] for row in uncounted_options(case.engine or "", case.release, case.options)]
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more} not counted; `recipe memory` says why" if names else ""
