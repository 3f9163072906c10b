"""Optional layers of a recipe: left out by ``--without``, or because they do not fit another release."""

from collections.abc import Sequence

from gb10.core.fields import requirement_name
from gb10.errors import UsageError
from gb10.image.plan.steps import class_of
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock


def drop_optional_layers(recipe: Recipe, lock: Lock, names: Sequence[str]) -> tuple[Recipe, Lock]:
    """Recipe and lock without these layers. Raises UsageError for a layer that is not optional.

    No other layer takes their wheels: the layers that stay keep their keys.
    """
    for name in names:
        _require_optional(recipe, name)
    kept = tuple(layer for layer in recipe.layers if layer.name not in names)
    image = {
        architecture: tuple(wheel for wheel in wheels if class_of(wheel.name, recipe.layers) not in names)
        for architecture, wheels in lock.wheels.image.items()
    }
    wheels = lock.wheels.model_copy(update={"image": image})
    return recipe.model_copy(update={"layers": kept}), lock.model_copy(update={"wheels": wheels})


def asking_less(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The recipe without the requirements of these layers, for resolving: they bind no other release then.

    Its layers stay. Raises UsageError for a layer that is not optional.
    """
    for name in names:
        _require_optional(recipe, name)
    kept = tuple(text for text in recipe.requirements if class_of(requirement_name(text), recipe.layers) not in names)
    return recipe.model_copy(update={"requirements": kept}) if names else recipe


def optional_layer_of(recipe: Recipe, project: str) -> str | None:
    """The optional layer that takes a project, if an optional one does."""
    optional = {layer.name for layer in recipe.layers if layer.optional}
    name = class_of(project, recipe.layers)
    return name if name in optional else None


def _require_optional(recipe: Recipe, name: str) -> None:
    optional = [layer.name for layer in recipe.layers if layer.optional]
    if name not in optional:
        known = any(layer.name == name for layer in recipe.layers)
        raise UsageError(
            f"--without {name}: the {recipe.engine} recipe {'needs this layer' if known else 'has no such layer'}",
            hint=f"optional: {', '.join(optional)}" if optional else "it has no optional layers",
        )
