"""Renders as eugr's launcher of August 2026 does: run-recipe.py's script and call, launch-cluster.sh's script per node.

Facts of its behaviour are from reading and running both; no Ray is the default since July 2026. Pure.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any, Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.nodes import Meeting, api_port
from gb10.models.render.rendered import Findings, RankCommand, RenderedRecipe, RenderRequest, StoppedError

WIDEST: Final = 999
"""A field's width or precision, in characters."""
LONGEST: Final = 1 << 20
"""Characters of a filled template."""


class FieldError(Exception):
    """A placeholder cannot be filled: the kind of mistake, the field, and where in the template it stands."""

    def __init__(self, kind: str, field: str, offset: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.field = field
        self.offset = offset


class _Bounded(Formatter):
    """``str.format``, except that a field cannot ask for a gigabyte of blanks."""

    def format_field(self, value: Any, format_spec: str) -> Any:  # noqa: ANN401 - as the base class has it
        if any(int(digits) > WIDEST for digits in re.findall(r"\d{1,9}", format_spec)):
            raise ValueError(f"a field of more than {WIDEST} characters")
        return super().format_field(value, format_spec)


def fill(template: str, values: Mapping[str, object]) -> str:
    """The template with every ``{name}`` filled in one pass; raises FieldError."""
    stray = stray_brace(template)
    if stray is not None:
        raise FieldError("stray-brace", template[stray], stray)
    field = ""
    try:
        for _, name, _, _ in Formatter().parse(template):
            field = name if name is not None else field
            if name is not None and re.match(r"\d|$|[.\[]", name):
                raise FieldError("positional-placeholder", name, _offset(template, name))
        text = _Bounded().vformat(template, (), values)
    except KeyError as error:
        name = str(error.args[0])
        raise FieldError("missing-placeholder", name, _offset(template, name)) from error
    except (ValueError, AttributeError, IndexError, TypeError, RecursionError) as error:
        raise FieldError("bad-placeholder", field, max(template.find("{"), 0)) from error
    if len(text) > LONGEST:
        raise FieldError("bad-placeholder", field, 0)
    return text


def _offset(template: str, name: str) -> int:
    found = re.search(r"(?<!\{)(?:\{\{)*\{" + re.escape(name), template)
    return found.end() - len(name) - 1 if found else 0


def stray_brace(template: str) -> int | None:
    """The position of a brace that neither opens nor closes a field; None when all do."""
    open_at: list[int] = []
    position = 0
    while position < len(template):
        char = template[position]
        if not open_at and char in "{}" and template.startswith(char * 2, position):
            position += 2
            continue
        if char == "{":
            open_at.append(position)
        elif char == "}":
            if not open_at:
                return position
            open_at.pop()
        position += 1
    return open_at[0] if open_at else None


def fields(template: str) -> Iterator[str]:
    """The names of the fields of a template; of a broken one, those before the mistake."""
    try:
        for _, name, spec, _ in Formatter().parse(template):
            if name:
                yield re.split(r"[.\[]", name, maxsplit=1)[0]
            if spec:
                yield from fields(spec)
    except (ValueError, RecursionError):
        return


REQUIRED: Final = ("name", "recipe_version", "container", "command")
OVERRIDES: Final[Mapping[str, Callable[[str], object]]] = {
    "port": int,
    "host": str,
    "tensor_parallel": int,
    "gpu_memory_utilization": float,
    "max_model_len": int,
}
"""The parameters that its command line can set, with their types."""
BACKEND: Final = re.compile(r"--distributed-executor-backend(?:=|\s+)\S+")
NODE_BACKEND: Final = re.compile(r"--distributed-executor-backend(?:=|[^\S\n]+)\S+")
"""The same in launch-cluster.sh, where sed reads one line at a time."""
PORT: Final = 29501
SCRIPT: Final = "/tmp/tmpXXXXXX.sh"  # noqa: S108 - the launcher's own spelling of a name that it makes up
SIZES: Final = {
    **dict.fromkeys(("-tp", "--tensor-parallel-size"), "tensor"),
    **dict.fromkeys(("-pp", "--pipeline-parallel-size"), "pipeline"),
    **dict.fromkeys(("-dp", "--data-parallel-size"), "data"),
}


def render_eugr(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe:
    """What eugr's launcher makes of a recipe; raises StoppedError when it would end with an error."""
    found.refuse()
    solo = len(request.nodes) <= 1
    _check_shape(recipe, found)
    _check_selection(recipe, solo, request, found)
    overrides = _overrides(request, found)
    if solo:
        overrides.setdefault("tensor_parallel", 1)
    found.refuse()
    parameters = {**recipe.defaults, **overrides}
    serve = _command(recipe, parameters, request, found)
    script = "\n".join([*_head(recipe), "# Run the model", serve, ""])
    runtime = recipe.text("runtime") or "vllm"
    meeting = Meeting(None if request.peer else request.api or api_port(serve, runtime), request.step).port(PORT)
    ranks = _ranks(script, serve, request, found, meeting)
    return RenderedRecipe(
        runtime=runtime,
        image=recipe.container,
        script=script,
        serve=serve,
        parameters=parameters,
        environment={key: str(value) for key, value in recipe.env.items()},
        ranks=ranks,
        launch=(_launch(recipe, request),),
        meeting=(meeting,) if len(ranks) > 1 else (),
    )


def _check_shape(recipe: ModelRecipe, found: Findings) -> None:
    for key in REQUIRED:
        if key not in recipe.values:
            found.stop("missing-key", f"the key '{key}' is missing; version 1 demands it", f"add `{key}: …`")
    if recipe.values.get("command") is not None and not isinstance(recipe.values["command"], str):
        found.stop("wrong-type", "'command' must be text", "write `command: |` and the command below", "command")
    if "command" in recipe.values and recipe.command is None:
        found.stop("missing-key", "'command' is empty", "write `command: |` and the command below", "command")
    if recipe.version != "1":
        text = f"recipe_version is '{recipe.version}'; eugr's launcher knows '1' alone and goes on"
        found.add("warning", "recipe-version", text, 'write `recipe_version: "1"`', "recipe_version")


def _check_selection(recipe: ModelRecipe, solo: bool, request: RenderRequest, found: Findings) -> None:
    if recipe.values.get("cluster_only") and solo:
        text = "the recipe is for several nodes (cluster_only)"
        found.stop("needs-several-nodes", text, "name the nodes: --nodes HEAD,WORKER", "cluster_only")
    if recipe.values.get("solo_only") and not solo:
        text = "the recipe is for one node (solo_only)"
        found.stop("needs-one-node", text, "name one node, or none", "solo_only")
    if request.ray and solo:
        found.stop("ray-on-one-node", "--ray needs several nodes", "name the nodes: --nodes HEAD,WORKER")


def _overrides(request: RenderRequest, found: Findings) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, text in request.overrides:
        if key not in OVERRIDES:
            known = ", ".join(OVERRIDES)
            found.stop("unknown-override", f"eugr's launcher cannot set '{key}'", f"set one of {known}")
            continue
        try:
            values[key] = OVERRIDES[key](text if request.peer else shlex.quote(text))
        except ValueError:
            found.stop("wrong-override", f"'{text}' is no number for '{key}'", f"write --set {key}=NUMBER")
    return values


def _head(recipe: ModelRecipe) -> list[str]:
    lines = ["#!/bin/bash", f"# Generated from recipe: {recipe.values.get('name')}", ""]
    env = recipe.values.get("env")
    if isinstance(env, Mapping) and env:
        exports = [f'export {key}="{value}"' for key, value in env.items()]
        lines += ["# Environment variables", *exports, ""]
    return lines


def _command(recipe: ModelRecipe, parameters: Mapping[str, object], request: RenderRequest, found: Findings) -> str:
    template = str(recipe.values["command"])
    try:
        command = fill(template, parameters).rstrip()
    except FieldError as error:
        _report(error, recipe, found)
        raise StoppedError from error
    if command.endswith("\\"):
        command = command.rstrip("\\\n").rstrip()
    command = " ".join([command, *map(shlex.quote, request.arguments)])
    if not request.ray:
        kept = [line for line in BACKEND.sub("", command).split("\n") if line.strip() not in ("", "\\")]
        return "\n".join(kept).strip()
    if "vllm serve" in command and not BACKEND.search(command):
        command = f"{command.rstrip()} --distributed-executor-backend ray"
    return command.strip()


FIELD_TEXTS: Final = {
    "missing-placeholder": (
        "the command has {{{field}}}, which neither `defaults` nor --set gives",
        "add `{field}: …` to `defaults`, or write the value itself",
    ),
    "positional-placeholder": (
        "the command has a placeholder without a name: {{{field}}}",
        "give it a name, or write {{{{ and }}}} for literal braces",
    ),
    "stray-brace": ("the command has a single {field}", "write {field}{field} for one literal brace"),
    "bad-placeholder": ("the placeholder {{{field}}} is wrong", "write {{name}}, and {{{{ }}}} for literal braces"),
}


def _report(error: FieldError, recipe: ModelRecipe, found: Findings) -> None:
    text, fix = FIELD_TEXTS[error.kind]
    line = recipe.text_line(("command",), error.offset)
    found.add_line("error", error.kind, text.format(field=error.field), fix.format(field=error.field), line)
    found.stopped = True


def _launch(recipe: ModelRecipe, request: RenderRequest) -> tuple[str, ...]:
    mods = [word for mod in recipe.mods for word in ("--apply-mod", mod)]
    solo = ["--solo"] if len(request.nodes) <= 1 else []
    ray = ["--ray"] if request.ray else []
    nodes = ["-n", ",".join(request.nodes)] if request.nodes else []
    image = ["-t", recipe.container or str(None)]
    return ("./launch-cluster.sh", *image, *mods, *solo, *ray, *nodes, "--launch-script", SCRIPT)


def declared_nodes(script: str) -> int | None:
    """tp x pp x dp as launch-cluster.sh reads them from the words of a script; None when no flag has a number."""
    sizes: dict[str, int] = {}
    previous = ""
    for word in re.sub(r"(--[a-z-]*)=", r"\1 ", script).split():
        if previous in SIZES and re.fullmatch(r"[0-9]{1,9}", word):
            sizes[SIZES[previous]] = int(word)
        previous = word
    if not sizes:
        return None
    return sizes.get("tensor", 1) * sizes.get("pipeline", 1) * sizes.get("data", 1)


def _ranks(script: str, serve: str, request: RenderRequest, found: Findings, meeting: int) -> tuple[RankCommand, ...]:
    nodes = request.nodes
    if len(nodes) <= 1:
        return (RankCommand(host=nodes[0] if nodes else "localhost", command=script, line=serve),)
    needed = declared_nodes(script)
    if needed is not None and needed > len(nodes):
        text = f"the command needs {needed} nodes (tp x pp x dp), and {len(nodes)} are named"
        found.add("error", "too-few-nodes", text, "name more nodes, or set tensor_parallel", "command")
        return ()
    if needed is not None and 0 < needed < len(nodes):
        text = f"the command needs {needed} of the {len(nodes)} nodes; the others are not used"
        found.add("warning", "unused-nodes", text, "name fewer nodes, or set tensor_parallel", "command")
        nodes = nodes[:needed]
    if request.ray:
        return (RankCommand(host=nodes[0], command=script, line=serve),)

    def of(text: str, rank: int) -> str:
        return node_script(text, len(nodes), rank, nodes[0], meeting)

    return tuple(
        RankCommand(host=host, command=of(script, rank), line=of(serve, rank)) for rank, host in enumerate(nodes)
    )


def node_script(script: str, nodes: int, rank: int, head: str, port: int = PORT) -> str:
    """The script of one node of several without Ray: the rendezvous stands at the end of its last line."""
    tail = f" --nnodes {nodes} --node-rank {rank} --master-addr {head} --master-port {port}"
    tail += " --headless" if rank else ""
    lines = [NODE_BACKEND.sub("", line) for line in script.removesuffix("\n").split("\n")]
    kept = [line for line in lines if line.strip("\\ \t\r\f\v")]
    last = re.sub(r"\s*\\\s*$", "", kept[-1])
    return "\n".join([*kept[:-1], last + tail]) + "\n"
