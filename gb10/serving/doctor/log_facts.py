"""What a log says of the software and the network that it ran on. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from packaging.utils import canonicalize_name

MOST: Final = 400
"""Packages and addresses of a log that are kept, each."""
VERSION: Final = r"(?P<version>\d[\w.+!-]{0,60})"
PACKAGES: Final[Mapping[bytes, re.Pattern[str]]] = {
    b"==": re.compile(rf"(?<![\w.-])(?P<name>[A-Za-z][\w.-]{{1,60}})==\s?{VERSION}"),
    b"PyTorch version": re.compile(r"PyTorch version\s{0,40}: (?P<torch>\d[\w.+]{0,40})"),
    b"LLM API server version": re.compile(rf"(?P<vllm>vLLM) API server version {VERSION}"),
    b" version 0.": re.compile(rf"(?:█ {{1,4}}| \[api_utils\.py:\d+\] +)(?P<vllm>version) {VERSION}"),
    b"V1 LLM engine (v": re.compile(rf"(?P<vllm>V1 LLM) engine \(v{VERSION}\)"),
    b"TensorRT LLM version": re.compile(rf"TensorRT LLM (?P<trtllm>version): {VERSION}"),
    b"TensorRT-LLM version": re.compile(rf"TensorRT-LLM (?P<trtllm>version): {VERSION}"),
}
"""Text of a line, and what names a package there: a group with its name, or a group that is called like it."""
BIND: Final = re.compile(r"OOB (?P<interface>[\w.-]{1,32}):(?P<address>\d{1,3}(?:\.\d{1,3}){3})<")
ADDRESS: Final = re.compile(
    r"(?:tcp://|_ip=|[Cc]onnect(?:ing|ed)? to |_addr[=:] ?)'?(?P<address>\d{1,3}(?:\.\d{1,3}){3})"
)
SET: Final = re.compile(r"(?P<name>NCCL_IB_(?:HCA|GID_INDEX)) set (?:by environment )?to (?P<value>[\w,:=^.-]{1,200})")
"""What NCCL prints of variables that choose adapters."""
DRAFTS: Final = b"spec_decode_tokens={"
DRAFTED: Final = re.compile(r"scheduled_spec_decode_tokens=\{[^}]")
SIZE: Final = re.compile(r"\b(?:file|model) size {1,10}= (?P<number>\d{1,6}(?:\.\d{1,4})?) (?P<unit>[MG])iB")
FACT_TEXTS: Final = (
    *PACKAGES, b"OOB ", b"Init COMPLETE", b"tcp://", b"connect_ip=", b"NVIDIA GB10", b"file size ", b"model size ",
    b"NCCL_IB_HCA set", b"NCCL_IB_GID_INDEX set", DRAFTS,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFacts:
    """Facts of one log."""

    packages: Mapping[str, str] = field(default_factory=dict)
    """Releases by canonical name, as the log names them last."""
    fabric: Mapping[str, str] = field(default_factory=dict)
    """Addresses that NCCL took, by interface."""
    addresses: tuple[str, ...] = ()
    """Other addresses that ranks use to reach each other."""
    nccl_is_up: bool = False
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Variables of NCCL that choose adapters and their addresses, as NCCL printed them."""
    drafts: bool = False
    """Whether vLLM's scheduler had draft tokens in hand, as it prints them when a step fails."""
    names_gb10: bool = False
    model_gib: float | None = None
    """The size of the last model, as llama.cpp prints it."""


class FactReader:
    """Reads the lines that may have facts."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._packages: dict[str, str] = {}
        self._fabric: dict[str, str] = {}
        self._addresses: dict[str, None] = {}
        self._adapters: dict[str, str] = {}
        self._said = set[bytes]()
        self._model: float | None = None

    def look(self, text: str, marks: Iterable[bytes]) -> None:
        """A line that has some of FACT_TEXTS."""
        for mark in marks:
            if mark in (b"Init COMPLETE", b"NVIDIA GB10") or (mark == DRAFTS and DRAFTED.search(text)):
                self._said.add(mark)
            elif mark.endswith(b" size ") and (size := SIZE.search(text)):
                self._model = float(size["number"]) / (1 if size["unit"] == "G" else 1024)
            elif mark == b"OOB ":
                for found in BIND.finditer(text):
                    if len(self._fabric) < MOST:
                        self._fabric[found["interface"]] = found["address"]
            elif mark in (b"tcp://", b"connect_ip="):
                for found in ADDRESS.finditer(text):
                    if len(self._addresses) < MOST:
                        self._addresses[found["address"]] = None
            elif mark.startswith(b"NCCL_IB_") and (given := SET.search(text)):
                self._adapters[given["name"]] = given["value"].rstrip(".,")
            elif mark in PACKAGES:
                self._package(PACKAGES[mark], text)

    def _package(self, pattern: re.Pattern[str], text: str) -> None:
        for found in pattern.finditer(text):
            parts = found.groupdict()
            own = next((key for key in ("vllm", "torch", "trtllm") if parts.get(key)), None)
            name = own or str(canonicalize_name(parts["name"] or ""))
            version = parts.get("version") or parts.get("torch") or ""
            if name in self._packages or len(self._packages) < MOST:
                self._packages[name] = version.rstrip(".-")

    def facts(self) -> LogFacts:
        """All of them."""
        return LogFacts(
            packages=dict(self._packages),
            fabric=dict(self._fabric),
            addresses=tuple(self._addresses),
            nccl_is_up=b"Init COMPLETE" in self._said,
            adapters=dict(self._adapters),
            drafts=DRAFTS in self._said,
            names_gb10=b"NVIDIA GB10" in self._said,
            model_gib=self._model,
        )
