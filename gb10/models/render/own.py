"""Renders a recipe of version 2, or one of ours, for gb10's own use: a script with its environment, and containers.

The serve command is sparkrun's; arguments after ``--`` are appended, which sparkrun drops. Pure.
"""

import re
import shlex
from dataclasses import replace
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.container import node_container
from gb10.models.render.findings import Findings
from gb10.models.render.meeting import Meeting, api_port, port_in
from gb10.models.render.ray import PORT, ray_ranks
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.serve_line import appended
from gb10.models.render.sparkrun import render_sparkrun
from gb10.models.render.tensorrt import options_file, with_options_file

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRETS: Final = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "OPENAI_API_KEY"})


def render_own(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe:
    """The script and the container of each node. Raises StoppedError when nothing can be rendered."""
    api = request.api or port_in(request.arguments)
    rendered = _quoted(render_sparkrun(recipe, replace(request, arguments=(), api=api), found))
    words = [shlex.quote(word) for word in request.arguments]
    env = {**{key: str(value) for key, value in recipe.env.items()}, **_set_env(request)}
    _check_env(env, found)
    if recipe.mods:
        text = f"nothing that is rendered applies the recipe's mods: {', '.join(recipe.mods)[:200]}"
        found.add("note", "mods-not-applied", text, "bake them into the image: ./build.py image --mod NAME", "mods")
    head = ["#!/bin/bash", f"# Model recipe: {' '.join(recipe.name.split())}"]
    head += [f"export {key}={shlex.quote(value)}" for key, value in env.items()]
    serve = appended(rendered.serve or "", *words) if words else rendered.serve or ""
    commands = ((rank, appended(rank.command, *words) if words else rank.command) for rank in rendered.ranks)
    ranks = tuple(replace(rank, command=command, line=command) for rank, command in commands)
    if rendered.runtime == "trtllm" and options_file(rendered.parameters):
        serve = with_options_file(serve, rendered.parameters)
        filed = ((rank, with_options_file(rank.command, rendered.parameters)) for rank in ranks)
        ranks = tuple(replace(rank, command=command, line=None) for rank, command in filed)
    if rendered.runtime == "vllm-ray" and len(rendered.hosts) > 1:
        port = Meeting(api or api_port(serve, rendered.runtime), request.step).port(PORT)
        ranks, rendered = ray_ranks(serve, rendered.hosts, port), replace(rendered, meeting=(port,))
    image = rendered.image
    containers = tuple(node_container(rank.host, image, rank.command, env) for rank in ranks) if image else ()
    return replace(
        rendered,
        script="\n".join([*head, serve, ""]),
        serve=serve,
        environment=env,
        ranks=ranks,
        launch=(),
        containers=containers,
    )


def _quoted(rendered: RenderedRecipe) -> RenderedRecipe:
    """The rendering with the user's values in their places, each in the quotation marks that it needs there."""
    user = rendered.user
    return replace(
        rendered,
        serve=user.quoted(rendered.serve or ""),
        ranks=tuple(replace(rank, command=user.quoted(rank.command)) for rank in rendered.ranks),
        parameters={name: user.plain(value) for name, value in rendered.parameters.items()},
    )


def _check_env(env: dict[str, str], found: Findings) -> None:
    for key in env:
        if NAME.fullmatch(key) is None:
            text = f"{key[:80]!r} is no name of an environment variable"
            found.add("error", "wrong-env-name", text, "write letters, digits and _ only", "env", key)
        if key in SECRETS:
            text = f"{key} is a secret, which a script must not hold"
            found.add("error", "secret-in-recipe", text, f"remove it, and give it to docker: -e {key}", "env", key)


def _set_env(request: RenderRequest) -> dict[str, str]:
    return {key[4:]: value for key, value in request.overrides if key.startswith("env.")}
