"""Projects with an index of their own: uv is bound to it, and the resolved files are checked against it."""

import json
from collections.abc import Mapping

import requests

from gb10.core.fields import requirement_name
from gb10.errors import FetchError
from gb10.image.recipe.image_recipe import Recipe
from gb10.sources.index.client import Index
from gb10.sources.index.page import Link


def split(recipe: Recipe, requirements: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requirements of projects that have an index of their own, and all others."""
    named = tuple(text for text in requirements if requirement_name(text) in recipe.index_of)
    return named, tuple(text for text in requirements if text not in named)


def bound(recipe: Recipe, named: tuple[str, ...]) -> str:
    """A pyproject.toml that requires ``named``, each from its own index; uv uses that index for nothing else. Pure.

    uv's command line has no such binding: it searches an ``--index`` first, for every project.
    """
    projects = {requirement_name(text) for text in named}
    sources = {project: name for name, index in recipe.indexes.items() for project in index.packages}
    lines = [
        "[project]",
        'name = "the-recipe"',
        'version = "0"',
        f'requires-python = ">={recipe.python}"',
        f"dependencies = {json.dumps(named)}",
        "[tool.uv.sources]",
        *(f'{project} = {{index = "{sources[project]}"}}' for project in sorted(projects)),
    ]
    for name in sorted({sources[project] for project in projects}):
        lines += [
            "[[tool.uv.index]]",
            f'name = "{name}"',
            f"url = {json.dumps(recipe.indexes[name].url)}",
            "explicit = true",
        ]
    return "\n".join(lines)


def offered(session: requests.Session, recipe: Recipe) -> dict[str, frozenset[Link]]:
    """The files of each named index; raises FetchError if it cannot be read or lacks a project."""
    found = {}
    for name, index in recipe.indexes.items():
        alone = f"{', '.join(index.packages)} can come only from {name}"
        for project in index.packages:
            try:
                links = Index(session, index.url).links(project)
            except FetchError as error:
                raise FetchError(
                    f"the index {name} of the recipe: {error.message}",
                    where=error.where,
                    hint=f"{error.hint}\n{alone}" if error.hint else alone,
                ) from error
            if not links:
                raise FetchError(
                    f"the index {name} of the recipe has no {project}",
                    where=index.url,
                    hint=f"correct indexes in the recipe; {alone}",
                )
            found[project] = frozenset(links)
    return found


def check_origin(named: Mapping[str, frozenset[Link]], project: str, link: Link) -> None:
    """Raise FetchError for a file that the project's named index lacks: uv used another index."""
    if project in named and (link.filename, link.sha256) not in {(one.filename, one.sha256) for one in named[project]}:
        raise FetchError(
            f"{link.filename} is not from the index that the recipe names for {project}",
            where=f"sha256 {link.sha256}",
            hint=f"require {project} itself, for every platform (no marker): uv binds what is required to an index",
        )
