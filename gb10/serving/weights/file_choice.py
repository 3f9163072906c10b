"""Which files of a model an engine reads: one form of the weights, and no pictures. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Final

from gb10.sources.hub_file import HubFile

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

    taken = tuple(one for one in files if wanted(one))
    return taken, tuple(one for one in files if one not in set(taken))


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
