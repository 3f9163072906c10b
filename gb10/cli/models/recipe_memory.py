"""``recipe memory``: what a recipe takes of each node's memory, and what would fit where it does not."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.values import RecipeArgument, engine_arguments, override
from gb10.cli.verb import AllowUncheckedOption, JsonOption, inject, print_json, with_reporter
from gb10.core.checked import NotChecked, documents_of, in_order, refuse_unchecked, rows_of
from gb10.core.reporter import Reporter
from gb10.errors import FetchError, UncheckedError, UsageError
from gb10.image.request.recipe_mods import load_file
from gb10.models.issue import lines_of
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import ServedModel, requests_of, served_model
from gb10.models.lint.served import unknown_image
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.memory.cache import UNSIZED
from gb10.models.memory.engines.budget import Budget, Machine, gib
from gb10.models.memory.estimating import KEY, SINCE, Estimate, container_memory, estimate, fraction_of, torch_bytes
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Drafts
from gb10.models.memory.model import Model, known_model
from gb10.models.registries.recipe_file import find_recipe
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import WITHOUT_EFFECT, refused

SCHEMA = "gb10/recipe-memory/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked of a recipe: parameters, nodes, where its model's sizes are from, and what else runs (bytes)."""

    request: RenderRequest
    nodes: int | None
    weights: Path | None
    fetch: bool
    services: int


def memory_question(
    *,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, max=64, help="On N nodes, by tensor parallelism.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter. Repeatable.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="A variant of the recipe; recipe show lists them.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="PATH", help="The model's folder, its index, or its config.json."),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Read config and headers of a model that is not known from the Hub.")
    ] = False,
    services: Annotated[
        float, typer.Option("--services", metavar="GIB", min=0, max=128, help="What other programs on the node take.")
    ] = 0.0,
) -> Question:
    """The question of a command line; raises UsageError for a parameter without a value."""
    request = RenderRequest(overrides=tuple(map(override, overrides or ())), variant=variant)
    return Question(request=request, nodes=nodes, weights=weights, fetch=fetch, services=round(services * GIB))


@with_reporter
@inject("question", memory_question, first=True)
def memory(
    *,
    reporter: Reporter,
    question: Question,
    recipe: RecipeArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="After --: more arguments of the engine.")
    ] = None,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a recipe takes of each node's memory.

    Each figure says how it is known: computed, measured, published or assumed.
    Exit 2 when it does not fit: the error names the largest change that does. Exit 13 when a part could not be
    computed, and the rest fits.

    \b
    weights  of the model's files, index or config, as the quantization stores them
    draft    of a draft model of its own, where its sizes are known
    cache    of the model's layers, for the length and the requests
    engine   graphs, activations, workspaces, loading, by release; another launcher's options in files are not read

    \b
    ./build.py recipe memory qwen3.5-122b-nvfp4
    ./build.py recipe memory gpt-oss-120b --set max_num_seqs=64 --services 8
    ./build.py recipe memory qwen3-0.6b -- --max-num-seqs 4
    ./build.py recipe memory theirs.yaml --nodes 2 --weights models/mine --json
    """
    loaded = load_file(find_recipe(recipe))
    request = replace(question.request, arguments=engine_arguments(arguments))
    served = _on_nodes(loaded, request, question.nodes)
    for line in lines_of([issue for issue in served.issues if issue.code == WITHOUT_EFFECT]):
        reporter.say(line)
    machine = Machine(figures=load_figures(), services=question.services)
    model = _sizes(served.model, question, reporter)
    model = replace(model, draft=_draft(served.launch.drafts, question, reporter))
    try:
        found = estimate(model, served.launch, machine)
    except UsageError as error:
        if (model.layers or model.cache) and not served.launch.cache_type.startswith(UNSIZED):
            raise
        # a family that is not known, or a type of the cache
        raise UncheckedError(error.message, where=error.where, hint=error.hint) from error
    unchecked = in_order((*_left_out(model, found, unknown_image(loaded)), *served.unchecked))
    if as_json:
        print_json(document(loaded, found, machine) | {"unchecked": documents_of(unchecked)})
    else:
        for line in (*lines(loaded, found, machine), *rows_of(unchecked)):
            print(line)
    if not found.fits:
        if as_json:
            raise typer.Exit(UsageError.code)
        problems = (one.text for budget in found.budgets for one in budget.problems if not one.warning)
        where, hint = "\n".join(dict.fromkeys(problems)), "\n".join(found.remedies)
        raise UsageError(f"{found.model} does not fit", where=where, hint=hint)
    if as_json and unchecked and not allow_unchecked:
        raise typer.Exit(UncheckedError.code)
    refuse_unchecked(unchecked, allowed=allow_unchecked)


def _left_out(model: Model, found: Estimate, image: str) -> Iterator[NotChecked]:
    """What the figures stand on although nobody looked: an assumed format of the weights, a draft of assumed size, the
    release of an ``image`` that names none."""
    if model.known == "assumed" and model.notes:
        yield NotChecked(what="weights", reason=model.notes[0])
    if found.launch.quantized and model.scheme is not None and not model.scheme.rules:
        reason = (
            f"--quantization {found.launch.quantized[:40]} may shrink them while they load: counted as in the files"
        )
        yield NotChecked(what="weights", reason=reason)
    drafts = found.launch.drafts
    if model.draft is not None and not model.draft.layers:
        yield NotChecked(
            what="draft", reason=f"the layers of {model.draft.name} are not known: without a cache of its own"
        )
    if drafts is not None and not drafts.own and drafts.size is None and model.draft is None:
        reason = (
            f"the sizes of {drafts.model or 'the draft model'} are not known here (--fetch reads them, a folder has "
            "them): 1.5 GiB without a cache of its own"
        )
        yield NotChecked(what="draft", reason=reason)
    if found.launch.engine in ("vllm", "sglang") and (image or not found.launch.release):
        name = f"the image {ascii(image)[1:-1][:80]}" if image else "the image"
        yield NotChecked(
            what="engine", reason=f"{name} names no release: counted as {found.launch.release or 'the newest'}"
        )


def _on_nodes(recipe: ModelRecipe, request: RenderRequest, nodes: int | None) -> ServedModel:
    """The launch; with a number of nodes, tensor parallelism over as many as its stages and replicas leave."""
    served = served_model(recipe, request, own_releases())
    if served.issues and not served.model:
        raise refused(recipe, served.issues)
    if nodes is None:
        return served
    ranks = served.launch.ranks
    others = ranks.stages * served.launch.prefill_ranks * served.launch.replicas
    if nodes % others:
        raise UsageError(f"{nodes} nodes do not divide into {others} stages and replicas", hint="name a multiple")
    return replace(served, launch=replace(served.launch, ranks=replace(ranks, tensor=nodes // others)))


def _sizes(name: str, question: Question, reporter: Reporter) -> Model:
    """The model's sizes: of the files that are named, a folder that the recipe names, ours, or the Hub's."""
    place = question.weights or _folder(name)
    known = known_model(name) if place is None else None
    if known is not None:
        return known
    if place is None and not question.fetch:
        hint = "--fetch reads them from the Hub, --weights PATH from the model's folder, index or config.json"
        raise UncheckedError(f"the sizes of {name or 'this model'} are not known here", hint=hint)
    return _read(name, place, reporter)


def _draft(drafts: Drafts | None, question: Question, reporter: Reporter) -> Model | None:
    """The sizes of a draft model of its own: of the folder that the command names, or the Hub's. None where they are
    known already, or where neither is there."""
    if drafts is None or drafts.own or drafts.size is not None or not drafts.model:
        return None
    folder = _folder(drafts.model)
    if folder is None and not question.fetch:
        return None
    try:
        return _read(drafts.model, folder, reporter)
    except (FetchError, UsageError) as error:
        reporter.say(f"draft: {error.message}")
        return None


def _folder(name: str) -> Path | None:
    """The folder of this machine that a model's name is, if it is one."""
    return Path(name) if name.startswith((".", "/")) and Path(name).exists() else None


def _read(name: str, place: Path | None, reporter: Reporter) -> Model:
    """The sizes of a folder, an index or a config, or of a repository on the Hub."""
    from gb10.image.context import open_context  # noqa: PLC0415 - the same
    from gb10.image.request.model_sizes import hub_model, local_model  # noqa: PLC0415 - a sixth of a second for other verbs

    if place is not None:
        return local_model(place, name)
    return hub_model(open_context(os.environ, verbosity=reporter.verbosity), name)


def lines(recipe: ModelRecipe, found: Estimate, machine: Machine) -> Iterator[str]:
    """The table of each kind of node."""
    launch = found.launch
    engine = f"{launch.engine} {launch.release}".strip()
    yield f"{recipe.name}: {found.model}, {engine}, {launch.nodes} node{'s' * (launch.nodes > 1)}"
    for budget in found.budgets:
        yield from _table(budget, found, machine)
        for problem in budget.problems:
            yield f"{'note' if problem.warning else 'problem'}: {problem.text}"
        available = budget.total - machine.figures["reserve"].size
        reported = any(problem.code == "compile-jobs" for problem in budget.problems)
        if budget.start > available and not reported:
            yield f"note: kernels that are compiled at a first start may take it to {gib(budget.start)}"
    for note in found.notes:
        yield f"note: {note}"
    yield from _sources(found.tightest)


def _table(budget: Budget, found: Estimate, machine: Machine) -> Iterator[str]:
    if len(found.budgets) > 1:
        yield f"stage {budget.stage + 1} of {len(found.budgets)}"
    width = max(len(item.name) for item in budget.items)
    yield f"{'':{width}}    GiB  known"
    for item in budget.items:
        yield f"{item.name:{width}}  {item.size / GIB:5.1f}  {item.known}"
    yield f"{'in use':{width}}  {budget.serving / GIB:5.1f}  of {budget.total / GIB:.1f}"
    yield f"{'while it loads':{width}}  {budget.load / GIB:5.1f}"
    if found.launch.engine in SINCE and budget.fits:
        share = fraction_of(torch_bytes(budget, machine), machine)
        yield f"PyTorch may take {gib(share * machine.total)} ({KEY}:{share:g}), where its release has such a cap"
    yield f"KV cache: {budget.tokens} tokens{requests_of(budget, found)}"


def _sources(budget: Budget) -> Iterator[str]:
    for source in dict.fromkeys(item.source for item in budget.items):
        names = [item.name for item in budget.items if item.source == source]
        yield f"source of {', '.join(names)}: {source}"


def document(recipe: ModelRecipe, found: Estimate, machine: Machine) -> dict[str, object]:
    """The estimate as data; sizes in bytes."""
    launch = found.launch
    return {
        "schema": SCHEMA,
        "recipe": recipe.name,
        "model": found.model,
        "engine": launch.engine,
        "release": launch.release,
        "nodes": launch.nodes,
        "fits": found.fits,
        "stages": [_stage(budget, found, machine) for budget in found.budgets],
        "remedies": list(found.remedies),
        "notes": list(found.notes),
    }


def _stage(budget: Budget, found: Estimate, machine: Machine) -> dict[str, object]:
    limits = container_memory(budget, found.launch, machine)
    return {
        "stage": budget.stage,
        "nodes": found.launch.ranks.tensor * found.launch.prefill_ranks * found.launch.replicas,
        "total": budget.total,
        "items": [
            {"name": one.name, "bytes": one.size, "known": one.known, "source": one.source} for one in budget.items
        ],
        "serving": budget.serving,
        "load_peak": budget.load,
        "first_start_peak": budget.start,
        "cache": {"bytes": budget.pool, "tokens": budget.tokens, "requests": budget.requests},
        "container": {"limit": limits.limit, "headroom": limits.headroom, "counted": limits.counted},
        "torch_cap": torch_bytes(budget, machine) if found.launch.engine in SINCE else None,
        "problems": _problems(budget),
    }


def _problems(budget: Budget) -> Sequence[dict[str, object]]:
    return [{"code": one.code, "text": one.text, "warning": one.warning} for one in budget.problems]
