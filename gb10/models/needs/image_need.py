"""What a model recipe needs of an image, or the one sentence why gb10 cannot build it. Pure.

``said`` are the sentences that name each thing which is not followed to the letter: nothing is replaced in silence.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.render.sparkrun import VLLM_KIND, runtime_of

BUILT_RELEASE: Final = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)")
MOVING: Final = frozenset({"main", "master", "nightly", "latest"})
NO_EFFECT: Final = {
    **dict.fromkeys(("--use-wheels", "--force-flashinfer-download", "--force-vllm-download", "--force-download"), 0),
    **dict.fromkeys(("--copy-parallel", "--full-log", "--no-build", "--cleanup", "--no-cache", "--setup"), 0),
    **dict.fromkeys(("-j", "--build-jobs", "-u", "--user", "--network", "--config", "-t", "--tag"), 1),
    **dict.fromkeys(("-c", "--copy-to", "--copy-to-host"), 1),
}
"""Options that change where or how fast that script builds, and how many values they have."""
TRANSFORMERS: Final = frozenset({"--tf5", "--pre-tf", "--pre-transformers"})
REBUILDS: Final = {"--rebuild-vllm": "vllm", "--rebuild-flashinfer": "flashinfer"}
LOCKED: Final = {
    "--torch-version": "torch",
    "--torchvision-version": "torchvision",
    "--torchaudio-version": "torchaudio",
}
REFS: Final = {"--vllm-ref": "vllm", "--flashinfer-ref": "flashinfer"}
PULLS: Final = {"--apply-vllm-pr": "vllm", "--apply-flashinfer-pr": "flashinfer"}
HEAD: Final = re.compile(r"(?:refs/)?pull/(\d{1,6})(?:/head|/merge)?")
PULL: Final = re.compile(r"(?:https://github\.com/[\w.-]+/[\w.-]+/pull/)?(\d{1,6})/?")


COMMIT: Final = re.compile(r"[0-9a-f]{40}")
HOMES: Final = {
    "vllm": "https://github.com/vllm-project/vllm",
    "flashinfer": "https://github.com/flashinfer-ai/flashinfer",
}
REPOSITORY: Final = re.compile(r"https://[\w.-]+(?:/[\w.~-]+)+?(?:\.git)?/?")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildArguments:
    """``refs``: releases by source; ``sources``: commits, as ``--source`` takes them; ``pulls``: (source, number).

    ``layers`` are optional layers that are asked for.
    """

    refs: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    pulls: tuple[tuple[str, int], ...] = ()
    layers: tuple[str, ...] = ()
    mxfp4: bool = False
    said: tuple[str, ...] = ()


def read_arguments(texts: Sequence[str]) -> BuildArguments:
    """The arguments, each a word or several; raises ValueError with the reason for one that gb10 cannot follow."""
    reader = _Reader()
    words = [part for text in texts for word in text.split() for part in _parts(word)]
    while words:
        name = words.pop(0)
        if name in NO_EFFECT:
            del words[: NO_EFFECT[name] if words and not words[0].startswith("-") else 0]
        elif not reader.switch(name):
            reader.valued(name, words.pop(0) if words else "")
    return reader.arguments()


def _parts(word: str) -> list[str]:
    name, equals, value = word.partition("=")
    return [name, value] if equals and name.startswith("--") else [word]


class _Reader:
    """What the arguments say so far; a repository and its ref may come in any order."""

    def __init__(self) -> None:
        self.wanted: dict[str, str] = {}
        self.homes = dict(HOMES)
        self.pulls: list[tuple[str, int]] = []
        self.layers: list[str] = []
        self.said: list[str] = []
        self.mxfp4 = False

    def switch(self, name: str) -> bool:
        """Take an argument without a value; whether it was one."""
        if name in TRANSFORMERS:
            self.said.append(f"{name}: the release asks for its own transformers, so there is nothing to choose")
        elif name in REBUILDS:
            self.said.append(f"{name}: gb10 compiles what is missing; to compile again add --rebuild {REBUILDS[name]}")
        elif name == "--apply-preset-vllm-prs":
            self.said.append(f"{name}: that script's own list of pull requests is not applied")
        elif name in ("--exp-mxfp4", "--experimental-mxfp4"):
            self.mxfp4 = True
        elif name in ("--exp-b12x", "--experimental-b12x"):
            self.layers.append("b12x")
        else:
            return False
        return True

    def valued(self, name: str, value: str) -> None:
        """Take an argument with its value; raises ValueError with the reason."""
        if name in REFS:
            self.wanted[REFS[name]] = value
        elif name in PULLS:
            number = PULL.fullmatch(value)
            if number is None:
                raise ValueError(f"'{name} {value[:60]}' names no pull request")
            self.pulls.append((PULLS[name], int(number[1])))
        elif name in LOCKED:
            self.said.append(f"{name} {value}: the lock of the release decides {LOCKED[name]}")
        elif name == "--gpu-arch":
            self.said.append(f"{name} {value}: --arch decides, 12.1f when it is not given")
        elif name == "--vllm-repo" and REPOSITORY.fullmatch(value):
            self.homes["vllm"] = value.rstrip("/").removesuffix(".git")
        else:
            raise ValueError(f"its build argument {name[:60]!r} has no counterpart here")

    def arguments(self) -> BuildArguments:
        """All of it; raises ValueError for a branch, or for a fork without a commit."""
        refs: dict[str, str] = {}
        sources: list[str] = []
        for source, value in self.wanted.items():
            release, head = BUILT_RELEASE.fullmatch(value), HEAD.fullmatch(value)
            own = self.homes[source] == HOMES[source]
            if COMMIT.fullmatch(value):
                sources.append(f"{source}=git:{self.homes[source]}@{value}")
                self.said.append(f"{source} at {value[:12]}: what this commit changes of the locked release")
            elif release and own:
                refs[source] = release[1]
            elif head and own:
                self.said.append(f"--{source}-ref {value}: the newest release with this pull request in its place")
                self.pulls.append((source, int(head[1])))
            elif value in MOVING and own:
                self.said.append(f"--{source}-ref {value}: the newest release in its place")
            else:
                raise ValueError(_branch(source, value, self.homes[source]))
        if self.homes["vllm"] != HOMES["vllm"] and "vllm" not in self.wanted:
            raise ValueError(_branch("vllm", "its newest commit", self.homes["vllm"]))
        return BuildArguments(
            refs=refs,
            sources=tuple(sources),
            pulls=tuple(self.pulls),
            layers=tuple(self.layers),
            mxfp4=self.mxfp4,
            said=tuple(self.said),
        )


def _branch(source: str, value: str, home: str) -> str:
    fork = "" if home == HOMES[source] else f" of the fork {home[:80]}"
    return (
        f"it wants {source} at {value[:60]}{fork}, which moves; gb10 builds releases, and commits of 40 digits:"
        f" --source {source}=git:{home[:80]}@COMMIT"
    )


RELEASE: Final = r"v?(?P<release>\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)"
NEWEST: Final = {"vllm": "the newest release of vLLM", "sglang": "the newest release of SGLang"}
REPOSITORIES: Final[tuple[tuple[str, str], ...]] = (
    ("vllm", r"vllm-node[\w.-]*"),
    ("vllm", r"(?:ghcr\.io/spark-arena/)?dgx-vllm-eugr-nightly[\w-]*"),
    ("vllm", r"eugr/spark-vllm[\w-]*"),
    ("vllm", r"(?:docker\.io/)?vllm/vllm-openai[\w-]*"),
    ("vllm", r"(?:docker\.io/)?scitrera/dgx-spark-vllm"),
    ("vllm", r"nvcr\.io/nvidia/vllm"),
    ("sglang", r"(?:docker\.io/)?lmsysorg/sglang"),
    ("sglang", r"(?:docker\.io/)?scitrera/dgx-spark-sglang"),
    ("sglang", r"nvcr\.io/nvidia/sglang"),
)
"""Images that are a plain build of an engine: ours takes their place."""
OURS: Final = ("gb10/vllm", "gb10/sglang")
DATED: Final = re.compile(r"(?:^|[-_])(20\d{6,8})(?:$|[-_.])")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedImage:
    """``release`` is None for the newest."""

    release: str | None
    said: tuple[str, ...] = ()


def known_engine(container: str) -> str | None:
    """The engine of an image that is one of ours or a plain build by its makers; None for anybody else's."""
    name, _, digest = container.partition("@")
    repository = name.partition(":")[0] if "/" not in name.rpartition(":")[2] else name
    if digest:
        return None
    if repository in OURS:
        return repository.removeprefix("gb10/")
    return next((kind for kind, known in REPOSITORIES if re.fullmatch(known, repository)), None)


def image_of(container: str | None, engine: str, *, built: bool) -> NamedImage:
    """What an image's name asks for; raises ValueError with the reason when gb10 cannot build it.

    ``built``: eugr's launcher builds the image itself, so that a name without a registry is only a tag.
    """
    if container is None:
        return NamedImage(release=None, said=(f"no image is named: {NEWEST[engine]}",))
    name, _, digest = container.partition("@")
    if digest:
        raise ValueError(f"it names somebody's finished image by digest, {container[:100]}: there is nothing to build")
    repository, _, tag = name.partition(":") if "/" not in name.rpartition(":")[2] else (name, "", "")
    own = re.fullmatch(rf"gb10/(vllm|sglang):{RELEASE}(?:-.*)?", name)
    if own:
        if own[1] != engine:
            raise ValueError(f"its image {name} is not of {engine}, which its command starts")
        return NamedImage(release=own["release"])
    known = next((kind for kind, pattern in REPOSITORIES if re.fullmatch(pattern, repository)), None)
    if known is None and built and "/" not in repository:
        known = "vllm"
    if known is None:
        raise ValueError(f"it names somebody's finished image, {container[:100]}: there is nothing to build")
    if known != engine:
        raise ValueError(f"its image {name} is of {known}, and its command starts {engine}")
    return _tagged(repository, tag, engine, container)


def _tagged(repository: str, tag: str, engine: str, container: str) -> NamedImage:
    release = re.fullmatch(rf"{RELEASE}(?:-.*)?", tag)
    if release and not repository.startswith("nvcr.io/"):
        return NamedImage(release=release["release"])
    dated = DATED.search(tag)
    if dated:
        note = (
            f"{container} is a build of {dated[1][:4]}-{dated[1][4:6]}-{dated[1][6:8]}: {NEWEST[engine]} in its place"
        )
        return NamedImage(release=None, said=(note,))
    note = f"{container} is no release: {NEWEST[engine]} in its place"
    return NamedImage(release=None, said=(note,))


OTHER_ENGINES: Final[Mapping[str, str]] = {
    "llama-cpp": "it is served by llama.cpp, and gb10 builds vLLM and SGLang",
    "trtllm": "it is served by TensorRT-LLM, which runs in NVIDIA's own container; gb10 builds vLLM and SGLang",
    "atlas": "it is served by Atlas, and gb10 builds vLLM and SGLang",
    "modular-max": "it is served by Modular MAX, and gb10 builds vLLM and SGLang",
    "tokenary": "it is served by tokenary, and gb10 builds vLLM and SGLang",
}
MXFP4: Final = re.compile(r"--mxfp4-(?:backend|layers)\b")
FORK_OPTIONS: Final = re.compile(r"--load-format[= ]+b12x\b|B12X_MLA\w*", re.IGNORECASE)
FORK_VARIABLES: Final = ("VLLM_USE_B12X_", "VLLM_DSPARK_", "B12X_")
HUB: Final = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageNeed:
    """``refs`` are releases by source; none for the engine means the newest. ``pulls`` are (source, number),
    ``sources`` commits as ``--source`` takes them.

    ``model`` is the repository whose kernels are needed, with its revision; None when the recipe has a local path.
    """

    engine: str
    refs: Mapping[str, str]
    mods: tuple[str, ...]
    pulls: tuple[tuple[str, int], ...]
    sources: tuple[str, ...]
    patches: tuple[str, ...]
    model: str | None
    words: str
    """All text in which an optional layer of the image may be named."""
    said: tuple[str, ...]


def key_of(need: ImageNeed) -> str:
    """Equal for recipes that need the same image."""
    plain = asdict(replace(need, refs=dict(need.refs), said=()))
    return digest(json.loads(json.dumps(plain)))


def image_need(recipe: ModelRecipe) -> ImageNeed:
    """What the recipe needs, all its variants included. Raises UsageError with the reason."""
    runtime = runtime_of(recipe)
    if runtime not in (*VLLM_KIND, "sglang"):
        name = next((name for name in OTHER_ENGINES if runtime.startswith(name)), "")
        raise refusal(recipe, OTHER_ENGINES.get(name, f"its runtime is {runtime[:80]!r}; gb10 builds vLLM and SGLang"))
    engine = "sglang" if runtime == "sglang" else "vllm"
    try:
        arguments = read_arguments(tuple(recipe.build_args.values()))
        image = image_of(recipe.container, engine, built=recipe.version == "1" or recipe.text("builder") == "eugr")
    except ValueError as error:
        raise refusal(recipe, str(error)) from error
    arguments = _checked(recipe, arguments)
    own = own_section(recipe)
    layers = arguments.layers
    variants = (value for variant in own.variants.values() for _, value in variant.overrides)
    refs = {**({engine: image.release} if image.release else {}), **arguments.refs}
    return ImageNeed(
        engine=engine,
        refs=refs,
        mods=recipe.mods,
        pulls=arguments.pulls,
        sources=arguments.sources,
        patches=own.patches,
        model=_model(recipe),
        words=" ".join([recipe.command or "", *recipe.env, *map(str, recipe.defaults.values()), *variants, *layers]),
        said=(*image.said, *arguments.said, *_layers(arguments), *_variables(recipe)),
    )


def refusal(recipe: ModelRecipe, reason: str) -> UsageError:
    """The error of a recipe whose image gb10 cannot build."""
    hint = "`recipe render` shows what its own launcher runs; `recipe lint` says what is wrong with it"
    return UsageError(f"{recipe.file}: gb10 cannot build the image of this recipe: {reason}", hint=hint)


def _checked(recipe: ModelRecipe, arguments: BuildArguments) -> BuildArguments:
    """The arguments; raises UsageError for options that only another build of vLLM has."""
    command = recipe.command or ""
    if arguments.mxfp4 or MXFP4.search(command) or "mxfp4" in (recipe.container or ""):
        reason = "it needs a fork of vLLM for MXFP4; our recipe gpt-oss-120b serves such a model by a release"
        raise refusal(recipe, reason)
    found = FORK_OPTIONS.search(command)
    if found:
        reason = f"'{found[0]}' is in no release of vLLM, only in a fork; our image has the kernels of b12x alone"
        raise refusal(recipe, reason)
    layers = ("b12x",) if "b12x" in (recipe.container or "") else ()
    return replace(arguments, layers=(*arguments.layers, *layers))


def _layers(arguments: BuildArguments) -> tuple[str, ...]:
    wanted = "b12x" in arguments.layers
    return ("b12x: the release's own kernels, in a layer of the image, in place of the fork",) if wanted else ()


def _variables(recipe: ModelRecipe) -> tuple[str, ...]:
    names = [name for name in recipe.env if name.startswith(FORK_VARIABLES)]
    if not names:
        return ()
    return (f"{', '.join(names[:4])}{', …' if len(names) > 4 else ''}: read by a fork of vLLM, not by a release",)


def _model(recipe: ModelRecipe) -> str | None:
    name, revision = recipe.model or "", recipe.text("model_revision")
    if HUB.fullmatch(name) is None:
        return None
    return f"{name}@{revision}" if revision else name
