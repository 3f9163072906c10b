"""The frozen type of a loaded model recipe: plain values, the line of every key and value, and the issues. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from gb10.models.issue import Issue

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
