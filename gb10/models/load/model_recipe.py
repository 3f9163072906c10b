"""A model recipe as loaded, with the line of each part, and our own section of it (`gb10:`). Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Annotated, Final, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from gb10.core.document import mistakes_of
from gb10.core.fields import Model, Name, Releases
from gb10.models.issue import Issue
from gb10.models.load.known_keys import OURS

Format = Literal["v1", "v2", "gb10"]
"""v1: eugr's launcher. v2: sparkrun. gb10: v2 with a section ``gb10``."""
Step = str | int
At = tuple[Step, ...]
"""A place in a recipe: keys as the file writes them, list entries from 0: ``("defaults", "port")``, ``("mods", 0)``."""
EMPTY: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRecipe:
    """A model recipe as its file has it, before overrides and nodes.

    ``values`` are what PyYAML's safe loader makes of the file: of a duplicate key the last. A key may be no text.
    ``keys`` and ``lines`` have the line (from 1) of each key and each value; ``texts`` the line where the text of
    each block scalar (``command: |``) starts, so that line N of such a text is line ``texts[at] + N`` of the file.
    """

    file: str
    """The path as it was given; every issue has it."""
    stem: str
    """The file's name without its suffix: the name of a recipe of v2."""
    format: Format
    values: Mapping[object, object]
    keys: Mapping[At, int] = field(default_factory=dict, repr=False)
    lines: Mapping[At, int] = field(default_factory=dict, repr=False)
    texts: Mapping[At, int] = field(default_factory=dict, repr=False)
    issues: tuple[Issue, ...] = ()
    """What loading found. Rendering adds what only overrides and nodes show; lint adds its own."""

    @property
    def name(self) -> str:
        """What people call it: ``name`` of v1, the stem of v2."""
        given = self.values.get("name")
        return str(given) if self.format == "v1" and given is not None else self.stem

    @property
    def version(self) -> str:
        """``recipe_version`` as text; without one "2"."""
        given = self.values.get("recipe_version")
        return "2" if given is None else str(given)

    @property
    def model(self) -> str | None:
        """The model: a repository of the Hub, or a path."""
        return self.text("model")

    @property
    def container(self) -> str | None:
        """The image that the recipe names; None when the launcher chooses."""
        return self.text("container")

    @property
    def command(self) -> str | None:
        """The command with its placeholders; None when it is made of ``defaults``."""
        return self.text("command")

    @property
    def defaults(self) -> Mapping[str, object]:
        """Parameters by name; a section that is null is empty."""
        return self.section("defaults")

    @property
    def env(self) -> Mapping[str, object]:
        """Environment variables by name, in the file's order; a section that is null is empty."""
        return self.section("env")

    @property
    def mods(self) -> tuple[str, ...]:
        """Mods as written, in order."""
        return self.entries("mods")

    @property
    def build_args(self) -> Mapping[At, str]:
        """Arguments of eugr's image build, by where they stand: at the top, or in sparkrun's section of the runtime."""
        own = self.values.get("build_args")
        runtime = self.section("runtime_config").get("build_args")
        found: list[tuple[At, object]] = [
            ((*at, index), one)
            for at, value in ((("build_args",), own), (("runtime_config", "build_args"), runtime))
            if isinstance(value, list | tuple)
            for index, one in enumerate(value)
        ]
        return {at: str(one) for at, one in found}

    def text(self, key: str) -> str | None:
        """A value of the top level as text; None when it is absent or null."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def section(self, key: str) -> Mapping[str, object]:
        """A mapping of the top level with text keys; empty when it is absent, null or no mapping."""
        value = self.values.get(key)
        return {str(name): one for name, one in value.items()} if isinstance(value, Mapping) else EMPTY

    def entries(self, key: str) -> tuple[str, ...]:
        """A list of the top level as texts; empty when it is absent, null or no list."""
        value = self.values.get(key)
        return tuple(map(str, value)) if isinstance(value, list | tuple) else ()

    def line(self, *at: Step) -> int:
        """The line of a key, a list entry, or of the nearest part around it; 0 when there is none."""
        for length in range(len(at), 0, -1):
            found = self.keys.get(at[:length], self.lines.get(at[:length]))
            if found is not None:
                return found
        return 0

    def text_line(self, at: At, offset: int) -> int:
        """The file's line of the character at ``offset`` of a text value; exact for block scalars (``|``)."""
        value: object = self.values
        for step in at:
            value = value[step] if isinstance(value, Mapping | list) else None  # type: ignore[index]
        first = self.texts.get(at)
        if first is None or not isinstance(value, str):
            return self.line(*at)
        return first + value.count("\n", 0, max(offset, 0))


Engine = Literal["vllm", "sglang", "trtllm", "llama-cpp"]
Status = Literal["measured", "published", "not measured"]
Answers = Literal["chat", "embeddings", "rerank", "audio/transcriptions"]
"""What a server is asked, as the path below /v1; ``chat`` is /v1/chat/completions."""
US: Final = "gb10"
"""``measured-by`` of the rows that make a recipe ``measured``."""
MOST: Final = 200
"""Rows, sources or variants of a section."""


Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Count = Annotated[int, Field(ge=1, le=1 << 24)]
Day = Annotated[
    str,
    BeforeValidator(lambda day: day.isoformat() if type(day) is date else day),
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


class HostSection(_Part):
    """What the containers get of their host, as Docker's command line writes it; ``host_access`` reads it."""

    volumes: Texts | dict[Text, Text] = ()
    devices: Texts = ()
    cap_add: Texts = ()
    security_opt: Texts = ()
    privileged: bool = False
    user: Text | int | None = None
    ulimit: Texts | dict[Text, Text | int] = ()
    ipc: Text | None = None
    shm_size: Text | int | None = None
    cpuset: Text | int | None = None
    hostname: Text | None = None
    extra_hosts: Texts | dict[Text, Text] = ()
    labels: Texts | dict[Text, Text] = ()


class OwnSection(_Part):
    """What gb10 knows of a recipe beyond sparkrun's keys."""

    engine: Engine | None = None
    releases: Releases | None = None
    status: Status = "not measured"
    answers: Answers | None = None
    """What ``run`` asks first; absent: what the options of the command say."""
    sources: Texts = ()
    notes: Texts = ()
    patches: Texts = ()
    """Diffs that the image needs, as ``--patch`` takes them: ``SOURCE=URL#sha256=…``, ``SOURCE=FILE``."""
    measured: Annotated[tuple[Measurement, ...], Field(max_length=MOST)] = ()
    variants: Annotated[dict[Name, Variant], Field(max_length=MOST)] = Field(default_factory=dict)
    host: HostSection = HostSection()

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
