"""Jinja as all templates are read: a name that is undefined is an error, and words are quoted by filters. Pure."""

from functools import lru_cache

from jinja2 import DictLoader, Environment, StrictUndefined

from gb10.image.plan.quoting import array, quoted, shell, word


@lru_cache(maxsize=4)
def jinja(templates: tuple[tuple[str, str], ...]) -> Environment:
    """Compiled templates, kept by their texts: compiling them takes most of the time of a plan."""
    made = Environment(
        loader=DictLoader(dict(templates)), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    made.filters |= {"quoted": quoted, "word": word, "shell": shell, "json": array}
    return made
