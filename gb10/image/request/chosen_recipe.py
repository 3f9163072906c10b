"""A model by its name or folder becomes a model recipe: its small files are read, and a launch is chosen from them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.dag import image_tag
from gb10.image.plan.options import Options
from gb10.image.recipe.arch import parse_arch
from gb10.image.request.kernel_choice import CONFIG, local_config, read_config
from gb10.image.request.model_sizes import SUFFIX, hub_model, local_model
from gb10.models.choose.choosing import Choice, ChoiceRequest, ModelFiles, choose, engine_for
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import load_figures
from gb10.models.memory.shapes.config_fields import Fields

TOKENIZER: Final = "tokenizer_config.json"
TEMPLATE: Final = "chat_template.jinja"
LARGEST: Final = 32 << 20
"""Bytes of a tokenizer's config; some hold the whole vocabulary of added tokens."""
LONGEST: Final = 1 << 20
"""Characters of a template."""
GGUF: Final = ".gguf"


def choose_for(host: Host, model: str, request: ChoiceRequest) -> Choice:
    """The launch of a folder, or of ``OWNER/NAME[@REVISION]`` on the Hub. No weight is downloaded.

    Raises UsageError for a folder that holds no model and for a model that nothing serves, FetchError.
    """
    folder = Path(model)
    engine = request.engine
    files = _of_folder(folder.resolve(), engine) if folder.is_dir() else _of_hub(host, model, engine)
    containers = {engine: _container(engine) for engine in ("vllm", "sglang")}
    return choose(
        files,
        Machine(figures=load_figures()),
        containers,
        purpose=request.purpose,
        engine=request.engine,
        nodes=request.nodes,
    )


def _container(engine: str) -> str:
    """Our image of an engine for 12.1f, as model recipes name it."""
    arch = parse_arch("12.1f")
    recipe = load_recipe(ROOT / "recipes/images" / f"{engine}.yaml")
    return image_tag(recipe, Options(arch=arch, platform=arch.platform, build="arm64"))


def _of_folder(folder: Path, engine: str | None) -> ModelFiles:
    """What a folder of this machine holds; it must have the same path on each node. An engine must have its model."""
    if not (folder / CONFIG).is_file():
        found = sorted(path.name for path in folder.glob(f"*{GGUF}"))[:20]
        raise _no_config(str(folder), found)
    config = local_config(folder)
    engine_for(str(folder), Fields(config), engine)  # before its sizes, which are not known of what no engine has
    return ModelFiles(
        name=str(folder),
        fields=Fields(config),
        sizes=local_model(folder, str(folder)),
        template=_template({name: folder / name for name in (TOKENIZER, TEMPLATE)}, str(folder)),
        there=any(folder.glob(f"*{SUFFIX}")),
    )


def _of_hub(host: Host, model: str, engine: str | None) -> ModelFiles:
    """What a repository of the Hub holds, at one commit: its config, the headers of its files, its chat template.

    An engine must have the architecture of its config; else nothing more is read.
    """
    from gb10.sources.hub import open_hub  # noqa: PLC0415 - the import takes a third of a second

    repo, _, revision = model.partition("@")
    hub = open_hub(repo, host.env)
    head = hub.head(revision) if revision else hub.head()
    listed = {one.path for one in hub.files(head)}
    if CONFIG not in listed:
        raise _no_config(repo, sorted(path for path in listed if path.endswith(GGUF))[:20])
    config = read_config(host, f"{repo}@{head}")
    engine_for(repo, Fields(config), engine)
    if not any(path.endswith(SUFFIX) for path in listed):
        raise UsageError(f"{repo} has no weights in safetensors files", hint="choose a repository that has some")
    with host.store.folder("hub") as work:
        there = {name: hub.fetch(name, head, work) for name in (TOKENIZER, TEMPLATE) if name in listed}
        template = _template({name: path for name, path in there.items() if path}, repo)
    sizes = hub_model(host, f"{repo}@{head}")
    return ModelFiles(name=repo, fields=Fields(config), sizes=sizes, template=template, revision=head)


def _no_config(model: str, gguf: list[str]) -> UsageError:
    """Why nothing can be chosen for a model without config.json."""
    if gguf:
        return UsageError(
            f"{model} has GGUF files, which llama.cpp serves; gb10 builds no image of it",
            where="\n".join(gguf),
            hint="write a recipe with the command llama-server -m FILE, and run it with --image REF@sha256:…; "
            "recipes/models/gpt-oss-120b-llamacpp.yaml is one",
        )
    return UsageError(f"{model} has no {CONFIG}", hint="name a model's folder, or OWNER/NAME of a model on the Hub")


def _template(files: Mapping[str, Path], model: str) -> str:
    """The chat template of a model, empty without one: a file of its own, or a field of the tokenizer's config."""
    own = files.get(TEMPLATE)
    if own is not None and own.is_file():
        return read_plain_file(own, LARGEST).decode("utf-8", "replace")[:LONGEST]
    path = files.get(TOKENIZER)
    if path is None or not path.is_file():
        return ""
    try:
        found: Any = json.loads(read_plain_file(path, LARGEST))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the {TOKENIZER} of {model} is not JSON", where=str(error)[:200]) from error
    template = found.get("chat_template") if isinstance(found, dict) else None
    if isinstance(template, list):  # several, by name
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("tool_use") or named.get("default")
    return template[:LONGEST] if isinstance(template, str) else ""
