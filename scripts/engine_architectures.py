"""Write recipes/choose/ENGINE-RELEASE.json from engines' wheels: the architectures of config.json that each one serves.

    pip download --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 --python-version 3.13 vllm==0.33.0
    python3 -m bootstrap scripts/engine_architectures.py WHEEL...

Nothing of a wheel is imported: vLLM has tables in model_executor/models/registry.py, SGLang an EntryClass in each
module of srt/models. The file names the wheel by its sha256.
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


def text_of(archive: zipfile.ZipFile, name: str) -> str:
    """A Python file of a wheel."""
    if archive.getinfo(name).file_size > LARGEST:
        sys.exit(f"{name} is larger than {LARGEST} bytes")
    return archive.read(name).decode("utf-8", "replace")


def main() -> None:
    """Read each wheel, write a file each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels", type=Path, nargs="+")
    for wheel in parser.parse_args().wheels:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            read = {"vllm": vllm_architectures, "sglang": sglang_architectures}[name]
            found = read(archive)
        with wheel.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        document = {
            "engine": str(name),
            "release": str(version),
            "wheel": wheel.name,
            "sha256": sha256,
            **{kind: sorted(names) for kind, names in found.items()},
        }
        path = ROOT / "recipes/choose" / f"{name}-{version}.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {', '.join(f'{len(names)} {kind}' for kind, names in found.items())}")


if __name__ == "__main__":
    main()
