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
Architectures = dict[str, set[str]]
"""Those that generate, those that pool, and those that only draft for another model."""


def vllm_architectures(archive: zipfile.ZipFile) -> Architectures:
    """By the tables of its registry."""
    tables: dict[str, set[str]] = {}
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
    missing = [name for name in (*GENERATES, *POOLS, *DRAFTS) if not tables.get(name)]
    if missing:
        sys.exit(f"vLLM's registry has no {', '.join(missing)}: read where it keeps its architectures now")
    kinds = {"generates": GENERATES, "pools": POOLS, "drafts": DRAFTS}
    return {kind: set().union(*(tables[name] for name in names)) for kind, names in kinds.items()}


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
    return {"generates": found - pools - drafts, "pools": pools, "drafts": drafts}


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
