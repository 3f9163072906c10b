"""The computed rules about what stands in the file: templates that are nowhere, secrets, what the shell would cut."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gb10.models.lint.conditions import Found
from gb10.models.lint.served import Served
from gb10.models.load.model_recipe import Step

TEMPLATE: Final = re.compile(r"(?![/$~{]|[a-z]+:)[^{}]*[.]jinja2?")
"""A file's path that begins in the server's working directory."""
SECRET: Final = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{20,}|glpat-[\w-]{20,})")
QUOTE: Final = re.compile(r'(?<!\\)(?:\\\\)*"')
BLANK: Final = re.compile(r"\\[ \t]+$", re.MULTILINE)
DEEPEST: Final = 12
ELSEWHERE: Final = ("env", "command")
"""Sections with a rule of their own."""


def missing_templates(case: Served) -> Iterator[Found]:
    """A chat template by a relative path: only a mod, or the image itself, can bring it."""
    own = "vllm-openai" in (case.recipe.container or "")  # that image has vLLM's examples in its working directory
    for value in () if case.recipe.mods else case.options.get("--chat-template", ()):
        if TEMPLATE.fullmatch(value) and not (own and value.startswith("examples/")):
            yield Found(line=case.line_of("--chat-template"), value=value)


def secrets(case: Served) -> Iterator[Found]:
    """A token anywhere but in ``env`` and ``command``."""
    for key, value in case.recipe.values.items():
        if key not in ELSEWHERE:
            yield from _secrets(case, value, (str(key),))


def _secrets(case: Served, value: object, at: tuple[Step, ...]) -> Iterator[Found]:
    if isinstance(value, str) and SECRET.search(value):
        yield Found(line=case.recipe.line(*at), value="", name=".".join(map(str, at)))
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for step, one in below if len(at) < DEEPEST else ():
        yield from _secrets(case, one, (*at, step if isinstance(step, int) else str(step)))


def quotes(case: Served) -> Iterator[Found]:
    """A quotation mark in a variable of version 1."""
    for name, value in case.recipe.env.items() if case.recipe.format == "v1" else ():
        if QUOTE.search(str(value)):
            yield Found(line=case.recipe.line("env", name), value=str(value), name=name)


def blanks(case: Served) -> Iterator[Found]:
    """Blanks behind a backslash, in the command of version 1."""
    command = case.recipe.command or ""
    found = BLANK.search(command) if case.recipe.format == "v1" else None
    if found and found.end() < len(command.rstrip()):
        yield Found(line=case.recipe.text_line(("command",), found.start()), value=found[0])


WRITTEN: Final[Mapping[str, Callable[[Served], Iterator[Found]]]] = {
    "chat-template-missing": missing_templates,
    "secret-in-file": secrets,
    "quote-in-env": quotes,
    "blank-after-backslash": blanks,
}
"""By the code of the rule."""
