"""A model by its name or folder becomes a model recipe: its small files are read, and a launch is chosen from them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import requests
from urllib3.exceptions import HTTPError

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.core.http_session import get, network_error, open_session
from gb10.core.installation import ROOT
from gb10.core.printing import printable
from gb10.errors import FetchError, UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.dag import image_tag
from gb10.image.plan.options import Options
from gb10.image.recipe.arch import parse_arch
from gb10.image.request.kernel_choice import CONFIG, local_config, read_config
from gb10.image.request.model_sizes import MOST_FILES, hub_model, local_gguf, local_model
from gb10.image.request.model_sizes import SUFFIX as TENSORS
from gb10.models.choose.choosing import Choice, ChoiceRequest, ModelFiles, choose, engine_for, not_text
from gb10.models.choose.llama_cpp import choose_gguf
from gb10.models.choose.writing import PLAIN
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.figures import load_figures
from gb10.models.memory.gguf import SUFFIX, gguf_model, kinds_of, quant_of, read_gguf
from gb10.models.memory.shapes.config_fields import Fields

if TYPE_CHECKING:
    from gb10.sources.hub import Hub

TOKENIZER: Final = "tokenizer_config.json"
FAST: Final = "tokenizer.json"
MODULES: Final = "modules.json"
"""Of sentence-transformers: what comes after the layers."""
ADAPTER: Final = "adapter_config.json"
PIPELINE: Final = "model_index.json"
MISTRAL: Final = "params.json"
RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as --max-lora-rank (config/lora.py)."""
WORD: Final = re.compile(r"[\w/.+@%-]+")
TEMPLATE: Final = "chat_template.jinja"
OTHER_WEIGHTS: Final = (".bin", ".pt", ".pth", ".onnx", ".npz", ".nemo")
LARGEST: Final = 32 << 20
"""Bytes of a tokenizer's config; some hold the whole vocabulary of added tokens."""
LONGEST: Final = 1 << 20
"""Characters of a template."""


def choose_for(host: Host, model: str, request: ChoiceRequest) -> Choice:
    """The launch of a folder, a GGUF file, or ``OWNER/NAME[@REVISION][:KIND]`` on the Hub. No weight is downloaded.

    Raises UsageError for a folder that holds no model and for a model that nothing serves, FetchError.
    """
    folder = Path(model)
    engine = request.engine
    if folder.is_dir():
        files = _of_folder(_plain(folder), engine)
    else:
        files = _of_gguf(folder) if model.endswith(SUFFIX) else _of_hub(host, model, engine)
    if files.gguf is not None:
        if engine is not None or (request.nodes or 1) > 1:
            asked = engine or f"{request.nodes} nodes"
            raise UsageError(f"{model} with {asked}: llama.cpp serves GGUF files, on one node", hint="leave it out")
        return choose_gguf(files, files.gguf, Machine(figures=load_figures()), purpose=request.purpose)
    containers = {engine: _container(engine) for engine in ("vllm", "sglang")}
    return choose(
        files,
        Machine(figures=load_figures()),
        containers,
        purpose=request.purpose,
        engine=request.engine,
        nodes=request.nodes,
    )


def _plain(path: Path) -> Path:
    """The path without links; raises UsageError for one that is no plain word of a command line and of a mount."""
    found = path.resolve()
    if not WORD.fullmatch(str(found)):
        where = "".join(dict.fromkeys(one for one in str(found) if not WORD.fullmatch(one)))
        raise UsageError(
            f"the path {str(found)!r} cannot stand in an engine's command: it has {where!r}",
            hint="rename what has it: letters, digits and _ . - + @ % are read everywhere",
        )
    return found


def _container(engine: str) -> str:
    """Our image of an engine for 12.1f, as model recipes name it."""
    arch = parse_arch("12.1f")
    recipe = load_recipe(ROOT / "recipes/images" / f"{engine}.yaml")
    return image_tag(recipe, Options(arch=arch, platform=arch.platform, build="arm64"))


def _of_gguf(path: Path) -> ModelFiles:
    """What a GGUF file of this machine says of its model."""
    path = _plain(path)
    if not path.is_file():
        raise UsageError(f"no file {path}", hint="name a GGUF file of this machine, or OWNER/NAME:KIND of the Hub")
    sizes, header = local_gguf(path)
    return ModelFiles(name=str(path), fields=Fields({}), sizes=sizes, template=header.template, gguf=header)


def _of_gguf_repository(host: Host, hub: "Hub", head: str, sizes: Mapping[str, int], quant: str) -> ModelFiles:
    """What the GGUF files of a repository say, of one kind of quantization; only their first bytes are read."""
    kinds = kinds_of(sizes)
    wanted = {first: parts for first, parts in kinds.items() if not quant or quant_of(first) == quant.upper()}
    if not wanted:
        has = ", ".join(sorted({quant_of(first) or printable(first[:200]) for first in kinds})[:20]) or "none"
        raise UsageError(f"{hub.repo} has no GGUF files of the kind {quant[:40]}", where=f"it has: {has}")
    first = _only_kind({one: f"{hub.repo}:{quant_of(one) or 'KIND'}" for one in wanted}, hub.repo)
    try:
        with open_session(host.env) as session, get(session, hub.place(first, head)) as reply:
            reply.raise_for_status()
            header = read_gguf(reply.raw, first)
    except requests.RequestException as error:
        raise network_error(error, f"{first} of {hub.repo} cannot be read") from error
    except HTTPError as error:  # of urllib3: the connection broke while it was read
        raise FetchError(f"{first} of {hub.repo} cannot be read", where=str(error)[:300], hint="run again") from error
    name = f"{hub.repo}:{quant_of(first)}" if quant_of(first) else hub.repo
    found = gguf_model(header, name, sum(sizes[part] for part in wanted[first]))
    return ModelFiles(name=name, fields=Fields({}), sizes=found, template=header.template, gguf=header)


def _only_kind(words: Mapping[str, str], model: str) -> str:
    """The first file of the only kind; ``words``: how each is named on a command line. Raises UsageError."""
    if len(words) > 1:
        raise UsageError(
            f"{model} has {len(words)} kinds of GGUF files, and one is served",
            where="\n".join(list(words)[:20]),
            hint=f"name it: ./build.py run {next(iter(words.values()))} --image REF",
        )
    return next(iter(words))


def _of_folder(folder: Path, engine: str | None) -> ModelFiles:
    """What a folder of this machine holds; it must have the same path on each node. An engine must have its model."""
    if not (folder / CONFIG).is_file() or _is_adapter([one.name for one in islice(folder.iterdir(), MOST_FILES)]):
        kinds = kinds_of(one.name for one in islice(folder.glob(f"*{SUFFIX}"), MOST_FILES))
        if not kinds:
            within = [f"{one.parent.name}/{CONFIG}" for one in islice(folder.glob(f"*/{CONFIG}"), MOST_FILES)]
            names = [name for name in (ADAPTER, PIPELINE, MISTRAL) if (folder / name).is_file()]
            raise _no_config(str(folder), [*names, *sorted(within)], lambda name: _json(folder / name, str(folder)))
        return _of_gguf(folder / _only_kind({one: str(folder / one) for one in kinds}, str(folder)))
    config = local_config(folder)
    engine_for(str(folder), Fields(config), engine)  # before its sizes, which are not known of what no engine has
    return ModelFiles(
        name=str(folder),
        fields=Fields(config),
        sizes=local_model(folder, str(folder)),
        template=_template(folder, str(folder)),
        has_weights=any(folder.glob(f"*{TENSORS}")),
        pools=_pools(folder / MODULES, str(folder)),
        text_limit=_text_limit(folder / TOKENIZER, str(folder)),
        own_tokenizer=not (folder / FAST).is_file() and _own_tokenizer(folder / TOKENIZER, str(folder)),
    )


def _of_hub(host: Host, model: str, engine: str | None) -> ModelFiles:
    """What a repository of the Hub holds, at one commit: its config, the headers of its files, its chat template.

    An engine must have the architecture of its config; else nothing more is read.
    """
    from gb10.sources.hub import open_hub  # noqa: PLC0415 - the import takes a third of a second

    model, _, quant = model.partition(":")
    repo, _, revision = model.partition("@")
    hub = open_hub(repo, host.env)
    head = hub.head(revision) if revision else hub.head()
    listed = {one.path: one.size for one in hub.files(head)}

    def small(name: str, work: Path) -> Path:
        """One of its small files, fetched into a folder. Raises UsageError for a large one, FetchError."""
        if listed[name] > LARGEST:
            raise UsageError(f"{name} of {repo} has {listed[name]:,} bytes; at most {LARGEST:,} are read")
        hub.fetch(name, head, work)
        return work / name

    if quant or (CONFIG not in listed and kinds_of(listed)):
        if revision:
            raise UsageError(f"{repo}: llama.cpp takes no revision of GGUF files", hint=f"name it without @{revision}")
        return _of_gguf_repository(host, hub, head, listed, quant)
    if CONFIG not in listed or _is_adapter(listed):

        def read(name: str) -> Any:  # noqa: ANN401 - as its author wrote it
            with host.store.folder("hub") as work:
                return _json(small(name, work), repo)

        raise _no_config(repo, sorted(listed), read)
    config = read_config(host, f"{repo}@{head}")
    engine_for(repo, Fields(config), engine)
    if not any(path.endswith(TENSORS) for path in listed):
        others = [printable(path) for path in listed if path.endswith(OTHER_WEIGHTS)]
        raise UsageError(
            f"{repo} has no weights in safetensors files",
            where=f"it has {', '.join(others[:3])}" if others else None,
            hint="choose a repository that has some",
        )
    with host.store.folder("hub") as work:
        for name in (TOKENIZER, TEMPLATE, MODULES):
            if name in listed:
                small(name, work)
        template = _template(work, repo)
        pools, limit = _pools(work / MODULES, repo), _text_limit(work / TOKENIZER, repo)
        own_tokenizer = FAST not in listed and _own_tokenizer(work / TOKENIZER, repo)
    sizes = hub_model(host, f"{repo}@{head}")
    return ModelFiles(
        name=repo,
        fields=Fields(config),
        sizes=sizes,
        template=template,
        revision=head,
        pools=pools,
        text_limit=limit,
        own_tokenizer=own_tokenizer,
    )


def _is_adapter(names: Iterable[str]) -> bool:
    """Whether files are an adapter's alone. A model that it was merged into often keeps its config."""
    names = set(names)
    return ADAPTER in names and not any(name.endswith(TENSORS) and not name.startswith("adapter_") for name in names)


def _no_config(model: str, names: Sequence[str], read: Callable[[str], Any]) -> UsageError:
    """Why nothing can be chosen for a model without config.json, by the names of its files, and what works.

    ``read`` gives the content of one of its JSON files.
    """
    if ADAPTER in names:
        told = read(ADAPTER)
        told = told if isinstance(told, dict) else {}
        base, rank, kind = (told.get(name) for name in ("base_model_name_or_path", "r", "peft_type"))
        of = base if isinstance(base, str) and PLAIN.fullmatch(base) else "OWNER/MODEL"
        what = f"{model} is an adapter of {of[:200]}, not a model"
        if kind not in {None, "LORA"}:
            what += f"; and of the kind {ascii(kind)[:80]}: vLLM and SGLang load LoRA alone"
        elif isinstance(rank, int) and rank > RANKS[-1]:
            what += f"; and of a rank above {RANKS[-1]}, the largest that vLLM takes"
        else:
            enough = next((one for one in RANKS if isinstance(rank, int) and rank <= one), RANKS[-1])
            hint = (
                f"start that model with it: ./build.py run {of[:200]} -- --enable-lora --max-lora-rank {enough} "
                f"--lora-modules adapter={model}"
            )
            return UsageError(what, hint=hint)
        return UsageError(what)
    if PIPELINE in names:
        told = read(PIPELINE)
        kind = told.get("_class_name") if isinstance(told, dict) else None
        return not_text(f"{model} is a pipeline of diffusers ({str(kind)[:80]})")
    if MISTRAL in names:
        return UsageError(
            f"{model} has its config in Mistral's form ({MISTRAL}) alone, which gb10 does not read",
            hint="take a repository of the model with config.json; or write a recipe with vllm serve MODEL "
            "--tokenizer-mode mistral --config-format mistral --load-format mistral",
        )
    within = [name.removesuffix(f"/{CONFIG}") for name in names if name.endswith(f"/{CONFIG}")]
    if within:
        return UsageError(
            f"{model} has no {CONFIG} of its own",
            where="one is in: " + ", ".join(printable(name[:200]) for name in within[:8]),
            hint="name the folder of the model, downloaded where it is on the Hub: ./build.py run /FOLDER/"
            + next((name for name in within if PLAIN.fullmatch("/" + name)), "NAME"),
        )
    return UsageError(f"{model} has no {CONFIG}", hint="name a model's folder, or OWNER/NAME of a model on the Hub")


def _template(folder: Path, model: str) -> str:
    """The chat template of a model, empty without one: a file of its own, or a field of the tokenizer's config."""
    own = folder / TEMPLATE
    if own.is_file():
        return read_plain_file(own, LARGEST).decode("utf-8", "replace")[:LONGEST]
    found = _json(folder / TOKENIZER, model)
    template = found.get("chat_template") if isinstance(found, dict) else None
    if isinstance(template, list):  # several, by name
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("tool_use") or named.get("default")
    return template[:LONGEST] if isinstance(template, str) else ""


def _json(path: Path, model: str) -> Any:  # noqa: ANN401 - as its author wrote it
    """A small file of a model; None without it. Raises UsageError for one that is not JSON."""
    if not path.is_file():
        return None
    try:
        return json.loads(read_plain_file(path, LARGEST))
    except (ValueError, RecursionError) as error:
        hint = "download the model again, or name a revision whose file is whole: NAME@REVISION"
        raise UsageError(f"the {path.name} of {model} is not JSON", where=str(error)[:200], hint=hint) from error


def _pools(path: Path, model: str) -> bool:
    """Whether the modules of sentence-transformers pool: vLLM serves such a model so, too (transformers_utils)."""
    found = _json(path, model)
    modules = found if isinstance(found, list) else ()
    return any(isinstance(one, dict) and str(one.get("type")).endswith(".Pooling") for one in modules)


def _own_tokenizer(path: Path, model: str) -> bool:
    """Whether a tokenizer's config names a class in the model's files."""
    found = _json(path, model)
    places = found.get("auto_map") if isinstance(found, dict) else None
    return bool(places.get("AutoTokenizer") if isinstance(places, dict) else places)


def _text_limit(path: Path, model: str) -> int | None:
    """The tokenizer's own limit of a text, in tokens; None where it names none (or the library's 10^30)."""
    found = _json(path, model)
    limit = found.get("model_max_length") if isinstance(found, dict) else None
    return limit if isinstance(limit, int) and 0 < limit < 1 << 27 else None
