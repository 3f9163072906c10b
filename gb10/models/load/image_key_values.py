"""KEY=VALUE image recipes (``.recipe``): the engine and the releases that they name, or the one reason why not. Pure.

A line is ``KEY=VALUE``; ``#`` starts a comment line; the first ``=`` splits, and quotes around a value go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gb10.errors import UsageError

LARGEST: Final = 64 << 10
"""Characters of a file."""
LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
RELEASE: Final = re.compile(r"v?(\d+(?:\.\d+)+(?:\.?(?:post|rc|a|b)\d+)?)")
ENGINES: Final = {"VLLM": "vllm", "SGLANG": "sglang"}
NOTHING: Final = frozenset({"DOCKERFILE", "TARGET", "IMAGE_TAG", "BUILD_JOBS"})
"""Keys that change nothing in an image of ours: how and under which name the other builder works."""
OUT_OF_REACH: Final = {
    "LLAMACPP_": "it builds llama.cpp; gb10 builds vLLM and SGLang",
    "FLASH_MLA_": "it compiles FlashMLA from a git repository, which gb10 does not",
    "DSV4_KERNEL_": "it compiles kernels from a git repository, which gb10 does not",
    "APPLY_": "it applies pull requests that lie in the other builder's tree; give the diff: --patch FILE",
    "NCCL_": "it compiles its own NCCL, which gb10 does not",
}
MEANS_NO: Final = frozenset({"", "0", "false", "no", "none"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageWish:
    """What ``image`` builds instead: an engine, releases by source, and the keys that are not followed."""

    engine: str
    refs: Mapping[str, str]
    ignored: tuple[str, ...] = field(default=())


def read_key_values(text: str, file: str) -> dict[str, str]:
    """The values by key, of a repeated key the last; raises UsageError with the line of what is none."""
    if len(text) > LARGEST:
        raise UsageError(f"{file} is not an image recipe of KEY=VALUE lines: it is too large")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = LINE.fullmatch(stripped)
        if match is None:
            hint = "write KEY=VALUE; a model recipe is YAML, and `recipe render` reads it"
            raise UsageError(f"{file} is not an image recipe of KEY=VALUE lines", where=f"{file}:{number}", hint=hint)
        found[match[1]] = match[2].strip().strip("\"'")
    return found


def image_wish(values: Mapping[str, str], file: str) -> ImageWish:
    """The image that is meant; raises UsageError with the one reason when gb10 cannot build it."""
    given = {key: value for key, value in values.items() if value.lower() not in MEANS_NO}
    for start, reason in OUT_OF_REACH.items():
        key = next((key for key in given if key.startswith(start)), None)
        if key is not None:
            raise UsageError(f"{file} cannot be expressed: {reason}", where=f"{key}={given[key][:80]}")
    named = [name for name in ENGINES if f"{name}_VERSION" in given or f"{name}_REF" in given]
    if len(named) != 1:
        reason = "it names no vLLM or SGLang" if not named else "it names two engines"
        raise UsageError(f"{file} cannot be expressed: {reason}")
    engine = ENGINES[named[0]]
    used = {f"{named[0]}_VERSION", f"{named[0]}_REF", "FLASHINFER_VERSION"}
    refs = {engine: _release(given, f"{named[0]}_VERSION", f"{named[0]}_REF", file)}
    if "FLASHINFER_VERSION" in given:
        refs["flashinfer"] = _release(given, "FLASHINFER_VERSION", "FLASHINFER_VERSION", file)
    return ImageWish(engine=engine, refs=refs, ignored=tuple(sorted(given.keys() - used - NOTHING)))


def _release(given: Mapping[str, str], key: str, other: str, file: str) -> str:
    key = key if key in given else other
    found = RELEASE.fullmatch(given[key])
    if found is None:
        reason = "it names a branch or commit, and gb10 builds releases"
        raise UsageError(f"{file} cannot be expressed: {reason}", where=f"{key}={given[key][:80]}")
    return found[1]
