"""Renders a recipe of version 2, or one of ours, for gb10's own use: a script with its environment, and containers.

The serve command is sparkrun's; arguments after ``--`` are appended, which sparkrun drops. Pure.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.container import node_container
from gb10.models.render.rendered import Findings, RankCommand, RenderedRecipe, RenderRequest
from gb10.models.render.serve_line import appended
from gb10.models.render.sparkrun import TENSORRT_FILE, TENSORRT_PATH, render_sparkrun
from gb10.models.render.topology import Meeting, api_port, port_in

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
