"""One way in: a recipe and a request become what runs, as the peer does it or as the recipe's own format says. Pure."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gb10.errors import UsageError
from gb10.models.issue import Issue, errors_of, in_order, lines_of
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.render.eugr import render_eugr
from gb10.models.render.nodes import SIZES, Meeting, api_port, port_in_command
from gb10.models.render.rendered import (
    Findings,
    RankCommand,
    RenderedRecipe,
    RenderRequest,
    StoppedError,
    node_container,
)
from gb10.models.render.serve_line import appended
from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH, render_sparkrun, runtime_of

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "free_gpu_memory_fraction": ("kv_cache_config", "free_gpu_memory_fraction"),
    "kv_cache_dtype": ("kv_cache_config", "dtype"),
    "kv_cache_enable_block_reuse": ("kv_cache_config", "enable_block_reuse"),
    "cuda_graph_padding": ("cuda_graph_config", "enable_padding"),
    "cuda_graph_max_batch_size": ("cuda_graph_config", "max_batch_size"),
    "moe_backend": ("moe_config", "backend"),
    "print_iter_log": ("print_iter_log",),
}
"""Where each parameter of TENSORRT_FILE stands in the file."""


def options_file(parameters: Mapping[str, object]) -> dict[str, object]:
    """The file's content; empty when no parameter asks for one."""
    content: dict[str, object] = {}
    for name in TENSORRT_FILE:
        value = parameters.get(name)
        if value is None:
            continue
        *sections, key = PLACES[name]
        place = content
        for section in sections:
            below = place.setdefault(section, {})
            if isinstance(below, dict):
                place = below
        place[key] = value
    return content


def with_options_file(command: str, parameters: Mapping[str, object]) -> str:
    """The command after a line that writes the file; the command alone when it needs none."""
    content = options_file(parameters)
    if not content:
        return command
    return f"printf '%s\\n' {shlex.quote(json.dumps(content, default=str))} > {TENSORRT_PATH}\n{command}"


PORT: Final = 46379
STORE: Final = 1 << 30
"""Bytes of Ray's object store. By default it takes a third of the memory, which the GPU needs."""
NO_MONITOR: Final = "export RAY_memory_monitor_refresh_ms=0"
"""Ray would end programs at 95 % of the memory, most of which is the GPU's; gb10's guard looks after it."""
MISSING: Final = (
    'command -v ray >/dev/null || { echo "gb10: ray: command not found in this image, and the recipe runs by Ray: '
    'write runtime: vllm, without --distributed-executor-backend ray" >&2; exit 127; }'
)
OWN: Final = (
    "VLLM_HOST_IP",
    "SGLANG_HOST_IP",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "MN_IF_NAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
)
"""Variables with another value on each node: vLLM would copy the head's to the others."""
KEPT: Final = "/tmp/gb10-vllm"  # noqa: S108 - a folder inside the container
WAIT: Final = """\
import sys, time, ray
ray.init(address=sys.argv[1], logging_level="error")
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(1)
"""
"""Only then vLLM counts GPUs."""


def ray_ranks(serve: str, hosts: Sequence[str], port: int) -> tuple[RankCommand, ...]:
    """What each node runs; Ray's head listens at ``port``."""
    start = "\n".join(_head(hosts, port))
    joins = ((host, "\n".join(_worker(hosts[0], host, port))) for host in hosts[1:])
    head = RankCommand(host=hosts[0], command=f"{start}\n{serve}", line=serve, before=start)
    return (head, *(RankCommand(host=host, command=text, before=text) for host, text in joins))


def _head(hosts: Sequence[str], port: int) -> list[str]:
    start = _start(hosts[0], f"--head --port {port} --include-dashboard=false")
    return [
        MISSING,
        NO_MONITOR,
        f"export VLLM_CONFIG_ROOT={KEPT}",
        f"mkdir -p {KEPT} && printf %s {shlex.quote(json.dumps(OWN))} >{KEPT}/ray_non_carry_over_env_vars.json",
        f"{start} || exit",
        f"python3 -c {shlex.quote(WAIT)} {hosts[0]}:{port} {len(hosts)} || exit",
    ]


def _worker(head: str, host: str, port: int) -> list[str]:
    listens = f"until (: </dev/tcp/{head}/{port}) 2>/dev/null; do sleep 1; done"
    return [MISSING, NO_MONITOR, listens, "exec " + _start(host, f"--block --address {head}:{port}")]


def _start(host: str, more: str) -> str:
    return f"ray start {more} --node-ip-address {host} --num-cpus 2 --object-store-memory {STORE} --disable-usage-stats"


NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRETS: Final = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "OPENAI_API_KEY"})


def render_own(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe:
    """The script and the container of each node. Raises StoppedError when nothing can be rendered."""
    api = request.api or port_in_command(shlex.join(request.arguments))
    rendered = _quoted(render_sparkrun(recipe, replace(request, arguments=(), api=api), found))
    words = [shlex.quote(word) for word in request.arguments]
    variables = {key[4:]: value for key, value in request.overrides if key.startswith("env.")}
    env = {**{key: str(value) for key, value in recipe.env.items()}, **variables}
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


WITHOUT_EFFECT: Final = "set-without-effect"
"""The code of the issue of a parameter that changes nothing."""


def render_recipe(recipe: ModelRecipe, request: RenderRequest) -> RenderedRecipe:
    """The recipe as it runs. With an error nothing is rendered; lenient, only what stops the peer is an error.

    Without a peer, version 1 runs as eugr's launcher runs it, and all others in a form of ours.
    """
    found = Findings(recipe)
    try:
        if request.peer is None:
            request = replace(request, given=tuple(key.strip() for key, _ in request.overrides))
        request = _with_variant(recipe, request, found)
        if request.peer == "sparkrun":
            rendered = render_sparkrun(recipe, request, found)
        elif request.peer == "eugr" or recipe.format == "v1":
            rendered = render_eugr(recipe, request, found)
        else:
            rendered = render_own(recipe, request, found)
    except StoppedError:
        return _refused(recipe, request, found.result(lenient=request.lenient))
    if request.peer is None:
        _check_effect(recipe, request, rendered, found)
    issues = found.result(lenient=request.lenient)
    return _refused(recipe, request, issues) if errors_of(issues) else replace(rendered, issues=issues)


def _check_effect(recipe: ModelRecipe, request: RenderRequest, rendered: RenderedRecipe, found: Findings) -> None:
    """Warn of a parameter that the user sets and that changes nothing, as where its variant is not chosen."""
    for key in request.given:
        plain = key.partition(".")[0]
        same = [value for name, value in request.overrides if name.strip() == key][-1:] == [
            str(recipe.defaults.get(key))
        ]
        if plain in ("env", *SIZES) or same:
            continue
        others = tuple(pair for pair in request.overrides if pair[0].strip() != key)
        without = _rendered(recipe, replace(request, overrides=others), Findings(recipe))
        if without is not None and _runs(without) == _runs(rendered):
            fix = "correct its name, or choose the variant that uses it: recipe show lists them"
            found.add("warning", WITHOUT_EFFECT, f"--set {key[:80]} changes nothing of what runs", fix)


def _rendered(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe | None:
    try:
        return render_eugr(recipe, request, found) if recipe.format == "v1" else render_own(recipe, request, found)
    except StoppedError:
        return None


def _runs(rendered: RenderedRecipe) -> object:
    return rendered.script, rendered.ranks, rendered.runtime


def _with_variant(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderRequest:
    """The request with the variant's parameters before its own; raises StoppedError for one that is none."""
    if request.variant is None:
        return request
    variants = own_section(recipe).variants
    if request.variant not in variants:
        known = f"choose one of {', '.join(variants)}" if variants else "leave --variant out: the recipe has none"
        found.stop("unknown-variant", f"the recipe has no variant '{request.variant[:80]}'", known, "gb10", "variants")
        found.refuse()
    return replace(request, overrides=(*variants[request.variant].overrides, *request.overrides))


def with_issues(rendered: RenderedRecipe, found: tuple[Issue, ...]) -> RenderedRecipe:
    """A rendering with more issues; an error takes the script away."""
    issues = in_order((*rendered.issues, *found))
    if not errors_of(found):
        return replace(rendered, issues=issues)
    return RenderedRecipe(runtime=rendered.runtime, image=rendered.image, script=None, issues=issues)


def _refused(recipe: ModelRecipe, request: RenderRequest, issues: tuple[Issue, ...]) -> RenderedRecipe:
    runtime = runtime_of(recipe, request.overrides)
    return RenderedRecipe(runtime=runtime, image=recipe.container, script=None, issues=issues)


MENDED: Final = "./build.py recipe fix mends some of them; --lenient PEER renders what that launcher renders"


def refused(recipe: ModelRecipe, issues: Sequence[Issue], hint: str = MENDED) -> UsageError:
    """The error of a recipe that is not rendered: every mistake with its line and fix."""
    errors = errors_of(issues)
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return UsageError(f"{recipe.file} is not rendered: {count}", where="\n".join(lines_of(errors)), hint=hint)
