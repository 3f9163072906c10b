"""Write recipes/choose/ENGINE-RELEASE.json from engines' wheels: architectures and types of config.json that it reads.

    pip download --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 --python-version 3.13 vllm==0.33.0
    python3 -m bootstrap scripts/engine_architectures.py WHEEL TRANSFORMERS'-WHEEL

Nothing of a wheel is imported: vLLM has tables in model_executor/models/registry.py, SGLang an EntryClass in each
module of srt/models. The types are those of configs that the engine or the transformers of its image reads without
code of the model. The file names the wheel by its sha256.
"""

import argparse
import ast
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.utils import parse_wheel_filename

ROOT: Final = Path(__file__).resolve().parents[1]
LARGEST: Final = 8 << 20
"""Bytes of one Python file."""
GENERATES: Final = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")
"""The last are served by transformers' own classes."""
POOLS: Final = (
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
)
DRAFTS: Final = ("_SPECULATIVE_DECODING_MODELS",)
SGLANG_POOLS: Final = ("Embedding", "Reward", "Classification")
SGLANG_DRAFTS: Final = re.compile(r"Draft|^DFlash|^Eagle3|Eagle3?$|NextN$|MTP$|Assistant|DSpark")
SPEECH: Final = re.compile(r"ASR|Asr|Whisper|Transcri")
"""Of models that an engine lets transcribe, those that are made for nothing else; others are asked in a chat, too."""
Architectures = dict[str, set[str]]
"""Those that generate, those that pool, those that only draft for another model, and those that turn speech to text."""


def vllm_architectures(archive: zipfile.ZipFile) -> Architectures:
    """By the tables of its registry."""
    tables: dict[str, set[str]] = {}
    places: dict[str, tuple[str, str]] = {}
    for node in ast.parse(text_of(archive, "vllm/model_executor/models/registry.py")).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if (
            isinstance(target, ast.Name)
            and isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Dict)
        ):
            keys = (key.value for key in node.value.keys if isinstance(key, ast.Constant))
            tables[target.id] = {key for key in keys if isinstance(key, str)}
            if target.id in GENERATES:
                places |= ast.literal_eval(node.value)
    missing = [name for name in (*GENERATES, *POOLS, *DRAFTS) if not tables.get(name)]
    if missing:
        sys.exit(f"vLLM's registry has no {', '.join(missing)}: read where it keeps its architectures now")
    kinds = {"generates": GENERATES, "pools": POOLS, "drafts": DRAFTS}
    found = {kind: set().union(*(tables[name] for name in names)) for kind, names in kinds.items()}
    return {**found, "transcribes": {name for name, place in places.items() if transcribes(archive, name, *place)}}


def transcribes(archive: zipfile.ZipFile, architecture: str, module: str, name: str) -> bool:
    """Whether a class of vLLM only transcribes, or may and is named for it."""
    path = f"vllm/model_executor/models/{module}.py"
    if path not in archive.namelist():
        return False
    text = text_of(archive, path)
    body = next((one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name == name), None)
    if body is None:
        return False
    own = ast.unparse(body)
    may = any(getattr(base, "id", "") == "SupportsTranscription" for base in body.bases)
    return "supports_transcription_only = True" in own or (may and bool(SPEECH.search(architecture)))


def sglang_architectures(archive: zipfile.ZipFile) -> Architectures:
    """By the words in their names."""
    found = set[str]()
    for name in archive.namelist():
        if name.startswith("sglang/srt/models/") and name.endswith(".py"):
            found |= set(entry_classes(ast.parse(text_of(archive, name))))
    if not found:
        sys.exit("no module of sglang/srt/models has an EntryClass")
    pools = {name for name in found if any(word in name for word in SGLANG_POOLS)}
    drafts = {name for name in found if SGLANG_DRAFTS.search(name)}
    keys = set[str]()
    for name in archive.namelist():
        if name.startswith("sglang/srt/entrypoints/openai/transcription_adapters/") and name.endswith(".py"):
            keys |= set(
                re.findall(r'^@register_transcription_adapter\("(\w+)"\)', text_of(archive, name), re.MULTILINE)
            )
    writes = found - pools - drafts
    heard = {name for name in writes if SPEECH.search(name) and any(key in name for key in keys)}
    return {"generates": writes, "pools": pools, "drafts": drafts, "transcribes": heard}


def entry_classes(tree: ast.Module) -> Iterator[str]:
    """The names in ``EntryClass = A`` or ``EntryClass = [A, B]``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EntryClass":
            for one in ast.walk(node.value):
                if isinstance(one, ast.Name):
                    yield one.id


REGISTRY: Final = {
    "vllm": ("vllm/transformers_utils/config.py", "vllm/transformers_utils/configs/"),
    "sglang": ("sglang/srt/utils/hf_transformers/common.py", "sglang/srt/configs/"),
}
"""The module with the engine's table of configs, and the folder of its classes."""
MAPPINGS: Final = tuple(f"transformers/models/auto/{name}.py" for name in ("auto_mappings", "configuration_auto"))


def config_types(name: str, archive: zipfile.ZipFile, transformers: zipfile.ZipFile) -> set[str]:
    """The values of ``model_type`` for which there is a class, in the engine or in transformers."""
    table, classes = REGISTRY[name]
    own = [one for one in archive.namelist() if one.startswith(classes) and one.endswith(".py")]
    found = {word for one in (table, *own) for word in types_in(ast.parse(text_of(archive, one)))}
    theirs = {word for one in MAPPINGS for word in types_in(ast.parse(text_of(transformers, one)))}
    if not found or "llama" not in theirs:
        sys.exit("read where the engine and transformers keep the types of configs now")
    return found | theirs


def types_in(tree: ast.Module) -> Iterator[str]:
    """Types by ``model_type = "x"`` in a class, and by pairs and names whose value is the name of a config's class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == "model_type" and isinstance(node.value, ast.Constant):
                yield str(node.value.value)
            if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == "_CONFIG_REGISTRY":
                yield ast.literal_eval(target.slice)
        pairs: list[tuple[object, object]] = []
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            pairs = [(getattr(node.elts[0], "value", None), getattr(node.elts[1], "value", None))]
        elif isinstance(node, ast.Dict):
            pairs = [
                (getattr(key, "value", None), getattr(value, "value", None))
                for key, value in zip(node.keys, node.values, strict=True)
            ]
        elif isinstance(node, ast.Call):
            pairs = [(one.arg, getattr(one.value, "value", None)) for one in node.keywords]
        yield from (
            kind for kind, name in pairs if isinstance(kind, str) and isinstance(name, str) and name.endswith("Config")
        )


def text_of(archive: zipfile.ZipFile, name: str) -> str:
    """A Python file of a wheel."""
    if archive.getinfo(name).file_size > LARGEST:
        sys.exit(f"{name} is larger than {LARGEST} bytes")
    return archive.read(name).decode("utf-8", "replace")


def main() -> None:
    """Read each wheel, write a file each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("transformers", type=Path)
    given = parser.parse_args()
    name, version, _, _ = parse_wheel_filename(given.wheel.name)
    with zipfile.ZipFile(given.wheel) as archive, zipfile.ZipFile(given.transformers) as transformers:
        found = {"vllm": vllm_architectures, "sglang": sglang_architectures}[name](archive)
        found["types"] = config_types(name, archive, transformers)
    with given.wheel.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    document = {
        "engine": str(name),
        "release": str(version),
        "wheel": given.wheel.name,
        "sha256": sha256,
        "transformers": str(parse_wheel_filename(given.transformers.name)[1]),
        **{kind: sorted(names) for kind, names in found.items()},
    }
    path = ROOT / "recipes/choose" / f"{name}-{version}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {', '.join(f'{len(names)} {kind}' for kind, names in found.items())}")


if __name__ == "__main__":
    main()
