"""What a step gets: what was asked, the folder, and what steps before it found or started."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gb10.core.files import read_plain_file
from gb10.image.context import Context
from gb10.serving.benchmark.launcher import Launched, Launcher
from gb10.serving.load_generator.endpoint import Endpoint, page, reach
from gb10.serving.run.service import Service
from gb10.serving.selftest.answers import Answer, Canaries
from gb10.serving.selftest.folder import Folder
from gb10.serving.selftest.outcome import Figure, ImageFacts, MachineFacts, NotCheckedError
from gb10.serving.selftest.place import Place, Ran, run_program

MOST_REQUESTS: Final = re.compile(r"max_(?:num_seqs|running_requests)['\"]?\s{0,2}[:=]\s{0,2}(\d{1,5})")
EXPERTS: Final = re.compile(r'"(?:num_experts|n_routed_experts|num_local_experts)"\s{0,4}:\s{0,4}[1-9]')
PAGE_S: Final = 15.0
MOST_OF_PAGE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SelftestRequest:
    """The command line."""

    image: str | None = None
    python: Path | None = None
    gpus: bool = True
    libraries: tuple[Path, ...] = ()
    """Folders of libraries, instead of the image's."""
    model: Path | None = None
    recipe: str | None = None
    launch: str | None = None
    nodes: str | None = None
    against: str | None = None
    """An image, or settings, of a server to compare with."""
    drafts: str | None = None
    """Words of the engine's command that turn drafts on."""
    quick: bool = False
    download: bool = False
    """Whether an image or weights that are missing may be fetched."""
    wait: float = 600.0
    most: int = 32
    """Requests at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Greedy:
    """Greedy answers of the server, and which of them repeat themselves."""

    answers: Sequence[Answer]
    steady: Sequence[bool]
    engine: str
    """As the pages of the server show it (``vLLM``); empty where they do not."""
    drafts: float | None
    """Drafts that it counted so far; None where it counts none."""
    command: str
    canaries: Canaries | None = None
    """To hold those of another server against; None where no step asks for them."""

    @property
    def drafting(self) -> bool:
        """Whether the server drafts."""
        return bool(self.drafts) or "--spec" in self.command


@dataclass(kw_only=True)
class Scene:
    """One self-test as it goes on."""

    ctx: Context
    asked: SelftestRequest
    folder: Folder
    work: Path
    """A folder that ends with the scene, for what is not cleaned of names."""
    machine: MachineFacts
    image: ImageFacts | None = None
    image_reference: str = ""
    """As the engine knows it; the report has no registry's host."""
    place: Place | None = None
    launcher: Launcher | None = None
    service: Service | None = None
    """What the launcher starts, where a recipe says so."""
    caches: Mapping[str, Path] = field(default_factory=dict)
    """Folders of caches of a server that is a process of this machine."""
    other: Callable[[Mapping[str, str]], Launcher] | None = None
    """The launcher of the same server with parameters of its own: ``image``, ``args``, ``env.NAME``, a recipe's."""
    other_launcher: Launcher | None = None
    """Of --against."""
    greedy: Greedy | None = None
    wanted: frozenset[str] = frozenset()
    """The steps that run."""
    log_name: str = "server.log"
    """The file for the log of the server that runs."""
    server: Launched | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    """Holds the server; it ends with it."""
    why_no_server: str = ""
    sizes: list[str] = field(default_factory=list)
    """What is here, and how large it is."""
    estimated_weights: float | None = None
    """GiB, by recipe memory."""
    evidence: list[str] = field(default_factory=list)
    """Of the step that runs."""

    def keep(self, name: str, content: str | Mapping[str, Any] | list[Any]) -> None:
        """Keep evidence of the step that runs."""
        kept = self.folder.keep(name, content)
        if kept not in self.evidence:
            self.evidence.append(kept)

    def program(self, step: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Ran:
        """Run a program where the GPU's libraries are, and keep what it prints. Raises NotCheckedError."""
        if self.place is None:
            raise NotCheckedError("no image and no --python: nothing here has PyTorch and the CUDA bindings")
        if self.machine.gpu is None and self.asked.gpus:
            raise NotCheckedError("no GPU: nvidia-smi is missing or lists none")
        ran = run_program(self.place, argv, env)
        self.keep(f"{step}.log", ran.text)
        return ran

    @property
    def may_have_experts(self) -> bool:
        """Whether the model has experts, as its config says; a model without a folder may."""
        if self.asked.model is None:
            return True
        config = read_plain_file(self.asked.model / "config.json", MOST_OF_PAGE).decode("utf-8", "replace")
        return EXPERTS.search(config) is not None

    def note_device(self, device: Mapping[str, Any]) -> None:
        """What the driver says of the GPU, for the report."""
        self.machine = replace(
            self.machine, sm_count=int(device["sm_count"]), capability=self.machine.capability or device["capability"]
        )

    def require_capability(self, family: str, why: str) -> None:
        """Raise NotCheckedError on a GPU of another family."""
        if not (self.machine.capability or "").startswith(family):
            raise NotCheckedError(f"{why}; this is {self.machine.words}")

    @property
    def libraries(self) -> list[str]:
        """Folders with the engine's libraries."""
        return [str(one) for one in self.asked.libraries] or ["/opt", "/usr/lib/python3", "/usr/local/lib"]

    @property
    def running(self) -> Launched:
        """The server. Raises NotCheckedError when it did not start, or has ended."""
        if self.server is None:
            raise NotCheckedError(self.why_no_server or "no server was started")
        if how := self.server.ended():
            raise NotCheckedError(f"the server has ended: {how}")
        return self.server

    @property
    def endpoint(self) -> Endpoint:
        """Where the server answers."""
        return reach(self.running.url, None, self.ctx.env, keyed=False)

    def promised_kernels(self) -> list[str] | None:
        """The kernels that the image leaves to the device; None when it promises none."""
        if self.place is None:
            return None
        ran = run_program(self.place, ["promised.py"])
        found = [line for line in ran.lines if line["kind"] == "promised"]
        return list(found[-1]["left"]) if found and found[-1]["made"] is not None else None

    def longest(self) -> int | None:
        """Tokens of prompt and answer that the server takes, as it says; None where it does not."""
        endpoint = self.endpoint
        try:
            with page(f"{endpoint.url}/models", {}, self.ctx.env, seconds=PAGE_S, direct=True) as reply:
                rows = json.loads(reply.raw.read(MOST_OF_PAGE, decode_content=True))["data"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        lengths = [row["max_model_len"] for row in rows if isinstance(row.get("max_model_len"), int)]
        return min(lengths, default=None)

    @staticmethod
    def most_requests(log: str) -> int | None:
        """Requests at once that the server takes, by its log."""
        found = MOST_REQUESTS.search(log)
        return int(found[1]) if found else None

    def end_server(self) -> None:
        """End the server now."""
        self.stack.close()
        self.server = None

    def of_gb10(self, claims: Mapping[str, Figure]) -> Mapping[str, Figure]:
        """Claims as they are; raises NotCheckedError with them on another GPU."""
        if not self.machine.is_gb10:
            raise MeasuredElsewhereError(self.machine.words, claims)
        return claims


class MeasuredElsewhereError(NotCheckedError):
    """Something was measured on another GPU: a figure, and no answer."""

    def __init__(self, words: str, claims: Mapping[str, Figure]) -> None:
        """``words``: the machine."""
        super().__init__(f"measured on {words}; what we say is about a GB10 (12.1)")
        self.claims = claims
