"""What a recipe serves, for the rules: engine, release, and the options of the rendered command with their lines."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from math import floor
from typing import Final

from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.models.issue import Issue
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.memory.model import Model
from gb10.models.needs.image_need import known_engine
from gb10.models.render.placeholders import substitute
from gb10.models.render.rendered import Peer, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.models.render.serve_line import SERVE

OURS: Final = "gb10/"
"""The names of our images, whose patches are those of this checkout."""
PATCHES: Final = re.compile(r"io\.github\.gb10\.patches\.([a-z0-9-]+)")
PATCH_NUMBER: Final = re.compile(r"^(\d{4})-")
VERSION: Final = "org.opencontainers.image.version"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """``patches`` are named as in the checkout, without their titles: ``sglang/0005``."""

    release: str | None
    patches: frozenset[str]


def facts_of(labels: Mapping[str, str]) -> ImageFacts:
    """The facts of an image's labels; those of an image of another builder say nothing."""
    found = (
        f"{source[1]}/{number[1]}"
        for name, text in labels.items()
        if (source := PATCHES.fullmatch(name))
        for word in text.split()
        if (number := PATCH_NUMBER.match(word))
    )
    ours = any(PATCHES.fullmatch(name) for name in labels)
    return ImageFacts(release=labels.get(VERSION) if ours else None, patches=frozenset(found))


def patches_of(container: str | None) -> frozenset[str]:
    """The patches of an image by its name: of ours all that this checkout has, of another none."""
    return _own_patches() if (container or "").startswith(OURS) else frozenset()


@cache
def _own_patches() -> frozenset[str]:
    found = ((path.parent.name, PATCH_NUMBER.match(path.name)) for path in (ROOT / "patches").glob("*/[0-9]*"))
    return frozenset(f"{source}/{number[1]}" for source, number in found if number)


SHELL: Final = re.compile(r"\s*(?:\S*/)?(?:ba|da|z)?sh\s+-\w*c\b")
"""``bash -c``, ``/bin/sh -lc``."""
RELEASE: Final = re.compile(r"(?:[:/]v?|-v?(?=0\.))(\d+\.\d+(?:\.\d+)?(?:rc\d+|\.post\d+)?)(?=[-_]|$)")
"""Behind a dash a model's version stands, too: ``vllm-glm-4.7``, ``mimo-v2.5``. ``spark-vllm-0.33.0`` is a release."""
EUGR: Final = "vllm-node"
PLAIN_BUILDS: Final = (EUGR, f"{EUGR}-tf5")
"""What eugr's launcher builds of vLLM itself; its other names are forks."""
FORKED: Final = re.compile(r"--exp-\w+")
"""The options of that build that take a fork."""
NVIDIA: Final = ("nvcr.io/nvidia/vllm", "nvcr.io/nvidia/sglang", "nvcr.io/nvidia/pytorch")
MOVING: Final = re.compile(r"(latest|nightly|stable|main|dev)([-_.].*)?")
OPTION: Final = re.compile(r"-{1,2}[A-Za-z]")
SHORT: Final[Mapping[str, str]] = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-q": "--quantization",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
    "--ep": "--ep-size",
}
MOST: Final = 64
"""Nodes of the longest launch that is looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LintCase:
    """A recipe as it would run on as many nodes as it asks for."""

    recipe: ModelRecipe
    engine: str | None
    release: str
    command: str
    nodes: int
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By long name with dashes: the values in the order of the command; a switch has an empty one."""
    first: tuple[str, ...] = ()
    """The words of the command before its first option: the model, for vLLM."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """The options as the command writes them, by long name."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    unknown: str = ""
    """The image, where no release is known of it: somebody's build, or a fork. Then ``release`` is a guess."""
    foreign_image: bool = False
    """The image's tag names a release, and the image is somebody's own build: it may be a fork."""
    patches: frozenset[str] = frozenset()
    """Patches of ours in the image, as ``sglang/0005``."""
    added: frozenset[str] = frozenset()
    """Options that mods of ours add to the server."""
    foreign: bool = False
    """A mod may add options that nobody declared."""
    issues: tuple[Issue, ...] = ()
    sizes: Model | None = None
    """The model's sizes, where a command line names its files; else those of the checkout count."""

    def line_of(self, option: str) -> int:
        """The file's line of an option: in the command, or of its parameter, or of the command."""
        written = self.recipe.command or ""
        found = re.search(rf"(?<![\w-]){re.escape(self.spelled.get(option, option))}(?![\w-])", written)
        if found:
            return self.recipe.text_line(("command",), found.start())
        name = option.lstrip("-").replace("-", "_")
        return self.recipe.line("defaults", name) if name in self.recipe.defaults else self.recipe.line("command")

    def number(self, option: str) -> float | None:
        """The value of an option as a number; None when it is absent or no number."""
        values = self.options.get(option, ())
        try:
            return float(values[-1]) if values else None
        except ValueError:
            return None


def lint_case(recipe: ModelRecipe, releases: Mapping[str, str], variant: str | None = None) -> LintCase:
    """What a recipe serves, or one of its variants; ``releases`` are those of our images, if it names none."""
    peer: Peer = "eugr" if recipe.format == "v1" else "sparkrun"
    nodes = tuple(f"node-{number}" for number in range(1, min(requested_nodes(recipe), MOST) + 1))
    rendered = render_recipe(recipe, RenderRequest(peer=peer, nodes=nodes, variant=variant))
    # A recipe that cannot be rendered is read with its defaults in the places.
    values = {"model": recipe.model, **recipe.defaults}
    command = rendered.serve or substitute(recipe.command or "", values.get)[0]
    engine = engine_of(command, recipe)
    words = words_of(command, engine)
    options, spelled = options_of(words)
    container = (recipe.container or "").partition("@")[0]
    return LintCase(
        recipe=recipe,
        engine=engine,
        release=release_of(recipe, engine, releases),
        command=command,
        nodes=len(nodes),
        options=options,
        first=tuple(takewhile(lambda word: not OPTION.match(word), words)) if engine else (),
        spelled=spelled,
        parameters=rendered.parameters,
        unknown=unknown_image(recipe),
        foreign_image=bool(container) and known_engine(container) is None and not _declared(recipe),
        patches=patches_of(recipe.container),
        foreign=bool(recipe.mods),
        issues=rendered.issues,
    )


def requested_nodes(recipe: ModelRecipe) -> int:
    """The nodes that a recipe asks for at least."""
    sizes = [recipe.defaults.get(f"{kind}_parallel") for kind in ("tensor", "pipeline", "data")]
    world = 1
    for size in sizes:
        world *= size if isinstance(size, int) and 0 < size <= MOST else 1
    least = recipe.values.get("min_nodes")
    if isinstance(least, int) and least > 0:
        return least if recipe.values.get("solo_only") else max(least, world)
    return 1 if recipe.values.get("solo_only") else max(world, 2 if recipe.values.get("cluster_only") else 1)


def engine_of(command: str, recipe: ModelRecipe) -> str | None:
    """The engine whose server a command starts."""
    found = next((name for name, pattern in SERVE.items() if pattern.search(command)), None)
    runtime = recipe.text("runtime") or ""
    return found or next((name for name in SERVE if name in runtime), None)


def unknown_image(recipe: ModelRecipe) -> str:
    """The image that a recipe names, where nothing tells its engine's release; empty for one that is known.

    A plain build by an engine's makers or by eugr's launcher is of the newest release. A digest, a branch and
    somebody's repository are not.
    """
    container = recipe.container or ""
    if not container or release_in_tag(container) or _declared(recipe):
        return ""
    name, _, digest = container.partition("@")
    repository, _, tag = name.partition(":") if "/" not in name.rpartition(":")[2] else (name, "", "")
    fork = any(FORKED.fullmatch(one) for one in recipe.build_args.values())
    own = repository.startswith(EUGR) and repository not in PLAIN_BUILDS
    plain = known_engine(container) is not None and not own and (not tag or MOVING.fullmatch(tag) is not None)
    return "" if plain and not digest and not fork else container


def release_of(recipe: ModelRecipe, engine: str | None, releases: Mapping[str, str]) -> str:
    """The release that the container's tag names, else the recipe's only one, else that of our image, else empty."""
    return release_in_tag(recipe.container or "") or _declared(recipe) or releases.get(engine or "", "")


def release_in_tag(image: str) -> str:
    """The release that an image's tag names; empty for none. Tags of NVIDIA name months: 26.08."""
    found = RELEASE.search(image)
    return found[1] if found and not image.startswith(NVIDIA) else ""


def _declared(recipe: ModelRecipe) -> str:
    """The release of a recipe of ours that is for one alone: ``releases: ==0.5.10``."""
    found = re.fullmatch(r"==\s*([0-9][0-9a-z.]*)", own_section(recipe).releases or "")
    return found[1] if found else ""


def words_of(command: str, engine: str | None) -> list[str]:
    """The words of the serve command; those behind ``&&``, ``|`` or ``;`` are another's. A broken quote ends them.

    A command in quotation marks is read, too: ``bash -c 'vllm serve …'``.
    """
    command = _inside(command.replace("\\\n", ""), engine)  # a shell joins such lines before it reads words
    start = SERVE[engine].search(command) if engine else None
    lexer = shlex.shlex(command[start.end() if start else 0 :], posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set(";&|"):
                break
            found.append(word)
    except ValueError:
        pass
    return [word for word in found if word.strip("\n\\ ")]


def _inside(command: str, engine: str | None) -> str:
    """The text of the one word that holds the whole command, as a shell gets it from ``bash -c``; else the command."""
    if not engine or not SHELL.match(command):
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return next(
        (word for word in words if any(char.isspace() for char in word) and SERVE[engine].search(word)), command
    )


def options_of(words: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Values and spelling of the options by long name."""
    values: dict[str, tuple[str, ...]] = {}
    spelled: dict[str, str] = {}
    last: str | None = None
    for word in words:
        if OPTION.match(word):
            name, equals, value = word.partition("=")
            last = SHORT.get(name, name.replace("_", "-") if name.startswith("--") else name)
            spelled.setdefault(last, name)
            values[last] = (*values.get(last, ()), value)
            last = None if equals else last
        elif last is not None:
            values[last] = (*values[last][:-1], word) if not values[last][-1] else (*values[last], word)
    return values, spelled


Options = Mapping[str, tuple[str, ...]]
UNITS: Final[Mapping[str, int]] = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", start=1)},
}
"""As vLLM reads them: small letters are powers of 1,000."""
NUMBER: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kmgtKMGT]?)")
LARGEST: Final = 1 << 50


def json_object(text: str) -> Mapping[str, object]:
    """A JSON object; empty for anything else."""
    try:
        found = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _last(options: Options, *names: str) -> str:
    return next((options[name][-1] for name in names if options.get(name)), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedDrafts:
    """Speculative tokens of a step, and how they are made."""

    tokens: int
    method: str
    model: str


def vllm_drafts(options: Options) -> RequestedDrafts | None:
    """vLLM's drafts, in each of its spellings: JSON, its fields as options, or the short options."""
    fields: dict[str, object] = {}
    for name in ("--speculative-config", "-sc"):
        for text in options.get(name, ()):
            fields |= json_object(text)
        fields |= {
            option.partition(".")[2].replace("-", "_"): values[-1]
            for option, values in options.items()
            if option.startswith(f"{name}.")
        }
    for key, name in (
        ("method", "--spec-method"),
        ("model", "--spec-model"),
        ("num_speculative_tokens", "--spec-tokens"),
    ):
        if options.get(name):
            fields[key] = options[name][-1]
    text = str(fields.get("num_speculative_tokens") or "")
    tokens = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0
    method, model = (str(fields.get(name) or "") for name in ("method", "model"))
    return RequestedDrafts(tokens=tokens, method=method, model=model) if tokens else None


def word(options: Options, *names: str) -> str:
    """The value of the first of these options that has one; ``auto`` when none has."""
    return next((one for name in names if (one := _last(options, name)) not in ("", "auto")), "auto")


def whole(options: Options, *names: str) -> int | None:
    """A whole number, with a unit or without; None when it is absent, ``auto``, or -1."""
    text = _last(options, *names).strip()
    if text in ("", "auto", "-1") or "{" in text:
        return None
    found = NUMBER.fullmatch(text)
    size = floor(float(found[1]) * UNITS[found[2]]) if found else 0
    if not 0 < size <= LARGEST:
        _refuse_unset(names[0], text)
        raise UsageError(f"{names[0]} {text[:40]!r} is not a whole number", hint="write one, such as 65536")
    return size


def size_in_gib(options: Options, name: str) -> float | None:
    """A number of GiB."""
    text = _last(options, name)
    return None if not text or "{" in text else _real(name, text, 4096)


def share(options: Options, name: str) -> float | None:
    """A share of memory, above 0 and up to 1; None when it is absent or ``auto``. Raises UsageError."""
    text = _last(options, name)
    return None if text in ("", "auto") or "{" in text else _real(name, text, 1)


UNSET: Final = "is known only where the file is used"
"""The end of the message about a value that is a variable of the shell or of compose."""


def _refuse_unset(name: str, text: str) -> None:
    """Raises UsageError."""
    if "$" in text:
        raise UsageError(f"{name} {text[:40]} {UNSET}", hint="write its value")


def _real(name: str, text: str, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        _refuse_unset(name, text)
        found = 0.0
    if not 0 < found <= most:
        raise UsageError(f"{name} {text[:40]!r} is not a number above 0, up to {most:g}", hint="write one, such as 0.8")
    return found
