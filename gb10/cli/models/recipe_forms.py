"""``recipe render --as FORM``: a recipe as files for another launcher; each form is a view of what ``run`` starts."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.options import (
    GIB,
    AllowOption,
    AllowPathOption,
    IgnoreOption,
    ImageOption,
    NameOption,
    request_of,
)
from gb10.cli.values import TrustOption
from gb10.cli.verb import print_json
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.issue import lines_of
from gb10.models.memory.figures import load_figures
from gb10.serving.deploy.deployment import RAILS, Deployment, Fabric, File
from gb10.serving.deploy.fabric_files import check_rails
from gb10.serving.deploy.forms import FORMS, KUBERNETES, deployment_of, image_lines
from gb10.serving.deploy.llama_swap import llama_swap_files
from gb10.serving.run.prepare_service import ServiceRequest, prepare_elsewhere
from gb10.serving.run.service import ContainerSettings
from gb10.serving.run.service_memory import cap_lines

SCRIPT_FORM = "script"
SWAP_FORM = "llama-swap"
NAMES = (SCRIPT_FORM, *FORMS, SWAP_FORM)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormWish:
    """The form of a command line: which, where its files go, and what of the service is not the script's."""

    form: str = SCRIPT_FORM
    out: Path | None = None
    fabric: Fabric = field(default_factory=Fabric)
    together: bool = False
    """Of several models: all may run at once."""
    request: ServiceRequest = field(default_factory=ServiceRequest)


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
    together: Annotated[
        bool, typer.Option("--together", help="With --as llama-swap: all models may run at once.")
    ] = False,
    trust: TrustOption = False,
    allow_path: AllowPathOption = None,
    allow: AllowOption = None,
    ignore_unsupported: IgnoreOption = False,
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
    if together and form != SWAP_FORM:
        raise UsageError("--together is for several models behind one address", hint=f"--as {SWAP_FORM}")
    fabric = Fabric(resource=rdma, functions=functions, rails=named or RAILS)
    request = request_of(
        image=image, trust=trust, allow=allow, allow_paths=allow_path, ignore_unsupported=ignore_unsupported
    )
    return FormWish(form=form, out=out, fabric=fabric, together=together, request=replace(request, name=name))


def only_of_forms(wish: FormWish, settings: ContainerSettings) -> None:
    """Raise UsageError for an option that the script has no place for."""
    without = replace(wish, form=SCRIPT_FORM, request=replace(wish.request, trust=False))
    if without != FormWish() or settings != ContainerSettings():
        raise UsageError("the script takes no such option", hint=f"choose a form: --as {'|'.join(FORMS)}")


def render_form(reporter: Reporter, wish: FormWish, *, as_json: bool) -> None:
    """Print or write the files of a form. Raises UsageError."""
    if wish.request.render.peer or wish.request.render.ray:
        raise UsageError("--peer, --lenient and --ray go with --as script", hint="leave them out")
    prepared = prepare_elsewhere(reporter, os.environ, wish.request)
    deployment = deployment_of(prepared, wish.form, wish.fabric)
    files = FORMS[wish.form](deployment)
    written = write(files, wish.out) if wish.out else None
    if as_json:
        print_json(document(wish.form, deployment, files))
    elif written is not None:
        for path in written:
            print(path)
    else:
        sys.stdout.write(only_one(files).text)
    for line in (
        *(f"{one} is not mounted: the image must hold it, or `volumes` names it" for one in deployment.left_out),
        *lines_of(deployment.rendered.issues),
        *image_lines(deployment.service.image),
        *cap_lines(deployment.service),
    ):
        reporter.say(line)


def render_swap(reporter: Reporter, wish: FormWish, recipes: Sequence[str], *, as_json: bool) -> None:
    """Print or write llama-swap's file and a script for each recipe, with a port of its own. Raises UsageError."""
    deployments = list[Deployment]()
    for recipe in dict.fromkeys(recipes):
        request = replace(wish.request, recipe=recipe)
        prepared = prepare_elsewhere(reporter, os.environ, request)
        ports = {one.service.port for one in deployments}
        if prepared.service.port in ports:
            port = ("port", str(max(ports) + 1))
            request = replace(request, render=replace(request.render, overrides=(*request.render.overrides, port)))
            reporter.say(f"{prepared.service.name}: port {port[1]}, as another has {prepared.service.port}")
            prepared = prepare_elsewhere(Reporter({}), os.environ, request)
        deployments.append(deployment_of(prepared, SWAP_FORM, wish.fabric))
    total = int((load_figures()["total"].gib or 0) * GIB)
    files = llama_swap_files(deployments, total, together=wish.together)
    written = write(files, wish.out) if wish.out else None
    if as_json:
        shown = document(SWAP_FORM, deployments[0], files)
        services = [{"name": one.service.name, "endpoint": one.service.endpoint} for one in deployments]
        print_json({**shown, "name": SWAP_FORM, "services": services})
    elif written is not None:
        print(*written, sep="\n")
    else:
        sys.stdout.write(only_one(files).text)
    for line in dict.fromkeys(line for one in deployments for line in image_lines(one.service.image)):
        reporter.say(line)


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
