"""The computed rules about words: options, values, JSON keys and variables against those of the engine's release."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gb10.models.issue import Level
from gb10.models.lint.engine_words import ENGINES, ReleaseWords, declared, has_known, near_ones, nearest, words_for
from gb10.models.lint.rule import Finding
from gb10.models.lint.served import LintCase, json_object

Check = Callable[[LintCase], Iterator[Finding]]
PLAIN: Final = ("-h", "--help")
LEVEL: Final = re.compile(r"-O\w*")
"""``-O3``: the parser of every known release of vLLM splits it before it looks for options."""
JSON_STARTS: Final = tuple('{["0123456789')
SHOWN: Final = 2
"""Names in one finding."""
LISTED: Final = 8
"""Values that a fix lists, where none is close."""
OTHER_HARDWARE: Final = frozenset(
    ("xpu", "rocm", "cpu", "tpu", "hpu", "npu", "aiter", "ascend", "amx", "wave", "neuron", "musa")
)
"""Parts of values that are for other hardware than a GB10: the server takes them, and a fix never advises them."""
EXACT: Final = (
    *("--tool-call-parser", "--reasoning-parser", "--kv-cache-dtype", "--dtype", "--load-format", "--quantization"),
)
"""Options of vLLM whose values are compared letter by letter; SGLang's parser compares all so."""
PLUGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "--tool-call-parser": ("--tool-parser-plugin",),
    "--reasoning-parser": ("--reasoning-parser-plugin",),
}
"""Options by which a user's own file adds values."""
OF_OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    "sglang": {
        "--gpu-memory-utilization": "--mem-fraction-static",
        "--max-model-len": "--context-length",
        "--max-num-seqs": "--max-running-requests",
        "--max-num-batched-tokens": "--chunked-prefill-size",
        "--enforce-eager": "--disable-cuda-graph",
        "--no-enable-prefix-caching": "--disable-radix-cache",
        "--moe-backend": "--moe-runner-backend",
        "--speculative-config": "--speculative-algorithm",
        "--enable-expert-parallel": "--ep-size",
        "--model": "--model-path",
        "--num-nodes": "--nnodes",
        "--master-addr": "--dist-init-addr",
    },
    "vllm": {
        "--mem-fraction-static": "--gpu-memory-utilization",
        "--context-length": "--max-model-len",
        "--max-running-requests": "--max-num-seqs",
        "--chunked-prefill-size": "--max-num-batched-tokens",
        "--disable-cuda-graph": "--enforce-eager",
        "--disable-radix-cache": "--no-enable-prefix-caching",
        "--moe-runner-backend": "--moe-backend",
        "--speculative-algorithm": "--speculative-config",
        "--model-path": "--model",
        "--num-nodes": "--nnodes",
        "--dist-init-addr": "--master-addr",
    },
}
"""By engine: options of the other engine, and what this one calls the same."""
A_FORK: Final = "; the image is somebody's own build, and a fork may have it"
NO_GPU: Final = "the server then sees no GPU"
REFUSED_EMPTY: Final[Mapping[str, tuple[str, str]]] = {
    "FLASHINFER_CUDA_ARCH_LIST": ("FlashInfer splits it into arches and stops", "leave it out, or write 12.1a"),
    "CUDA_VISIBLE_DEVICES": (NO_GPU, "leave it out"),
    "NVIDIA_VISIBLE_DEVICES": (NO_GPU, "leave it out, or write all"),
    "VLLM_LOGGING_LEVEL": ("Python's logging knows no such level and stops", "leave it out, or write INFO"),
}
"""Variables outside of the engines' tables whose readers do not take an empty text: what happens, what to write."""


def words_of_case(case: LintCase) -> ReleaseWords | None:
    """The words of the release, or of the nearest one; None for an image or an engine of which none are known."""
    return None if case.unknown or case.engine not in ENGINES else words_for(case.engine, case.release)


def _level(case: LintCase, known: ReleaseWords, *, elsewhere: bool = False) -> Level | None:
    """The rule's own level for words of the very release; less where they are another's, or the image a fork's.

    ``elsewhere``: another known release has the word.
    """
    if not known.exact:
        return "note" if elsewhere or case.foreign_image else "warning"
    return "warning" if case.foreign or case.foreign_image else None


def _guess(close: Sequence[str], case: LintCase) -> str:
    guess = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{guess}{A_FORK if case.foreign_image else ''}"


def unknown_options(case: LintCase) -> Iterator[Finding]:
    """Options that neither the release nor a mod of ours has. A mod of others may add one: then it is a warning."""
    known = words_of_case(case)
    for name in case.options if known else ():
        written = case.spelled[name]
        if known is None or {written, name} & {*PLAIN, *case.added}:
            continue
        if known.engine == "vllm" and LEVEL.fullmatch(written):
            continue
        if _is_spelled_with_underscores(known, written, name):
            yield Finding(
                line=case.line_of(name),
                value=written,
                release=known.title,
                more=f", and write {name}: its parser takes no underscores",
                level=_level(case, known),
            )
        elif not any(declared(known.words, one) for one in (written, name)):
            own = OF_OTHERS.get(known.engine, {}).get(name, "")
            close = own if own in known.words.options else nearest(name, known.words.options)
            yield Finding(
                line=case.line_of(name),
                value=written,
                release=known.title,
                more=_guess([close] if close else [], case),
                level=_level(case, known, elsewhere=has_known(known.engine, name)),
            )


def _is_spelled_with_underscores(known: ReleaseWords, written: str, name: str) -> bool:
    """Whether an option would be known with hyphens, to a parser that takes it with those alone: Python's own."""
    return (
        known.engine == "sglang"
        and written.startswith("--")
        and "_" in written
        and written not in known.words.options
        and name in known.words.options
    )


def wrong_choices(case: LintCase) -> Iterator[Finding]:
    """Values that an option, or the key of its JSON value, does not take in this release."""
    known = words_of_case(case)
    for name, values in case.options.items() if known else ():
        if known is None or any(one in case.options for one in PLUGINS.get(name, ())):
            continue
        choices = known.words.options.get(declared(known.words, name) or "", ())
        for value in values if choices else ():
            yield from _wrong(case, known, name, value, choices)
        for key, allowed in known.words.values.items():
            option, _, field = key.partition(".")
            for value in values if option == name else ():
                given = json_object(value).get(field)
                if isinstance(given, str):
                    yield from _wrong(case, known, key, given, allowed)


def _wrong(case: LintCase, known: ReleaseWords, name: str, value: str, choices: Sequence[str]) -> Iterator[Finding]:
    if not value or "{" in value or "$" in value or _takes(known.engine, name, value, choices):
        return
    ours = [one for one in choices if not _parts(one) & OTHER_HARDWARE]
    close = near_ones(value, ours)
    listed = f"{', '.join(ours[:LISTED])}{', …' if len(ours) > LISTED else ''}"
    meant = f"write {' or '.join(close)}" if close else f"it takes {listed}"
    yield Finding(
        line=case.line_of(name.partition(".")[0]),
        value=value,
        name=name,
        release=known.title,
        more=f"{meant}{A_FORK if case.foreign_image else ''}",
        level=_level(case, known),
    )


def _parts(value: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", value.lower()))


def _takes(engine: str, name: str, value: str, choices: Sequence[str]) -> bool:
    if engine == "sglang" or name in EXACT:
        return value in choices
    return _folded(value) in {_folded(one) for one in choices}


def unknown_json_keys(case: LintCase) -> Iterator[Finding]:
    """Keys of a JSON value that the release's config class does not have."""
    known = words_of_case(case)
    for name, values in case.options.items() if known else ():
        keys = known.words.keys.get(name, ()) if known else ()
        for key in (key for value in values for key in sorted(json_object(value))) if keys else ():
            if known and key not in keys:
                close = nearest(key, keys)
                yield Finding(
                    line=case.line_of(name),
                    value=key,
                    name=name,
                    release=known.title,
                    more=_guess([close] if close else [], case),
                    level=_level(case, known),
                )


def broken_json(case: LintCase) -> Iterator[Finding]:
    """A JSON value of an engine's config that is no JSON: the server's parser stops at it, also that of a fork."""
    known = words_of_case(replace(case, unknown=""))
    for name, values in case.options.items() if known else ():
        for value in values if known and name in known.words.keys else ():
            if "$" in value or not value.startswith(JSON_STARTS):
                continue
            try:
                found = json.loads(value)
            except (ValueError, RecursionError) as error:
                if value.startswith("{"):
                    yield Finding(line=case.line_of(name), value=name, name=str(error)[:80])
            else:
                if not isinstance(found, dict):
                    yield Finding(line=case.line_of(name), value=name, name=f"{value[:40]} is no mapping")


def unknown_environment(case: LintCase) -> Iterator[Finding]:
    """Variables of the engine's name that the release does not read."""
    known = words_of_case(case)
    for name in case.recipe.env if known else ():
        if known and name.startswith(ENGINES[known.engine]) and name not in known.words.environment:
            close = nearest(name, known.words.environment)
            yield Finding(
                line=case.recipe.line("env", name),
                value=str(case.recipe.env[name]),
                name=name,
                release=known.title,
                more=_guess([close] if close else [], case),
                level=None if known.exact and not case.foreign_image else "note",
            )


def empty_variables(case: LintCase) -> Iterator[Finding]:
    """Variables that are set to nothing, whose reader does not take an empty text: ``${NAME:-}`` of compose."""
    known = words_of_case(case)
    for name, value in case.recipe.env.items():
        kind = known.words.variables.get(name, ()) if known else ()
        if str("" if value is None else value).strip() or not (kind or name in REFUSED_EMPTY):
            continue
        why, fix = REFUSED_EMPTY.get(name) or (f"{known.title if known else ''} takes {_kind(kind)}", "leave it out")
        of_the_engine = known is not None and (name not in REFUSED_EMPTY or name.startswith(ENGINES[known.engine]))
        less = known is not None and of_the_engine and (case.foreign_image or not known.exact)
        level: Level | None = "warning" if less else None
        yield Finding(line=case.recipe.line("env", name), value=why, name=name, more=fix, level=level)


def wrong_variables(case: LintCase) -> Iterator[Finding]:
    """Variables of the engine with a text that their reader refuses."""
    known = words_of_case(case)
    for name, given in case.recipe.env.items() if known else ():
        kind = known.words.variables.get(name, ()) if known else ()
        value = "" if given is None else str(given).strip()  # as the launchers hand it on
        if known and kind and value and "$" not in value and "{" not in value and not _reads(kind, value):
            level: Level | None = "warning" if case.foreign_image or not known.exact else None
            line = case.recipe.line("env", name)
            yield Finding(line=line, value=value, name=name, release=known.title, more=_kind(kind), level=level)


def _kind(kind: Sequence[str]) -> str:
    numbers = {"int": "a whole number", "float": "a number"}
    return numbers.get(kind[0]) or f"one of {', '.join(kind)}"


def _reads(kind: Sequence[str], value: str) -> bool:
    if kind not in (("int",), ("float",)):
        return value.lower() in {one.lower() for one in kind}
    try:
        int(value) if kind == ("int",) else float(value)
    except ValueError:
        return False
    return True


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
WORDS: Final[Mapping[str, Check]] = {
    "unknown-release": unknown_release,
    "unknown-option": unknown_options,
    "wrong-choice": wrong_choices,
    "unknown-json-key": unknown_json_keys,
    "broken-json": broken_json,
    "unknown-environment": unknown_environment,
    "empty-variable": empty_variables,
    "wrong-variable": wrong_variables,
}
"""By the code of the rule."""


def _folded(value: str) -> str:
    return value.strip().lower().replace("_", "-")
