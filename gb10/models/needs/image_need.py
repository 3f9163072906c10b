"""What a model recipe needs of an image, or the one sentence why gb10 cannot build it. Pure.

``said`` are the sentences that name each thing which is not followed to the letter: nothing is replaced in silence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gb10.errors import UsageError
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.models.needs.build_arguments import BuildArguments, read_arguments
from gb10.models.needs.containers import image_of
from gb10.models.render.sparkrun import VLLM_KIND, runtime_of

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


def image_need(recipe: ModelRecipe) -> ImageNeed:
    """What the recipe needs, all its variants included. Raises UsageError with the reason."""
    runtime = runtime_of(recipe)
    if runtime not in (*VLLM_KIND, "sglang"):
        name = next((name for name in OTHER_ENGINES if runtime.startswith(name)), "")
        raise refusal(recipe, OTHER_ENGINES.get(name, f"its runtime is {runtime[:80]!r}; gb10 builds vLLM and SGLang"))
    engine = "sglang" if runtime == "sglang" else "vllm"
    try:
        arguments = read_arguments(tuple(recipe.build_args.values()))
        taken = image_of(recipe.container, engine, built=recipe.format == "v1" or recipe.text("builder") == "eugr")
    except ValueError as error:
        raise refusal(recipe, str(error)) from error
    arguments = _checked(recipe, arguments)
    own = own_section(recipe)
    layers = arguments.layers
    variants = (value for variant in own.variants.values() for _, value in variant.overrides)
    refs = {**({engine: taken.release} if taken.release else {}), **arguments.refs}
    return ImageNeed(
        engine=engine,
        refs=refs,
        mods=recipe.mods,
        pulls=arguments.pulls,
        sources=arguments.sources,
        patches=own.patches,
        model=_model(recipe),
        words=" ".join([recipe.command or "", *recipe.env, *map(str, recipe.defaults.values()), *variants, *layers]),
        said=(*taken.said, *arguments.said, *_layers(arguments), *_variables(recipe)),
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
