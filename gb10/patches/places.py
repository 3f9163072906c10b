"""Where sources keep their files: what they install, and what their repositories keep elsewhere than their archives."""

from typing import Final

PACKAGES: Final = {
    "vllm/": "vllm",
    "python/sglang/": "sglang",
    "sglang/": "sglang",
    "flashinfer/": "flashinfer",
    "nvidia_cutlass_dsl/": "cutlass-dsl",
}
"""What the sources install; everything else of them is compiled, or read by people."""
MOVED: Final = {"sglang": {"python/sglang/": "sglang/"}}
"""Where an engine's repository keeps what its archives keep elsewhere."""
IN_WHEEL: Final = {"flashinfer": {"csrc/": "flashinfer/data/csrc/", "include/": "flashinfer/data/include/"}}
HARMLESS: Final = ("tests/", "test/", "docs/", "doc/", ".github/", ".buildkite/", "benchmarks/", "examples/")
"""Folders that no installed engine reads: a hunk there that does not fit is said, and does not stop."""
TEXTS: Final = (".md", ".rst")


def installed(path: str) -> bool:
    """Whether a wheel holds a file of this path."""
    return path.startswith(tuple(PACKAGES))


def harmless(path: str) -> bool:
    """Whether nothing of an engine reads a file of this path."""
    return path.startswith(HARMLESS) or ("/" not in path and path.endswith(TEXTS))


def placed(path: str, source: str, *, wheel: bool) -> str:
    """Where an archive keeps a file that the repository keeps at ``path``."""
    places = MOVED.get(source, {}) | (IN_WHEEL.get(source, {}) if wheel else {})
    start = next((start for start in places if path.startswith(start)), "")
    return places.get(start, "") + path.removeprefix(start)
