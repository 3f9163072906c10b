"""One error of a log with what is known around it: what families of errors judge. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from packaging.utils import canonicalize_name

from gb10.core.log_words import unprefixed
from gb10.serving.doctor.engine_releases import EngineRelease, Releases
from gb10.serving.doctor.log_exceptions import Frame, Raised
from gb10.serving.doctor.log_scan import Scan

DISTRIBUTIONS: Mapping[str, str] = {
    "flashinfer": "flashinfer-python",
    "sgl_kernel": "sglang-kernel",
    "huggingface_hub": "huggingface-hub",
    "compressed_tensors": "compressed-tensors",
    "flash_attn": "flash-attn",
    "tensorrt_llm": "tensorrt-llm",
    "tvm_ffi": "apache-tvm-ffi",
    "cutlass": "nvidia-cutlass-dsl",
}
"""Distributions whose package has another name."""
LONGEST = 2000
"""Characters of a message that families look at."""
CAPTURES = re.compile(r"graph[\w./:]*captur|captur\w*(?:graph|model)")
"""A file and its function that capture CUDA graphs; hidden states and outputs are captured, too."""
ENGINES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "tensorrt_llm": "TensorRT-LLM",
    "flashinfer": "FlashInfer",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One error of a log. ``raised`` without a type is a line that is no exception."""

    raised: Raised
    chain: tuple[Raised, ...]
    scan: Scan
    releases: Releases = field(default_factory=Releases)
    options: frozenset[str] = frozenset()
    """The options of the engines that are known (``--max-model-len``)."""
    sglang_options: frozenset[str] = frozenset()
    """Those of SGLang alone."""
    choices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By a value that has a name of its own: the options that take it."""

    @property
    def text(self) -> str:
        """The message."""
        return self.raised.message

    @property
    def first_line(self) -> str:
        """The first line of the message."""
        return self.text.partition("\n")[0]

    @property
    def asserts(self) -> bool:
        """Whether the last frame is an assertion: over the program's own state, which nobody gave."""
        return bool(self.raised.frames) and self.raised.frames[-1].code.startswith("assert")

    def caller(self, *libraries: str) -> Frame | None:
        """The innermost frame of a package that is none of these: what called them."""
        return next((one for one in reversed(self.raised.frames) if one.package not in ("", *libraries)), None)

    @property
    def said(self) -> str:
        """The first line without its time, its level and its place."""
        return unprefixed(self.first_line).strip()

    def trace(self, last: int) -> str:
        """The files, functions and lines of code of the last frames, as one text."""
        return " ".join(f"{one.path} {one.function} {one.code}" for one in self.raised.frames[-last:])

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The packages of its traceback, the outermost first, each once."""
        return tuple(dict.fromkeys(filter(None, (frame.package for frame in self.raised.frames))))

    @property
    def drafts(self) -> bool:
        """Whether drafts are on: by the options of the log, or by what the scheduler had in hand."""
        given = self.scan.start.option("speculative_config", "speculative_algorithm")
        return given not in (None, "None") or self.scan.facts.drafts

    @property
    def captures(self) -> bool:
        """Whether it was raised while CUDA graphs were captured."""
        return any(CAPTURES.search(f"{frame.path}:{frame.function}") for frame in self.raised.frames)

    @property
    def engine(self) -> str | None:
        """The engine that wrote the log."""
        found = self.scan.start.engine or (self.scan.image.engine if self.scan.image else None)
        called = next((one for one in ENGINES if one in self.packages), None)
        named = next((one for one in ("vllm", "sglang", "trtllm") if one in self.scan.facts.packages), None)
        return found or called or named or self.scan.marked

    @property
    def engine_name(self) -> str:
        """The engine as its users call it."""
        return ENGINES.get(self.engine or "", "the engine")

    def version(self, distribution: str) -> str | None:
        """The release of a distribution, by the image, else as the log names it."""
        image = self.scan.image.versions if self.scan.image else {}
        return image.get(distribution) or self.scan.facts.packages.get(distribution)

    @property
    def release(self) -> EngineRelease | None:
        """What is known of the engine's release."""
        if self.engine is None:
            return None
        version = self.version(self.engine)
        return self.releases.find(self.engine, version) if version else None

    @property
    def newer(self) -> EngineRelease | None:
        """The engine's next release, where one is known."""
        return self.releases.after(self.engine, self.release.version) if self.engine and self.release else None

    def fitting(self, distribution: str) -> str:
        """Which release of a package belongs to the engine's, in words; empty where nobody knows."""
        found = self.release
        if found is None:
            return ""
        wanted, newest = found.requires.get(distribution), found.newest.get(distribution)
        here = f"{self.engine_name} {found.version}"
        if wanted and wanted.startswith("=="):
            return f"{here} requires {distribution} {wanted.removeprefix('==')}."
        parts = [
            f"{here} requires {distribution} {wanted}." if wanted else "",
            f"{distribution} {newest} was the newest when {here} was made." if newest else "",
        ]
        return " ".join(filter(None, parts))

    def here(self, otherwise: str = "this release") -> str:
        """The engine with its release, in words."""
        return f"{self.engine_name} {self.release.version}" if self.release else otherwise


def distribution_of(package: str) -> str:
    """The distribution that brings a package."""
    return DISTRIBUTIONS.get(package) or str(canonicalize_name(package))
