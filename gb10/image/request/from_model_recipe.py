"""``image --recipe NAME``: what a model recipe needs becomes a request, and each thing that differs is said."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import DEFAULT_ENGINE, ROOT, Catalog
from gb10.image.request.planning import Request
from gb10.image.request.recipe_mods import Release, foreign_mods, load_file, mods_of, surely_foreign
from gb10.models.issue import errors_of
from gb10.models.load.image_key_values import image_wish, read_key_values
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.needs.image_need import ImageNeed, image_need, key_of
from gb10.models.registries.recipe_file import SUFFIXES, RecipeFile, find_recipe, read_text
from gb10.models.registries.trust import mods_here, powers_here, require_trust
from gb10.models.render.rendering import refused

FOREIGN = "patches/foreign"
PULL = "https://github.com/{repository}/pull/{number}.diff"
Say = Callable[[str], object]
"""Gets each sentence about what differs from the recipe."""
REPOSITORIES: Mapping[str, str] = {"vllm": "vllm-project/vllm", "flashinfer": "flashinfer-ai/flashinfer"}


def with_model_recipe(asked: Request, file: RecipeFile, say: Say, *, trust: bool = False) -> Request:
    """The request for the image of a model recipe; the user's own options win.

    Raises UsageError for a recipe with a mistake, for one that is not trusted, and with the reason for one whose image
    gb10 cannot build.
    """
    recipe = load_file(file)
    if errors_of(recipe.issues):
        raise refused(recipe, recipe.issues)
    require_trust(recipe, file, powers_here(recipe, file, surely_foreign(recipe, file)), trust=trust)
    need = image_need(recipe)
    if asked.engine not in (DEFAULT_ENGINE, need.engine) and load_recipe(_path(asked.engine)).engine != need.engine:
        raise UsageError(
            f"{file.shown} is for {need.engine}, and --engine names {asked.engine}", hint="leave out --engine"
        )
    engine, refs = _engine(need, asked)
    image = load_recipe(_path(engine))
    version = refs.get(image.engine, image.version)
    release = Release(engine=image.engine, version=version)
    require_trust(recipe, file, mods_here(recipe, file, foreign_mods(recipe, file, release)), trust=trust)
    mods, said = _mods(recipe, file, release)
    left = tuple(layer.name for layer in image.layers if layer.optional and not _has_word(layer.name, need.words))
    model = None if asked.kernels or asked.model else need.model
    for line in (*need.said, *said, _summary(engine, version, mods, left, model)):
        say(f"{file.shown}: {line}")
    return replace(
        asked,
        engine=engine,
        refs=refs,
        mods=mods,
        patches=(*_patches(need), *asked.patches),
        sources=(*need.sources, *asked.sources),
        without=left,
        model=asked.model or model,
        serves=key_of(need),
    )


def _path(engine: str) -> Path:
    return Catalog(ROOT).recipe(engine)


def _engine(need: ImageNeed, asked: Request) -> tuple[str, dict[str, str]]:
    """The image recipe of the release that is needed, and the releases that differ from it; ``--ref`` wins."""
    refs = {**need.refs, **asked.refs}
    wanted = refs.get(need.engine)
    catalog = Catalog(ROOT)
    recipes = {name: load_recipe(catalog.recipe(name)) for name in catalog.engines()}
    fitting = (name for name, recipe in recipes.items() if recipe.engine == need.engine and recipe.version == wanted)
    name = asked.engine if asked.engine != DEFAULT_ENGINE else next(fitting, need.engine)
    if wanted and Version(wanted) == Version(recipes[name].version):
        del refs[need.engine]
    return name, refs


def _mods(recipe: ModelRecipe, file: RecipeFile, release: Release) -> tuple[tuple[str, ...], list[str]]:
    """The mods to bake, ours or those beside the recipe, and what is said of the others. Raises UsageError."""
    found: list[str] = []
    said: list[str] = []
    for mod in mods_of(recipe, file):
        reason = mod.is_left_out(release)
        if reason:
            said.append(f"the mod {mod.name} is left out: {reason}")
        elif mod.ours:
            found.append(mod.ours)
            said += [mod.replaced] if mod.replaced else []
        elif mod.beside:
            found.append(str(mod.beside))
            said.append(f"the mod {mod.name} of the recipe is baked: {mod.beside}")
        else:
            raise UsageError(
                f"{file.shown}: the mod {mod.written[:80]!r} is neither beside the recipe nor one of ours",
                hint="put its folder beside the recipe, or remove it and give it by --mod DIR",
            )
    return tuple(found), said


def _patches(need: ImageNeed) -> Iterator[str]:
    """The recipe's diffs, then its pull requests: a file of the checkout, else their address, fetched once."""
    yield from need.patches
    for source, number in need.pulls:
        own = ROOT / FOREIGN / f"{source}-{number}.diff"
        url = PULL.format(repository=REPOSITORIES[source], number=number)
        yield f"{source}={own if own.is_file() else url}"


def _has_word(layer: str, words: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(layer)}(?![a-z0-9])", words, re.IGNORECASE) is not None


def _summary(engine: str, version: str, mods: tuple[str, ...], left: tuple[str, ...], model: str | None) -> str:
    """``the same as --engine …``, so that each choice can be made by hand."""
    words = [f"--engine {engine}", f"(release {version})"]
    words += [f"--mod {mod}" for mod in mods] + [f"--without {name}" for name in left]
    words += [f"--for-model {model} (--kernels core takes our own choice, and asks no Hub)"] if model else []
    return f"the same as {' '.join(words)}"


def with_recipe(asked: Request, name: str, say: Say, *, trust: bool) -> Request:
    """The request of a model recipe (ours, of a registry, a YAML file), or of a file of KEY=VALUE lines."""
    file = find_recipe(name)
    yaml = file.path.suffix in SUFFIXES
    return with_model_recipe(asked, file, say, trust=trust) if yaml else with_wish(asked, file.path, say)


def with_wish(asked: Request, path: Path, say: Say) -> Request:
    """The request with the file's engine and releases; ``--ref`` wins. Raises UsageError when it cannot be built."""
    wish = image_wish(read_key_values(read_text(path), str(path)), str(path))
    if asked.engine not in (DEFAULT_ENGINE, wish.engine):
        raise UsageError(f"{path} is for {wish.engine}, and --engine names {asked.engine}", hint="leave out --engine")
    refs: Mapping[str, str] = {**wish.refs, **asked.refs}
    releases = " ".join(f"--ref {name}={release}" for name, release in refs.items())
    say(f"{path}: the same as --engine {wish.engine} {releases}")
    if wish.ignored:
        say(f"{path}: our lock decides instead of {', '.join(wish.ignored)}")
    return replace(asked, engine=wish.engine, refs=refs)
