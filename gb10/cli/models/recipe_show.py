"""How model recipes are listed and shown, and the error of one that has mistakes."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from gb10.models.load.model_recipe import US, Measurement, ModelRecipe, OwnSection, own_section
from gb10.models.render.sparkrun import runtime_of


def document(recipe: ModelRecipe) -> dict[str, object]:
    """A recipe as data."""
    return {
        "name": recipe.name,
        "file": recipe.file,
        "format": recipe.format,
        "model": recipe.model,
        "runtime": runtime_of(recipe),
        "container": recipe.container,
        "description": recipe.text("description"),
        "nodes": nodes_of(recipe),
        "mods": list(recipe.mods),
        "defaults": {key: _plain(value) for key, value in recipe.defaults.items()},
        "gb10": own_section(recipe).model_dump(mode="json") if recipe.format == "gb10" else None,
        "issues": [issue.document for issue in recipe.issues],
    }


def _plain(value: object) -> object:
    """A value that JSON has; dates and the like as text."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def nodes_of(recipe: ModelRecipe) -> str:
    """``1``, ``2 or more``, ``1 to 4``, ``any``: what the recipe says of its nodes."""
    values = recipe.values
    if values.get("solo_only") or values.get("mode") == "solo":
        return "1"
    least = values.get("min_nodes") or (2 if values.get("cluster_only") else None)
    most = values.get("max_nodes")
    if least is None and most is None:
        return "any"
    if most is None:
        return f"{least} or more"
    return str(most) if (least or 1) == most else f"{least or 1} to {most}"


def listed(recipes: Mapping[str, ModelRecipe]) -> Iterable[str]:
    """A table of recipes by name: name, engine and its releases, nodes, whether the throughput is known, model."""
    rows = [("name", "engine", "nodes", "throughput", "model"), *(_row(*pair) for pair in recipes.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(name: str, recipe: ModelRecipe) -> tuple[str, str, str, str, str]:
    own = own_section(recipe)
    engine = f"{own.engine or runtime_of(recipe)} {own.releases or ''}".rstrip()
    return (name, engine, nodes_of(recipe), own.status, recipe.model or "")


def lines(recipe: ModelRecipe) -> Iterable[str]:
    """A recipe as lines to print."""
    fields = {
        "recipe": f"{recipe.name} ({recipe.format})",
        "file": recipe.file,
        "what": recipe.text("description"),
        "model": recipe.model,
        "runtime": runtime_of(recipe),
        "image": recipe.container,
        "nodes": nodes_of(recipe),
        "mods": ", ".join(recipe.mods),
        **{f"set {key}": value for key, value in recipe.defaults.items()},
    }
    for name, value in fields.items():
        if value not in (None, ""):
            yield f"{name:28} {' '.join(str(value).split())}"
    if recipe.format == "gb10":
        yield from own_lines(own_section(recipe))


def own_lines(own: OwnSection) -> Iterable[str]:
    """Status, notes, variants, measured rows and sources of our section, as lines to print."""
    yield f"{'throughput':28} {_status(own.status, own, None)}"
    for note in own.notes:
        yield f"{'note':28} {note}"
    for name, variant in own.variants.items():
        values = " ".join(f"{key}={value}" for key, value in variant.overrides)
        yield f"{f'variant {name}':28} {variant.what}"
        yield f"{'':28} {_status(own.status_of(name), own, name)}; sets {values}"
    for source, rows in groupby(own.measured, key=lambda row: row.source):
        for row in rows:
            way = "measured" if row.measured_by == US else "reported"
            yield f"{f'variant {row.variant}' if row.variant else way:28} {_throughput(row)}"
        yield f"{'':28} source: {source}"
    for source in own.sources:
        yield f"{'source':28} {source}"


def _status(status: str, own: OwnSection, variant: str | None) -> str:
    """The status in words that the rows below do not contradict: others may report what we have not measured."""
    if status == "not measured" and any(row.variant == variant for row in own.measured):
        return "not measured by gb10; what others report is of another release or files, or does not say of which"
    return status


def _throughput(row: Measurement) -> str:
    """``21.5 tokens/s with 1 request on 4 nodes, sglang 0.5.10, …``."""
    result = row.failure if row.tokens_per_s is None else f"{row.tokens_per_s:g} tokens/s"
    lengths = (("in", row.input_tokens), ("out", row.output_tokens))
    parts = [
        f"{result} with {row.concurrency} request{'s' * (row.concurrency > 1)}"
        f" on {row.nodes} node{'s' * (row.nodes > 1)}",
        f"{row.engine} {row.release or '(release not stated)'}",
        *([] if row.first_token_s is None else [f"first token after {row.first_token_s:g} s"]),
        *(f"{count} tokens {way}" for way, count in lengths if count),
        *(text for text in (row.checkpoint, row.image, row.note) if text),
        f"{row.date or 'date not stated'} by {row.measured_by}",
    ]
    return ", ".join(parts)
