"""The weights of a recipe: locked, on this machine, checked, and then on every node that is named."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.models.issue import errors_of
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.fit import served_model
from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import refused
from gb10.serving.weights.copying import Hosts, NodeCopy, copy_to_each, require_all
from gb10.serving.weights.downloading import (
    Download,
    check_disk,
    damaged_files,
    download,
    gb,
    missing_bytes,
    missing_files,
)
from gb10.serving.weights.hub_cache import ModelFolder, cache_folder
from gb10.serving.weights.model_lock import (
    HERE,
    MODEL,
    Etag,
    LockedFile,
    LockedModel,
    NodePlace,
    WeightsLock,
    read_weights,
    write_weights,
)
from gb10.sources.hub import BRANCH, HubFile, open_hub

OTHER_FORMS: Final = (
    *("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.onnx", "*.onnx_data"),
    *("*.gguf", "*.mlmodel", "*.nemo", "*.tar", "*.zip"),
)
"""Other forms of the weights, beside safetensors."""
OTHER_FOLDERS: Final = frozenset({"original", "metal", "onnx", "openvino", "coreml", "flax", "mlx"})
CONSOLIDATED: Final = "consolidated*.safetensors"
PICTURES: Final = ("*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp", "*.svg", "*.mp4", "*.pdf", "*.wav", "*.mp3")
SAFETENSORS: Final = ".safetensors"
GGUF: Final = ".gguf"


def chosen_files(files: Sequence[HubFile], quant: str | None = None) -> tuple[tuple[HubFile, ...], tuple[HubFile, ...]]:
    """The files that are taken, and those that are left out. ``quant``: of GGUF files those of this kind."""
    tensors = [one for one in files if one.path.endswith(SAFETENSORS) and not _aside(one)]
    sharded = any(not fnmatch(_last(one), CONSOLIDATED) for one in tensors)

    def wanted(one: HubFile) -> bool:
        name = _last(one).lower()
        if _like(name, PICTURES):
            return False
        if quant is not None:
            return not name.endswith(GGUF) or is_of_kind(one, quant) or name.startswith("mmproj")
        if not tensors:
            return True
        return not (_aside(one) or _like(name, OTHER_FORMS) or (sharded and fnmatch(name, CONSOLIDATED)))

    chosen = tuple(one for one in files if wanted(one))
    return chosen, tuple(one for one in files if one not in set(chosen))


def is_of_kind(one: HubFile, quant: str) -> bool:
    """Whether it is a GGUF file of this kind, by its name."""
    name = _last(one).lower()
    return name.endswith(GGUF) and quant.lower() in name


def _aside(one: HubFile) -> bool:
    return bool(OTHER_FOLDERS & set(one.path.lower().split("/")[:-1]))


def _last(one: HubFile) -> str:
    return one.path.rpartition("/")[2]


def _like(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


BAD_TWICE = "the disk or the memory of this machine may be broken: look at `dmesg`"


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedModel:
    """A model that a recipe serves or drafts with. ``quant``: of GGUF files, the kind that is taken."""

    repo: str
    revision: str | None = None
    quant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PullOptions:
    """How weights are pulled. ``update``: at what the branches mean now; ``verify``: every hash anew."""

    hosts: Hosts = field(default_factory=dict)
    all_files: bool = False
    update: bool = False
    verify: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledWeights:
    """The lock, the bytes that came from the Hub, and the nodes."""

    lock: WeightsLock
    downloaded: int
    nodes: tuple[NodeCopy, ...]


def locked_models(
    ctx: Context, wanted: Sequence[WantedModel], old: WeightsLock | None, wish: PullOptions
) -> tuple[LockedModel, ...]:
    """The models at a commit each: those of the lock, unless others are wanted. Raises FetchError."""
    known = {model.repo: model for model in old.models} if old and not wish.update and not wish.all_files else {}
    found: list[LockedModel] = []
    for one in wanted:
        model = known.get(one.repo)
        same = model is not None and (model.asked, model.quant) == (one.revision or model.asked, one.quant)
        found.append(model if model and same else _locked(ctx, one, all_files=wish.all_files))
    return tuple(found)


def _locked(ctx: Context, wanted: WantedModel, *, all_files: bool) -> LockedModel:
    hub, ref = open_hub(wanted.repo, ctx.env), wanted.revision or BRANCH
    with ctx.reporter.task(f"files of {wanted.repo}"):
        head = hub.head(ref)
        listed = hub.files(head)
    chosen, left = (tuple(listed), ()) if all_files else chosen_files(listed, wanted.quant)
    if left:
        size = sum(one.size for one in left)
        ctx.reporter.say(f"{wanted.repo}: {len(left)} files of other forms are left out, {gb(size)} (--all takes them)")
    if not chosen:
        raise FetchError(f"{wanted.repo} has no file that an engine reads", hint="--all takes every file")
    if wanted.quant and not any(is_of_kind(one, wanted.quant) for one in chosen):
        raise FetchError(f"{wanted.repo} has no GGUF file of {wanted.quant}", hint="look at its files on the Hub")
    files = tuple(LockedFile(path=one.path, size=one.size, etag=one.etag) for one in chosen)
    return LockedModel(repo=wanted.repo, revision=head, asked=ref, quant=wanted.quant, files=files)


def pull_weights(
    ctx: Context, path: Path, recipe: str, wanted: Sequence[WantedModel], wish: PullOptions
) -> PulledWeights:
    """The weights here and on every host, locked at ``path``. Raises FetchError, UsageError, PublishError."""
    old = read_weights(path)
    models = locked_models(ctx, wanted, old, wish)
    lock = WeightsLock(version=1, recipe=recipe, models=models, places=old.places if old else {})
    cache = cache_folder(ctx.env)
    with ctx.store.locked("weights", ctx.reporter.waiting_for("weights")):
        here = lock.places.get(HERE)
        checked = dict(here.checked) if here and here.cache == str(cache) and not wish.verify else {}
        check_disk(sum(missing_bytes(model, ModelFolder(cache, model.repo)) for model in models), cache)
        downloaded = sum(_complete(ctx, model, ModelFolder(cache, model.repo), checked) for model in models)
        lock = _with_place(lock, HERE, NodePlace(cache=str(cache), models=lock.content, checked=checked))
        write_weights(path, lock)
    nodes, failed = copy_to_each(ctx, wish.hosts, lock, cache, verify=wish.verify)
    for node in nodes:
        lock = _with_place(lock, node.host, NodePlace(cache=node.cache, models=lock.content))
    write_weights(path, lock)
    require_all(failed, len(wish.hosts))
    return PulledWeights(lock=lock, downloaded=downloaded, nodes=nodes)


def _with_place(lock: WeightsLock, host: str, place: NodePlace) -> WeightsLock:
    return lock.model_copy(update={"places": {**lock.places, host: place}})


def _complete(ctx: Context, model: LockedModel, folder: ModelFolder, checked: dict[Etag, int]) -> int:
    """Every file of a model, right and under its name: the bytes that came. Raises FetchError."""
    came = _download(ctx, model, folder, checked)
    with ctx.reporter.task(f"check {model.repo}"):
        damaged = damaged_files(ctx.stop, model, folder, checked)
    if damaged:
        ctx.reporter.say(f"{model.repo}: {len(damaged)} files are damaged here: fetching them again")
        for file in damaged:
            folder.blob(file.etag).unlink()
        came += _download(ctx, model, folder, checked)
        if damaged_files(ctx.stop, model, folder, checked):
            raise FetchError(f"files of {model.repo} are damaged again", where=str(folder.path), hint=BAD_TWICE)
    for file in model.files:
        folder.own(file.etag)
        folder.link(model.revision, file.path, file.etag)
    other = folder.name_commit(BRANCH, model.revision)
    if other:
        ctx.reporter.say(
            f"{model.repo}: main means {other[:12]} in this cache, and stays so; {model.revision[:12]} is pulled"
        )
    private = [file for file in model.files if not folder.blob(file.etag).stat().st_mode & stat.S_IROTH]
    if private:
        ctx.reporter.say(
            f"other users cannot read {folder.path}, and an engine may run as one: chmod -R a+rX {folder.path}"
        )
    return came


def _download(ctx: Context, model: LockedModel, folder: ModelFolder, checked: dict[Etag, int]) -> int:
    missing = missing_files(model, folder)
    if not missing:
        return 0
    try:
        return download(
            Download(ctx=ctx, hub=open_hub(model.repo, ctx.env), model=model, folder=folder, checked=checked)
        )
    except FetchError as error:
        left = f"{len(missing_files(model, folder))} of {len(model.files)} files of {model.repo} are still missing"
        raise FetchError(error.message, where="\n".join(filter(None, (error.where, left))), hint=error.hint) from error


def models_of(recipe: ModelRecipe, revision: str | None) -> tuple[WantedModel, ...]:
    """The model that a recipe serves, and those that draft for it in any variant.

    Raises UsageError for a recipe that is not rendered, or that serves no repository of the Hub.
    """
    variants = (None, *own_section(recipe).variants)
    served = [served_model(recipe, RenderRequest(variant=one), own_releases()) for one in variants]
    name = served[0].model
    if errors_of(served[0].issues) and not name:
        raise refused(recipe, served[0].issues)
    found = MODEL.fullmatch(name)
    if found is None:
        hint = "name a model of the Hub: OWNER/NAME; a path has nothing to pull"
        raise UsageError(f"{recipe.name} serves {name[:100] or 'no model'!r}", where=recipe.file, hint=hint)
    asked = revision or recipe.text("model_revision")
    named = (one.launch.drafts.model for one in served if one.launch.drafts)
    drafts = dict.fromkeys(draft["repo"] for text in named if (draft := MODEL.fullmatch(text)))
    return (
        WantedModel(repo=found["repo"], revision=asked, quant=found["quant"]),
        *(WantedModel(repo=repo) for repo in drafts if repo != found["repo"]),
    )
