"""``recipe render --as FORM``: a recipe as files for another launcher; each form is a view of what ``run`` starts."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.container_flags import ImageOption, NameOption
from gb10.cli.models.recipe_mods import passed_on
from gb10.cli.models.recipe_trust import TrustOption, mods_here, require_trust
from gb10.cli.models.run_memory import cap_lines, with_budget
from gb10.cli.models.wanted_service import Described, Wanted, described, require_room
from gb10.cli.verb import print_json
from gb10.containers.reference import registry_of
from gb10.core.installation import ROOT
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.issue import lines_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.render.rendered import RenderRequest
from gb10.models.undone import undone_by_run
from gb10.serving.deploy.deployment import RAILS, Deployment, Fabric, File, containers_of
from gb10.serving.deploy.fabric_files import check_rails, pod_nodes
from gb10.serving.deploy.forms import FORMS
from gb10.serving.deploy.kubernetes import object_name
from gb10.serving.run.node_launch import SCRIPT
from gb10.serving.run.service import Options
from gb10.serving.run.service_nodes import nodes_of
from gb10.serving.weights.model_lock import WeightsLock

SCRIPT_FORM = "script"
NAMES = (SCRIPT_FORM, *FORMS)
KUBERNETES = "k8s"
SPARKRUN = "sparkrun"
TEMPLATES = ("docker.sh.j2", "unit.service.j2")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormWish:
    """What a command line wants of a form."""

    form: str = SCRIPT_FORM
    out: Path | None = None
    image: str | None = None
    name: str | None = None
    fabric: Fabric = field(default_factory=Fabric)
    trust: bool = False
    file: RecipeFile | None = None
    weights: WeightsLock | None = None


def form_wish(
    *,
    form: Annotated[str, typer.Option("--as", metavar="FORM", help=f"What to make: {', '.join(NAMES)}.")] = SCRIPT_FORM,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the files of the form into this folder.")
    ] = None,
    image: ImageOption = None,
    name: NameOption = None,
    rdma: Annotated[
        str | None,
        typer.Option(
            "--rdma",
            metavar="RESOURCE",
            help="With --as k8s: a device plugin's resource for RDMA. Without: privileged pods.",
        ),
    ] = None,
    functions: Annotated[
        bool,
        typer.Option(
            "--virtual-functions",
            help="With --as k8s, without --rdma: privileged pods with a virtual function of each rail.",
        ),
    ] = False,
    rails: Annotated[
        str, typer.Option("--rails", metavar="A,B", help="With --as k8s: interfaces of the fast link.")
    ] = ",".join(RAILS),
    trust: TrustOption = False,
) -> FormWish:
    """The wish; raises UsageError for an unknown form or an interface that cannot be."""
    if form not in NAMES:
        raise UsageError(f"unknown form {form!r}", hint=f"known: {', '.join(NAMES)}")
    named = tuple(one.strip() for one in rails.split(",") if one.strip())
    check_rails(named)
    if (rdma, functions, named) != (None, False, RAILS) and form != KUBERNETES:
        raise UsageError("--rdma, --virtual-functions and --rails are for Kubernetes", hint="--as k8s")
    if rdma is not None and functions:
        raise UsageError(
            "--rdma brings virtual functions", hint="leave --virtual-functions out: it is for no device plugin"
        )
    if rdma is not None and (rdma.count("/") != 1 or not all(rdma.split("/"))):
        raise UsageError(f"{rdma!r} is no resource of a device plugin", hint="write its name: --rdma rdma/shared")
    fabric = Fabric(resource=rdma, functions=functions, rails=named or RAILS)
    return FormWish(form=form, out=out, image=image, name=name, fabric=fabric, trust=trust)


def only_of_forms(wish: FormWish, options: Options) -> None:
    """Raise UsageError for an option that the script has no place for."""
    only = replace(wish, form=SCRIPT_FORM, trust=False) == FormWish()
    if not only or replace(options, cap=None) != Options():
        raise UsageError("the script takes no such option", hint=f"choose a form: --as {'|'.join(FORMS)}")


def render_form(
    reporter: Reporter, loaded: ModelRecipe, request: RenderRequest, wish: FormWish, options: Options, *, as_json: bool
) -> None:
    """Print or write the files of a form. Raises UsageError."""
    if request.peer or request.ray:
        raise UsageError("--peer, --lenient and --ray go with --as script", hint="leave them out")
    wanted = Wanted(
        hosts=request.nodes,
        request=replace(request, nodes=()),
        image=wish.image,
        name=wish.name,
        trust=wish.trust,
        file=wish.file,
        weights=wish.weights,
    )
    require_room(reporter, loaded, wanted)
    options = with_budget(reporter, loaded, request, options, wish.image or loaded.container or "")
    deployment = deployment_of(loaded, wanted, wish, options)
    files = FORMS[wish.form](deployment)
    written = write(files, wish.out) if wish.out else None
    if as_json:
        print_json(document(wish.form, deployment, files))
    elif written is not None:
        for path in written:
            print(path)
    else:
        sys.stdout.write(only_one(files).text)
    undone = undone_by_run(deployment.recipe, deployment.service.ranks[0].container.command)
    for line in (
        *(f"{loaded.file}:{one.line}: no form does this: {one.text}" for one in undone),
        *lines_of(deployment.rendered.issues),
        *image_lines(deployment.service.image),
        *cap_lines(deployment.service),
    ):
        reporter.say(line)


def deployment_of(loaded: ModelRecipe, wanted: Wanted, wish: FormWish, options: Options) -> Deployment:
    """What the forms are views of. Raises UsageError for a recipe with a mistake, or without image or trust."""
    found = _described(loaded, wanted, wish, options)
    if wanted.file is not None:
        passed = passed_on(loaded, wanted.file) if wish.form == SPARKRUN else ()  # sparkrun runs what it names
        powers = dict.fromkeys((*found.powers, *mods_here(loaded, wanted.file, passed)))
        require_trust(loaded, wanted.file, tuple(powers), trust=wanted.trust)
    return Deployment(
        service=found.service,
        containers=containers_of(found.service, SCRIPT.read_text(encoding="utf-8")),
        recipe=found.recipe,
        rendered=found.rendered,
        arguments=wanted.request.arguments,
        templates={name: (ROOT / "templates" / name).read_text(encoding="utf-8") for name in TEMPLATES},
        fabric=wish.fabric,
    )


def _described(loaded: ModelRecipe, wanted: Wanted, wish: FormWish, options: Options) -> Described:
    """The service. In Kubernetes its nodes are pods, as many as the recipe needs."""
    if wish.form != KUBERNETES:
        return described(loaded, wanted, nodes_of(wanted.hosts), options)
    nodes_of(wanted.hosts)  # checks their names
    name = object_name(wanted.name or loaded.stem)
    found = described(loaded, wanted, pod_nodes(name, wanted.hosts, wish.fabric), options)
    used = wanted.hosts[: len(found.service.ranks)]
    if used == wanted.hosts:
        return found
    return described(loaded, wanted, pod_nodes(name, used, wish.fabric), options)


def only_one(files: Sequence[File]) -> File:
    """The file of a form that has one. Raises UsageError for several: together they are no file."""
    if len(files) == 1:
        return files[0]
    where = "\n".join(file.name + (f", for {file.host}" if file.host else "") for file in files)
    raise UsageError(f"the form has {len(files)} files", where=where, hint="write them: --out DIR; or --json")


def write(files: Sequence[File], folder: Path) -> list[Path]:
    """Write files into a folder, which is made; their paths. Raises UsageError; then no file is cut."""
    aside = {folder / f".{file.name}.new": file for file in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, file in aside.items():
            path.write_text(file.text, encoding="utf-8")
            path.chmod(0o755 if file.name.endswith(".sh") else 0o644)
        return [path.rename(folder / file.name) for path, file in aside.items()]
    except OSError as error:
        for path in aside:
            with suppress(OSError):
                path.unlink()
        raise UsageError(f"cannot write into {folder}", where=error.strerror or str(error)) from error


def document(form: str, deployment: Deployment, files: Sequence[File]) -> dict[str, object]:
    """The files as data, schema gb10/deployment/v1."""
    service = deployment.service
    return {
        "schema": "gb10/deployment/v1",
        "form": form,
        "name": service.name,
        "image": service.image,
        "endpoint": service.endpoint,
        "files": [{"name": file.name, "host": file.host, "text": file.text} for file in files],
        "issues": [issue.document for issue in deployment.rendered.issues],
    }


def image_lines(image: str) -> list[str]:
    """What a user should know of the image: nobody can pull a local name, and a tag can move."""
    if "@" in image:
        return []
    if registry_of(image) is None:
        return [f"{image} names no registry, so no node pulls it: bring it there first (./build.py pull)"]
    return [f"{image} is a tag, which can move: a digest cannot (--image NAME@sha256:…)"]
