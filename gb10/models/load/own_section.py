"""The section ``gb10`` of a model recipe: its engine, sources, published throughput and variants, typed. Pure.

A row of ``measured`` says where, when and by whom a throughput was measured. ``status`` is of the recipe as it stands:
a row of another release or another model file is for comparison and makes no recipe "published".
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Final, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from gb10.core.document import mistakes_of
from gb10.core.fields import Model, Name, Releases
from gb10.models.issue import Issue
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import ModelRecipe

Engine = Literal["vllm", "sglang", "trtllm", "llama-cpp"]
Status = Literal["measured", "published", "not measured"]
US: Final = "gb10"
"""``measured-by`` of the rows that make a recipe ``measured``."""
MOST: Final = 200
"""Rows, sources or variants of a section."""


Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Count = Annotated[int, Field(ge=1, le=1 << 24)]
Day = Annotated[
    str,
    BeforeValidator(lambda value: value.isoformat() if type(value) is date else value),
    StringConstraints(pattern=r"^\d{4}-(0[1-9]|1[0-2])(-\d\d)?$"),
]
"""A date, or a year and a month."""
Texts = Annotated[tuple[Text, ...], Field(max_length=MOST)]


class _Part(Model):
    """Keys have underscores, as everywhere in a model recipe."""

    model_config = ConfigDict(alias_generator=None)


class Measurement(_Part):
    """One throughput in tokens a second, summed over all streams; or ``failure``: how the server ended instead.

    ``first_token_s`` is the mean time from a request to its first token, in seconds. ``input_tokens`` and
    ``output_tokens`` are lengths of one request. ``checkpoint`` and ``image`` are given where they differ from the
    recipe's.
    """

    engine: Engine
    release: Text | None = None
    variant: Name | None = None
    nodes: Annotated[int, Field(ge=1, le=64)]
    concurrency: Count
    tokens_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    failure: Text | None = None
    first_token_s: Annotated[float, Field(gt=0, le=1e5)] | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    checkpoint: Text | None = None
    image: Text | None = None
    source: Text
    date: Day | None = None
    measured_by: Text
    note: Text | None = None


class Variant(_Part):
    """Parameters that one way to run the recipe sets: ``NAME: value`` as ``--set`` does, ``env.NAME`` for variables."""

    what: Text
    set: Annotated[dict[Text, str | int | float | bool], Field(min_length=1, max_length=MOST)]

    @property
    def overrides(self) -> tuple[tuple[str, str], ...]:
        """The parameters as they would be typed after ``--set``."""
        return tuple((key, str(one).lower() if isinstance(one, bool) else str(one)) for key, one in self.set.items())


class OwnSection(_Part):
    """What gb10 knows of a recipe beyond sparkrun's keys."""

    engine: Engine | None = None
    releases: Releases | None = None
    status: Status = "not measured"
    sources: Texts = ()
    notes: Texts = ()
    patches: Texts = ()
    """Diffs that the image needs, as ``--patch`` takes them: ``SOURCE=URL#sha256=…``, ``SOURCE=FILE``."""
    measured: Annotated[tuple[Measurement, ...], Field(max_length=MOST)] = ()
    variants: Annotated[dict[Name, Variant], Field(max_length=MOST)] = Field(default_factory=dict)

    def status_of(self, variant: str | None) -> Status:
        """The status of one variant, None for the recipe without any."""
        rows = [row for row in self.measured if row.variant == variant and self._counts(row)]
        if any(row.measured_by == US for row in rows):
            return "measured"
        return "published" if rows else "not measured"

    def _counts(self, row: Measurement) -> bool:
        """Whether a row is of what the recipe runs: its engine, a release of its range, its model files; and dated."""
        if row.tokens_per_s is None or row.engine != self.engine or row.checkpoint or not (row.release and row.date):
            return False
        try:
            release = Version(row.release)
        except InvalidVersion:
            return False
        return SpecifierSet(self.releases or "").contains(release, prereleases=True)

    @property
    def earned(self) -> Status:
        """The best status that the rows give any way to run the recipe."""
        found = {self.status_of(name) for name in (None, *self.variants)}
        return "measured" if "measured" in found else "published" if "published" in found else "not measured"


def own_section(recipe: ModelRecipe) -> OwnSection:
    """The section of a recipe; an empty one when there is none, or when it has mistakes (which are issues)."""
    value = _plain(recipe.values.get(OURS))
    if not isinstance(value, Mapping) or mistakes_of(value, OwnSection):
        return OwnSection()
    return OwnSection.model_validate(value)


def check_own_section(recipe: ModelRecipe) -> Iterator[Issue]:
    """What is wrong with the section: wrong types, unknown keys, names and parameters that are nowhere."""
    value = _plain(recipe.values.get(OURS))
    if not isinstance(value, Mapping):
        return
    mistakes = mistakes_of(value, OwnSection)
    for at, text in mistakes:
        yield _issue(recipe, f"{OURS}: {text}", "docs/models.md lists the keys of this section", *at)
    if not mistakes:
        yield from _check_meaning(recipe, OwnSection.model_validate(value))


def _check_meaning(recipe: ModelRecipe, section: OwnSection) -> Iterator[Issue]:
    for index, row in enumerate(section.measured):
        if row.variant is not None and row.variant not in section.variants:
            text, fix = f"the row names the variant '{row.variant}', which is none", "name one of `variants`"
            yield _issue(recipe, text, fix, "measured", index)
        if (row.tokens_per_s is None) == (row.failure is None):
            text, fix = "a row has either `tokens_per_s` or `failure`", "write exactly one of them"
            yield _issue(recipe, text, fix, "measured", index)
    for name, variant in section.variants.items():
        for key in variant.set:
            if not key.startswith("env.") and key.partition(".")[0] not in recipe.defaults:
                text = f"the variant '{name}' sets '{key[:80]}', which is not in `defaults`"
                yield _issue(recipe, text, f"add `{key[:80]}:` to `defaults`", "variants", name, "set", key)
    if section.status != section.earned:
        text = f"status is '{section.status}', and the rows of this engine's releases make it '{section.earned}'"
        yield _issue(recipe, text, f"write `status: {section.earned}`", "status")


def _issue(recipe: ModelRecipe, text: str, fix: str, *at: str | int) -> Issue:
    line = recipe.line(OURS, *at)
    return Issue(code="own-section", level="error", file=recipe.file, line=line, text=text, fix=fix)


def _plain(value: object) -> object:
    """The value with tuples for lists and text for keys, as the model demands."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
