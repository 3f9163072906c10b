"""What an index says of an engine's next release: its metadata, and the pins that move with it."""

import random
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from packaging.version import Version

from gb10.image.lock.lockfile import load_recipe
from gb10.image.lock.moves import Next, demands, no_longer, pins
from gb10.image.patches.diff import check_diff
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.upgrade.proposal import edited
from tests.fuzz import mutate

METADATA: Final = (
    b"Metadata-Version: 2.4\nName: vllm\nVersion: 0.34.0\nRequires-Dist: torch==2.15.0\nProvides-Extra: b12x\n"
    b'Requires-Dist: flashinfer-python>=0.8,<0.9; platform_system == "Linux" and extra == ""\n'
    b'Requires-Dist: b12x[cu13]==2.0.*; extra == "b12x"\nRequires-Dist: pip @ https://h.invalid/x\n\ntext\n',
)
TOKENS: Final = (
    *(b"Requires-Dist: ", b"Provides-Extra: ", b"\n", b"\n\n", b"==", b"===", b"~=", b">=", b"!=", b"*", b"1!2+x.3"),
    *(b"torch", b"flashinfer_python", b"b12x", b"vllm", b"[", b"]", b"(", b")", b"; ", b" and ", b" in ", b"'", b'"'),
    *(b"extra == ", b"python_version", b"platform_machine", b"os_name", b"@ ", b"\0", b"\xff", b"\r", b"=?utf-8?q?"),
    *(b"Content-Type: text/x; charset=utf-7\n", b"<!doctype html>", b"--- a/x\n", b"9" * 5000),
)
RECIPE: Final = ROOT / "recipes/images/vllm.yaml"


@lru_cache
def recipe() -> tuple[str, Recipe]:
    """vLLM's recipe: its text, and what it says."""
    return RECIPE.read_text(encoding="utf-8"), load_recipe(RECIPE)


def some_metadata(rng: random.Random) -> bytes:
    """The metadata of a release with other bytes."""
    return mutate.of_bytes(rng, METADATA, TOKENS)


def read_metadata(data: bytes, _: Path) -> None:
    """Its requirements, and the recipe with the pins that they move; then the same bytes as a diff."""
    text, ours = recipe()
    old, new = (demands(one, "3.13", "aarch64") for one in (METADATA[0], data))
    release = Next(engine="vllm", version=Version("0.34.0"), old=old, new=new)
    no_longer(ours, release)
    moves = pins(ours, release, lambda project, accepted: Version("3.0") if accepted.contains("3.0") else None)
    changed, made = edited(text, ours, moves, "vllm.yaml")
    before: Mapping[int, str] = dict(enumerate(text.split("\n")))
    differ = [number for number, line in enumerate(changed.split("\n")) if line != before[number]]
    assert made.version == "0.34.0"
    assert len(differ) <= len(moves)
    check_diff(data, "x")
