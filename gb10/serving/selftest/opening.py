"""A command line becomes a scene: the image that is here, the place for programs, how servers start."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from gb10.containers.images import ImageInfo, find_image, tags_of
from gb10.containers.reach import connect_if_running
from gb10.containers.reference import registry_of, split_digest, split_reference
from gb10.core.ssh import HERE
from gb10.errors import EngineError, UsageError
from gb10.image.context import Context
from gb10.image.request.model_sizes import local_model
from gb10.models.choose.choosing import ChoiceRequest
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import served_model
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.estimating import estimate
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model, known_model
from gb10.models.render.rendered import RenderRequest
from gb10.serving.benchmark.launcher import (
    ARGS,
    ENV,
    Command,
    Launched,
    Launcher,
    by_command,
    by_recipe,
    parameters_of,
    with_parameters,
    words_of,
)
from gb10.serving.run.find_source import find_source
from gb10.serving.run.fleet import open_fleet
from gb10.serving.run.prepare_service import PreparedService, ServiceRequest, prepare_service
from gb10.serving.run.service import ContainerSettings
from gb10.serving.run.service_nodes import parse_nodes
from gb10.serving.selftest.device_compiles import CACHES
from gb10.serving.selftest.folder import Folder, cleaner_of
from gb10.serving.selftest.machine_steps import machine_facts
from gb10.serving.selftest.outcome import ImageFacts, NotCheckedError
from gb10.serving.selftest.place import ImagePlace, LocalPlace
from gb10.serving.selftest.scene import Scene, SelftestRequest
from gb10.serving.selftest.step_table import Need

OURS: Final = re.compile(r"gb10/(?:vllm|sglang):")
PLAN: Final = "io.github.gb10.plan.key"
VERSION: Final = "org.opencontainers.image.version"
TITLE: Final = "org.opencontainers.image.title"
SERVICE: Final = "gb10-selftest"
MARK: Final = "{against}"
"""Where --launch takes the text of --against; the server under test gets nothing there."""
OFFLINE: Final = (("env.HF_HUB_OFFLINE", "1"),)
TALKS: Final = (("env.NCCL_DEBUG", "INFO"),)


def able(scene: Scene) -> frozenset[Need]:
    """What can be looked at with what was given."""
    asked = scene.asked
    found: dict[Need, object] = {
        "machine": True,
        "gpu": scene.place,
        "image": scene.image,
        "server": scene.launcher,
        "nodes": asked.nodes,
        "against": asked.against,
    }
    return frozenset(name for name, given in found.items() if given)


@contextmanager
def open_scene(ctx: Context, asked: SelftestRequest, out: Path | None, *, resume: bool) -> Iterator[Scene]:
    """The scene of a command line; starts nothing, downloads nothing. Without ``out`` there are no results.

    Its server, and what is not cleaned of names yet, end with it. Raises UsageError, EngineError, BuildError.
    """
    if asked.model is not None and not (asked.model / "config.json").is_file():
        raise UsageError(
            f"{asked.model} is no model: it has no config.json", hint="name a folder of a model: --model DIR"
        )
    if asked.python is not None and not asked.python.is_file():
        raise UsageError(f"no Python {asked.python}", hint="name the program: --python /opt/venv/bin/python3")
    hosts = parse_nodes(ctx.env, asked.nodes)
    job = {
        "image": asked.image,
        "model": str(asked.model or ""),
        "recipe": asked.recipe,
        "launch": asked.launch,
        "nodes": len(hosts.nodes) if hosts else 1,
        "quick": asked.quick,
    }
    cleaner = cleaner_of(ctx.env, hosts.nodes if hosts else ())
    if out is not None and not resume and out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty", hint="--resume goes on with it; or name another folder by --out")
    folder = Folder(out, cleaner, job)
    with ctx.store.folder("selftest") as work, ExitStack() as stack:
        scene = Scene(ctx=ctx, asked=asked, folder=folder, work=work, stack=stack, machine=machine_facts(ctx))
        _fill(scene)
        yield scene


def _fill(scene: Scene) -> None:
    """The image, the place for programs, and the servers."""
    asked, ctx = scene.asked, scene.ctx
    _find_image(scene)
    if asked.python is not None:
        scene.place = LocalPlace(python=asked.python, env=ctx.env)
    _find_servers(scene)
    if asked.model is not None:
        size = sum(one.stat().st_size for one in asked.model.glob("*") if one.is_file())
        scene.sizes.append(f"model: {asked.model}, {size / 1e9:.2f} GB, here")


def _find_image(scene: Scene) -> None:
    """The image that was named, or one of ours that the engine has."""
    asked, ctx = scene.asked, scene.ctx
    engine = connect_if_running(ctx.env, ctx.store)
    if engine is None:
        if asked.image:
            raise EngineError("no container engine runs, so no image can be tested", hint="./build.py engine start")
        return
    reference = asked.image or next((one for one in sorted(tags_of(engine), reverse=True) if OURS.search(one)), None)
    if reference is None:
        return
    found = find_image(engine, reference)
    if found is None:
        raise EngineError(
            f"the engine has no image {reference}",
            where="nothing is downloaded unasked",
            hint=f"./build.py pull {reference}",
        )
    scene.image, scene.image_reference = tested_image(reference, found), reference
    scene.sizes.append(f"image: {reference}, {found.size / 1e9:.1f} GB, here")
    scene.place = ImagePlace(engine=engine, image=found, gpus=asked.gpus)


def tested_image(reference: str, found: ImageInfo) -> ImageFacts:
    """An image as the report names it. Pure."""
    name, digest = split_digest(reference)
    repository, tag = split_reference(name)
    host = registry_of(name)
    engine = re.match(r"(vllm|sglang)\b", found.labels.get(TITLE, ""))
    return ImageFacts(
        reference=(repository.removeprefix(f"{host}/") if host else repository) + (f":{tag}" if tag else ""),
        digest=digest or found.id,
        tag=tag or None,
        engine=engine[1] if engine and PLAN in found.labels else None,
        release=found.labels.get(VERSION) if PLAN in found.labels else None,
        plan=found.labels.get(PLAN),
    )


def _find_servers(scene: Scene) -> None:
    """How the server starts, and the one to compare it with."""
    asked = scene.asked
    words_of(asked.drafts or "")  # an open quotation mark is an error now, not after the first server
    given = [one for one in (asked.recipe, asked.launch) if one]
    if len(given) > 1:
        raise UsageError("--recipe and --launch are two ways to start a server", hint="leave one out")
    if asked.launch:
        if asked.model is not None:
            scene.estimated_weights = _weights(local_model(asked.model, str(asked.model)), Launch(engine="vllm"))
        scene.launcher = _by_command(scene, asked.launch.replace(MARK, ""), "server", {})
        scene.caches = {name: scene.work / "caches" / name for name in CACHES.values()}
        template = asked.launch
        scene.other = lambda parameters: _by_command(scene, template.replace(MARK, ""), "other", parameters)
        if asked.against and MARK in template:
            scene.other_launcher = _by_command(scene, template.replace(MARK, asked.against), "other", {})
        elif asked.against:
            parameters = parameters_of(asked.against)
            if placeless := [name for name in parameters if name != ARGS and not name.startswith(ENV)]:
                raise UsageError(
                    f"--launch has no place for the {placeless[0]} of --against",
                    where=template,
                    hint=f"write {MARK} where the text of --against belongs; the server under test gets nothing there",
                )
            scene.other_launcher = scene.other(parameters)
        return
    word = asked.recipe or (str(asked.model.resolve()) if asked.model else None)
    if word is None:
        return
    prepared = _prepared(scene, word, {})
    scene.service = prepared.service
    scene.launcher = _checked(scene, prepared)
    scene.other = lambda parameters: _checked(scene, _prepared(scene, word, parameters))
    if asked.against:
        scene.other_launcher = scene.other(parameters_of(asked.against))


def _by_command(scene: Scene, template: str, name: str, parameters: Mapping[str, str]) -> Launcher:
    """A server that is a process of this machine, with empty caches of its own."""
    caches = {variable: str(scene.work / "caches" / name) for variable, name in CACHES.items()}
    command = Command(
        template=template,
        parameters={**{f"{ENV}{name}": value for name, value in caches.items()}, **parameters},
        patience=scene.asked.wait,
    )
    log = scene.work / f"{name}.log"
    return by_command(scene.ctx, command, log, lambda pid, started: None)


def _prepared(scene: Scene, word: str, parameters: Mapping[str, str]) -> PreparedService:
    """The service of a recipe or of a model's folder with these parameters, offline unless downloads were asked for."""
    asked, ctx = scene.asked, scene.ctx
    settings = (*TALKS, *(() if asked.download else OFFLINE))
    request = ServiceRequest(
        recipe=word,
        render=RenderRequest(overrides=settings),
        nodes=asked.nodes,
        image=scene.image_reference or None,
        containers=replace(ContainerSettings(), gpus=asked.gpus),
        patience=asked.wait,
    )
    hosts = parse_nodes(ctx.env, asked.nodes)
    found = find_source(ctx, word, ChoiceRequest(nodes=len(hosts.nodes) if hosts else None))
    request = with_parameters(request, found.source.recipe, parameters, SERVICE)
    prepared = prepare_service(ctx.reporter, ctx.env, request, source=found.source)
    sizes = found.source.sizes or known_model(prepared.recipe.model or "")
    if sizes is not None:
        launch = served_model(prepared.recipe, request.render, own_releases()).launch
        scene.estimated_weights = _weights(sizes, launch)
    return prepared


def _weights(sizes: Model, launch: Launch) -> float | None:
    """GiB of weights on a node, as recipe memory counts them."""
    budget = estimate(sizes, launch, Machine(figures=load_figures())).tightest
    found = [item.size for item in budget.items if item.name == "weights"]
    return sum(found) / GIB if found else None


def _checked(scene: Scene, prepared: PreparedService) -> Launcher:
    """The launcher; an image that is missing is "not checked", and no download."""
    launcher = by_recipe(scene.ctx, prepared, scene.work / "ranks")

    def launch() -> AbstractContextManager[Launched]:
        if not scene.asked.download:
            _require(scene.ctx, prepared.service.hosts, prepared.service.image)
        return launcher()

    return launch


def _require(ctx: Context, hosts: Sequence[str], image: str) -> None:
    """Raise NotCheckedError unless the engine of each node has the image."""
    missing = f"{image} is not here, and nothing is downloaded unasked: ./build.py pull {image}, or --download"
    if HERE in hosts and connect_if_running(ctx.env, ctx.store) is None:
        raise NotCheckedError(missing)
    with open_fleet(ctx, hosts) as fleet:
        if any(find_image(engine, image) is None for engine in fleet.values()):
            raise NotCheckedError(missing)
