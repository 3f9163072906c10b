"""A model's sizes from its own files: a folder, an index, a config alone, or its repository on the Hub."""

import os
import stat
from itertools import islice
from pathlib import Path
from typing import Final

from gb10.core.files import read_plain_file
from gb10.core.host import Host
from gb10.errors import FetchError, UsageError
from gb10.image.request.kernel_choice import CONFIG, local_config, read_config
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.memory.gguf import SUFFIX as GGUF
from gb10.models.memory.gguf import GgufFile, gguf_model, kinds_of, missing_parts, read_gguf
from gb10.models.memory.model import Model, model_of, with_sizes
from gb10.models.memory.shapes.config_fields import Config
from gb10.models.memory.weights.headers import INDEX, PREFIX, entry_sizes, header_length, header_sizes, index_of

LARGEST_INDEX: Final = 256 << 20
MOST_FILES: Final = 4096
CLOSE: Final = 0.001
"""Share by which an index and the headers may differ: some count padding."""
SUFFIX: Final = ".safetensors"


def local_model(path: Path, name: str) -> Model:
    """The sizes of a folder, of its index, or of a config.json; raises UsageError."""
    if path.is_file() and path.name.endswith(".index.json"):
        return _of_index(path, name)
    if path.is_file() and path.suffix == ".json":
        return model_of(local_config(path), name, f"the config in {path}")
    if not path.is_dir():
        raise UsageError(f"{path} is not a model", hint=f"name a folder with {CONFIG}, or its {INDEX}")
    files = sorted(path.glob(f"*{SUFFIX}"))[: MOST_FILES + 1]
    if not files:
        index = path / INDEX
        return (
            _of_index(index, name) if index.is_file() else model_of(local_config(path), name, f"the config in {path}")
        )
    if len(files) > MOST_FILES:
        raise UsageError(f"{path} has more than {MOST_FILES} files of weights")
    by_file = [_header(file) for file in files]
    sizes = dict(pair for found in by_file for pair in found.items())
    _check_index(path / INDEX, sizes)
    largest = max(sum(found.values()) for found in by_file)
    source = f"headers of {len(files)} files in {path}"
    return with_sizes(_config_beside(path), sizes.items(), name, source, largest_file=largest)


def local_gguf(path: Path) -> tuple[Model, GgufFile]:
    """The sizes and the metadata of a GGUF file, or of the first one of a model that was split. Raises UsageError."""
    parts = kinds_of(one.name for one in islice(path.parent.glob(f"*{GGUF}"), MOST_FILES)).get(path.name, (path.name,))
    missing = missing_parts(path.name, parts)
    if missing:
        where = "\n".join(missing[:5])
        raise UsageError(f"{path}: parts of its model are missing", where=where, hint="download them, too")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123 - Path has no flags
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{path} is no plain file", hint="name a GGUF file")
            header = read_gguf(stream, str(path))
        size = sum((path.parent / part).stat().st_size for part in parts)
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error
    return gguf_model(header, str(path), size), header


def folder_sizes(recipe: ModelRecipe) -> Model | None:
    """The sizes of a recipe's model that is a folder or a GGUF file of this machine; None where they are not known."""
    folder = Path(recipe.model or "")
    if folder.is_absolute() and folder.name.endswith(GGUF) and folder.is_file():
        try:
            return local_gguf(folder)[0]
        except UsageError:
            return None
    if not folder.is_absolute() or ".." in folder.parts or not (folder / CONFIG).is_file():
        return None
    try:
        return local_model(folder, str(folder))
    except UsageError:
        return None  # a family that is not known: then the memory is not, and that is said


def hub_model(host: Host, name: str) -> Model:
    """The sizes of ``OWNER/NAME[@COMMIT]`` on the Hub: its config and the headers of its files. Raises FetchError."""
    from gb10.sources.hub import open_hub  # noqa: PLC0415 - the import takes a third of a second

    repo, _, commit = name.partition("@")
    hub = open_hub(repo, host.env)
    head = commit or hub.head()
    config = read_config(host, f"{repo}@{head}")
    with host.reporter.task(f"headers of {repo}"):
        headers = hub.headers(head)
    by_file = [entry_sizes(dict(entries), file) for file, entries in headers.items()]
    sizes = dict(pair for found in by_file for pair in found.items())
    if not sizes:
        raise FetchError(f"{repo} has no tensors", hint="name a repository with safetensors files")
    largest, source = (
        max(sum(found.values()) for found in by_file),
        f"headers of {len(headers)} files of {repo}@{head[:12]}",
    )
    return with_sizes(config, sizes.items(), repo, source, largest_file=largest)


def _of_index(path: Path, name: str) -> Model:
    """An index has a total, and names without shapes: the config divides the total."""
    total, names, files = index_of(read_plain_file(path, LARGEST_INDEX), str(path))
    present = [path.parent / file for file in sorted(files) if (path.parent / file).is_file()]
    if len(present) == len(files):
        return local_model(path.parent, name)
    config = _config_beside(path.parent)
    if config is None:
        hint = f"put its {CONFIG} beside it, or name the folder with its files"
        raise UsageError(f"{path} has the names of {len(names)} tensors, but no shapes", hint=hint)
    model = model_of(config, name, f"the config in {path.parent}")
    return model.scaled(total, f"total of {path.name}, divided by its config") if total else model


def _config_beside(folder: Path) -> Config | None:
    return local_config(folder) if (folder / CONFIG).is_file() else None


def _check_index(index: Path, sizes: dict[str, int]) -> None:
    """Raise UsageError when an index and the headers are not of the same files."""
    if not index.is_file():
        return
    total, names, _ = index_of(read_plain_file(index, LARGEST_INDEX), str(index))
    missing = sorted(set(names) - sizes.keys())
    if missing:
        raise UsageError(
            f"{index} names {len(missing)} tensors that no file has",
            where="\n".join(name[:200] for name in missing[:3]),
            hint="download the model again: a file is missing, or of another version",
        )
    present = sum(sizes.values())
    if total and abs(present - total) > CLOSE * total:
        raise UsageError(
            f"{index} says {total} bytes, and the headers have {present}",
            hint="download the model again: its files and its index are of different versions",
        )


def _header(path: Path) -> dict[str, int]:
    try:
        with path.open("rb") as stream:
            length = header_length(stream.read(PREFIX), str(path))
            text = stream.read(length)
        return header_sizes(text, str(path), path.stat().st_size - PREFIX - length)
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error
