"""What a word after ``run`` means: a recipe, a recipe of a registry, a model's folder, or a model on the Hub."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.models.choose.choosing import Choice, ChoiceRequest
from gb10.models.choose.writing import recipe_name, recipe_text
from gb10.models.load.loading import load_model_recipe
from gb10.models.memory.gguf import SUFFIX as GGUF
from gb10.models.registries.recipe_file import SUFFIXES, model_names, models_folder
from gb10.serving.run.prepare_service import RecipeSource, load_source

HUB: Final = re.compile(r"[\w][\w.-]*/[\w][\w.-]*(?:@[\w./-]+)?(?::[\w.-]+)?", re.ASCII)
PAGE: Final = re.compile(
    r"https://(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:/(?:tree/([\w./-]*\w))?)?/?", re.ASCII
)
"""The page of a model in a browser, of one commit or of the newest."""
PART: Final = re.compile(r"(?:.*/)?(?:config\.json|[^/]+\.safetensors(?:\.index\.json)?)")
MODEL: Final = re.compile(r"^model:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundSource:
    """The recipe of a word; ``choice`` where gb10 chose it, ``told`` says in a line what the word was taken for."""

    source: RecipeSource
    choice: Choice | None = None
    note: str = ""


def find_source(host: Host, word: str, request: ChoiceRequest) -> FoundSource:
    """The recipe of a word, tried in this order: a recipe, ``@REGISTRY/NAME``, a path that exists, the Hub.

    A page of the Hub means its model, and a model's config or weights mean their folder. A model that one of our
    recipes serves is served by that recipe. Raises UsageError, FetchError.
    """
    if page := PAGE.fullmatch(word):
        word = "@".join(filter(None, page.groups()))
    if PART.fullmatch(word) and Path(word).is_file():
        word = str(Path(word).parent)
    gguf = word.endswith(GGUF)
    if word.startswith("@") or (not gguf and _is_recipe(word)):
        return FoundSource(source=load_source(host.env, word))
    folder = Path(word).is_dir() or (gguf and Path(word).is_file())
    if not folder and not HUB.fullmatch(word.rstrip("/")):
        return FoundSource(source=load_source(host.env, word))
    word = word if folder else word.rstrip("/")
    ours = None if folder or request != ChoiceRequest() else _recipe_of(word)
    if ours:
        note = f"{word}: the recipe {ours} serves it"
        return FoundSource(source=load_source(host.env, ours), note=note)
    from gb10.image.request.chosen_recipe import choose_for  # noqa: PLC0415 - a sixth of a second for recipes

    choice = choose_for(host, word, request)
    name = recipe_name(choice.files.name)
    recipe = load_model_recipe(recipe_text(choice), f"{name}.yaml")
    kind = "a GGUF file" if gguf else "a model's folder" if folder else "a model on the Hub"
    return FoundSource(
        source=RecipeSource(recipe=recipe, sizes=choice.files.sizes),
        choice=choice,
        note=f"{word}: {kind}, without a recipe",
    )


def _is_recipe(word: str) -> bool:
    """Whether a word is the file of a recipe, with or without its suffix, or a name of ours."""
    places = (Path(word), *(Path(word + suffix) for suffix in SUFFIXES))
    try:
        return any(place.is_file() for place in places) or word in model_names()
    except (OSError, ValueError) as error:  # a name that no file system takes
        raise UsageError(f"{word[:80]!r} is no name of a recipe", hint="./build.py recipe list shows them") from error


def _recipe_of(model: str) -> str | None:
    """Our recipe of exactly this model; None where we have none, or several."""
    found = []
    for name in model_names():
        text = (models_folder() / f"{name}.yaml").read_text(encoding="utf-8")
        served = MODEL.search(text)
        if served and served[1] == model:
            found.append(name)
    return found[0] if len(found) == 1 else None
